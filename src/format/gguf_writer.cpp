#include <set>

#include "base/durable_folders.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/math.h"
#include "base/units.h"
#include "format/gguf.h"
#include "tensor/q8_0.h"

namespace windlass {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kVersion = 3;
constexpr int64_t kAlignment = 32;  // of the tensors' bytes: what a reader takes where the file names none
constexpr std::string_view kTemporarySuffix = ".tmp-writing";

// Numbers of the kinds of values.
enum class Kind : uint32_t { u32 = 4, i32 = 5, f32 = 6, boolean = 7, string = 8, array = 9 };

// Little-endian, as is every machine that this runs on.
class Header {
  public:
    template <typename Number>
    void put(Number number) {
        text_.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    void put(Kind kind) { put(static_cast<uint32_t>(kind)); }
    void put_text(std::string_view text) {
        put(static_cast<uint64_t>(text.size()));
        text_.append(text);
    }
    void put_raw(std::string_view text) { text_.append(text); }

    void put_value(uint32_t value) { put(Kind::u32), put(value); }
    void put_value(float value) { put(Kind::f32), put(value); }
    void put_value(bool value) { put(Kind::boolean), put(static_cast<uint8_t>(value)); }
    void put_value(const std::string& value) { put(Kind::string), put_text(value); }
    void put_value(const std::vector<int32_t>& list) {
        put_list(Kind::i32, list.size());
        for (const int32_t value : list) put(value);
    }
    void put_value(const std::vector<float>& list) {
        put_list(Kind::f32, list.size());
        for (const float value : list) put(value);
    }
    void put_value(const std::vector<bool>& list) {
        put_list(Kind::boolean, list.size());
        for (const bool value : list) put(static_cast<uint8_t>(value));
    }
    void put_value(const std::vector<std::string>& list) {
        put_list(Kind::string, list.size());
        for (const std::string& value : list) put_text(value);
    }

    std::string take() {
        text_.resize(round_up<size_t>(text_.size(), kAlignment), '\0');
        return std::move(text_);
    }

  private:
    void put_list(Kind kind, size_t count) {
        put(Kind::array), put(kind);
        put(static_cast<uint64_t>(count));
    }
    std::string text_;
};

// Dimensions are written innermost first; offsets count from the first tensor's byte.
std::string header_text(const std::vector<GgufField>& fields, const std::vector<GgufTensor>& tensors) {
    Header header;
    header.put_raw(kMagic);
    header.put(kVersion);
    header.put(static_cast<uint64_t>(tensors.size()));
    header.put(static_cast<uint64_t>(fields.size()));
    for (const GgufField& field : fields) {
        header.put_text(field.key);
        std::visit([&](const auto& value) { header.put_value(value); }, field.value);
    }
    int64_t offset = 0;
    for (const GgufTensor& tensor : tensors) {
        header.put_text(tensor.name);
        header.put(static_cast<uint32_t>(tensor.shape.rank()));
        for (int axis = tensor.shape.rank(); axis-- > 0;) header.put(static_cast<uint64_t>(tensor.shape[axis]));
        header.put(static_cast<uint32_t>(tensor.type));
        header.put(static_cast<uint64_t>(offset));
        offset += round_up<int64_t>(tensor.bytes(), kAlignment);
    }
    return header.take();
}

void check_lists(const std::vector<GgufField>& fields, const std::vector<GgufTensor>& tensors) {
    std::set<std::string_view> keys, names;
    for (const GgufField& field : fields)
        WINDLASS_CHECK(keys.insert(field.key).second, "field \"{}\" is listed twice", field.key);
    for (const GgufTensor& tensor : tensors) {
        WINDLASS_CHECK(names.insert(tensor.name).second, "tensor \"{}\" is listed twice", tensor.name);
        WINDLASS_CHECK(tensor.name.size() <= kGgufNameBytesMax, "tensor \"{}\": too long a name", tensor.name);
        const Shape& shape = tensor.shape;
        WINDLASS_CHECK(shape.rank() > 0 && shape.rank() <= 4 && shape[shape.rank() - 1] % gguf_block(tensor.type) == 0,
                       "tensor \"{}\": {} of {}", tensor.name, shape.to_string(), gguf_type_name(tensor.type));
    }
}

bool is_gguf(FileSystem& files, const std::string& path) {
    if (!files.status(path).is_regular || files.status(path).bytes < std::ssize(kMagic)) return false;
    std::string start(kMagic.size(), '\0');
    files.open(path, {.mode = OpenMode::read})->read_at(std::as_writable_bytes(std::span(start)), 0);
    return start == kMagic;
}

}  // namespace

std::optional<GgufType> gguf_type_from_name(std::string_view name) {
    for (const GgufType type : {GgufType::f32, GgufType::f16, GgufType::bf16, GgufType::q8_0}) {
        if (gguf_type_name(type) == name) return type;
    }
    return std::nullopt;
}

std::string_view gguf_type_name(GgufType type) {
    switch (type) {
        case GgufType::f32:
            return "f32";
        case GgufType::f16:
            return "f16";
        case GgufType::bf16:
            return "bf16";
        case GgufType::q8_0:
            return "q8_0";
    }
    return "";
}

int64_t gguf_block(GgufType type) {
    return type == GgufType::q8_0 ? kQ8Block : 1;
}

int64_t gguf_bytes(GgufType type, int64_t count) {
    if (type == GgufType::q8_0) return div_exact<int64_t>(count, kQ8Block) * kQ8BlockBytes;
    return count * (type == GgufType::f32 ? 4 : 2);
}

GgufWriter::GgufWriter(FileSystem& files, std::string target, std::vector<GgufTensor> tensors, bool overwrite)
    : files_(files),
      target_(std::move(target)),
      temporary_(fmt::format("{}{}", target_, kTemporarySuffix)),
      overwrite_(overwrite),
      tensors_(std::move(tensors)) {}

// Delegates, so that the destructor cleans up when anything below throws.
GgufWriter::GgufWriter(FileSystem& files, const std::string& target, const std::vector<GgufField>& fields,
                       std::vector<GgufTensor> tensors, bool overwrite)
    : GgufWriter(files, target, std::move(tensors), overwrite) {
    check_lists(fields, tensors_);
    check_target();
    const std::string header = header_text(fields, tensors_);
    int64_t bytes = std::ssize(header);
    for (const GgufTensor& tensor : tensors_) bytes += round_up<int64_t>(tensor.bytes(), kAlignment);
    const std::string parent = parent_folder(target_);
    make_durable_folders(files_, parent);
    const int64_t free = files_.free_bytes(parent);
    if (bytes > free)
        throw UserError(ExitCode::storage, target_, "the file takes {}, {} are free", format_bytes(bytes),
                        format_bytes(free))
            .hint("--to on a larger disk, or --type q8_0");
    files_.remove_tree(temporary_);
    file_ = files_.open(temporary_, {.mode = OpenMode::create_new});
    file_->preallocate(bytes);
    file_->write_at(std::as_bytes(std::span(header)), 0);
    file_bytes_ = std::ssize(header);
}

GgufWriter::~GgufWriter() {
    if (file_ == nullptr) return;
    try {
        file_.reset();
        files_.remove_tree(temporary_);
    } catch (const Error&) {
        // What is left is removed by the next writer of the same target.
    }
}

void GgufWriter::check_target() const {
    if (!files_.exists(target_)) return;
    if (!overwrite_) throw UserError(ExitCode::storage, target_, "is there already").hint("--overwrite");
    if (!is_gguf(files_, target_))
        throw UserError(ExitCode::storage, target_, "is not a GGUF file: it is not replaced").hint("another name");
}

void GgufWriter::write(std::span<const std::byte> bytes) {
    WINDLASS_CHECK(tensor_ < tensors_.size(), "bytes after the last tensor");
    const int64_t all = tensors_[tensor_].bytes();
    WINDLASS_CHECK(std::ssize(bytes) <= all - written_, "{} bytes at {} of tensor \"{}\", which has {}", bytes.size(),
                   written_, tensors_[tensor_].name, all);
    file_->write_at(bytes, file_bytes_);
    file_bytes_ += std::ssize(bytes);
    written_ += std::ssize(bytes);
    if (written_ == all) pass_padding();
}

// preallocate() left zeros there.
void GgufWriter::pass_padding() {
    file_bytes_ = round_up<int64_t>(file_bytes_, kAlignment);
    written_ = 0;
    ++tensor_;
}

void GgufWriter::finish() {
    WINDLASS_CHECK(tensor_ == tensors_.size(), "tensor \"{}\" was not written whole", tensors_[tensor_].name);
    file_->sync();
    check_target();
    files_.rename(temporary_, target_);
    files_.sync_folder(parent_folder(target_));
    file_.reset();
}

}  // namespace windlass
