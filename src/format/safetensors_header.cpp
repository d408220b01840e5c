#include "format/safetensors_header.h"

#include <limits>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "base/json.h"
#include "base/math.h"
#include "base/printable.h"

namespace windlass {
namespace {

// What the parser is in. A header has exactly this nesting, so its depth is bounded by construction.
enum class Level { document, tensors, metadata, tensor, shape, offsets };

constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

// Receives the parser's events and keeps only entries and metadata: a tree of a 100 MB header would take gigabytes.
class HeaderEvents final : public nlohmann::json_sax<Json> {
  public:
    explicit HeaderEvents(std::string_view where) : where_(where) {}
    SafetensorsHeader take() { return std::move(header_); }

    bool start_object(size_t) override {
        if (level_ == Level::document) {
            level_ = Level::tensors;
        } else if (level_ == Level::tensors) {
            level_ = name_ == "__metadata__" ? Level::metadata : Level::tensor;
            entry_ = {};
            entry_.name = name_;
            dims_.clear();
            offsets_.clear();
            seen_ = {};
        } else {
            refuse("an object");
        }
        return true;
    }

    bool end_object() override {
        if (level_ == Level::tensor) finish_entry();
        level_ = level_ == Level::tensors ? Level::document : Level::tensors;
        return true;
    }

    bool key(string_t& key) override {
        switch (level_) {
            case Level::tensors:
                start_name(key);
                break;
            case Level::metadata:
                if (header_.metadata.contains(key)) complain("metadata has the key \"{}\" twice", key);
                field_ = key;
                break;
            default:
                start_field(key);
                break;
        }
        return true;
    }

    bool start_array(size_t) override {
        if (level_ != Level::tensor || field_ == "dtype") refuse("a list");
        level_ = field_ == "shape" ? Level::shape : Level::offsets;
        return true;
    }
    bool end_array() override {
        level_ = Level::tensor;
        return true;
    }

    bool string(string_t& value) override {
        if (level_ == Level::metadata) {
            header_.metadata.emplace(field_, value);
        } else if (level_ == Level::tensor && field_ == "dtype") {
            entry_.dtype_name = value;
        } else {
            refuse("a string");
        }
        return true;
    }

    bool number_unsigned(number_unsigned_t value) override {
        if (level_ != Level::shape && level_ != Level::offsets) refuse("a number");
        if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
            complain("tensor \"{}\": {} in {} does not fit 63 bits", name_, value, field_);
        append(level_ == Level::shape ? dims_ : offsets_, static_cast<int64_t>(value));
        return true;
    }

    bool null() override { return refuse("null"); }
    bool boolean(bool) override { return refuse("a boolean"); }
    bool number_integer(number_integer_t) override { return refuse("a negative number"); }
    bool number_float(number_float_t, const string_t&) override { return refuse("a fraction"); }
    bool binary(binary_t&) override { return refuse("binary data"); }
    bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
        throw UserError(ExitCode::model, where_, "its header is not valid JSON at byte {}: {}", byte,
                        excerpt(error.what()));
    }

  private:
    template <typename... Args>
    [[noreturn]] void complain(fmt::format_string<Args...> format, Args&&... args) const {
        throw UserError(ExitCode::model, where_, "{}", fmt::format(format, std::forward<Args>(args)...));
    }

    [[noreturn]] bool refuse(std::string_view what) const {
        switch (level_) {
            case Level::document:
                complain("its header is {}, expected an object of tensors", what);
            case Level::tensors:
                complain("tensor \"{}\" is {}, expected an object", name_, what);
            case Level::metadata:
                complain("metadata \"{}\" is {}, expected a string", field_, what);
            default:
                complain("tensor \"{}\": {} holds {}", name_, field_, what);
        }
    }

    void start_name(const std::string& name) {
        if (name.size() > kTensorNameBytesMax)
            complain("a tensor's name has {} bytes, at most {} are read", name.size(), kTensorNameBytesMax);
        if (std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
            complain("a tensor's name holds control characters: {}", Json(name).dump());
        if (!names_.insert(name).second) complain("its header names \"{}\" twice", name);
        if (names_.size() > static_cast<size_t>(kTensorsMax)) complain("more than {} tensors", kTensorsMax);
        name_ = name;
    }

    void start_field(const std::string& field) {
        const size_t index = static_cast<size_t>(std::ranges::find(kFields, field) - kFields.begin());
        if (index == kFields.size()) complain("tensor \"{}\" has an unknown field \"{}\"", name_, field);
        if (seen_[index]) complain("tensor \"{}\" has the field \"{}\" twice", name_, field);
        seen_[index] = true;
        field_ = field;
    }

    void append(std::vector<int64_t>& list, int64_t value) const {
        const size_t most = level_ == Level::shape ? Shape::kRankMax : 2;
        if (list.size() == most) complain("tensor \"{}\": {} has more than {} numbers", name_, field_, most);
        list.push_back(value);
    }

    void finish_entry() {
        for (size_t i = 0; i < kFields.size(); ++i) {
            if (!seen_[i]) complain("tensor \"{}\" lacks {}", name_, kFields[i]);
        }
        if (offsets_.size() != 2)
            complain("tensor \"{}\": data_offsets has {} numbers, expected 2", name_, offsets_.size());
        const int64_t bits = safetensors_dtype_bits(entry_.dtype_name);
        if (bits == 0) complain("tensor \"{}\" has the unknown dtype \"{}\"", name_, entry_.dtype_name);
        if (offsets_[1] < offsets_[0])
            complain("tensor \"{}\" ends at byte {}, before its begin {}", name_, offsets_[1], offsets_[0]);
        entry_.offset = offsets_[0];
        entry_.bytes = offsets_[1] - offsets_[0];
        entry_.shape = Shape(dims_);
        entry_.dtype = dtype_from_safetensors(entry_.dtype_name);
        check_bytes(bits);
        header_.entries.push_back(std::move(entry_));
    }

    void check_bytes(int64_t bits) const {
        std::optional<int64_t> total = bits;
        for (const int64_t dim : dims_) {
            if (total) total = checked_mul(*total, dim);
        }
        const std::string shape = entry_.shape.to_string();
        if (!total) complain("tensor \"{}\": the size of shape {} overflows", name_, shape);
        if (*total % 8 != 0)
            complain("tensor \"{}\": shape {} of {} is not whole bytes", name_, shape, entry_.dtype_name);
        if (*total / 8 != entry_.bytes)
            complain("tensor \"{}\" has {} bytes, its shape {} of {} takes {}", name_, entry_.bytes, shape,
                     entry_.dtype_name, *total / 8);
    }

    std::string_view where_;
    SafetensorsHeader header_;
    std::unordered_set<std::string> names_;
    Level level_ = Level::document;
    std::string name_;   // of the tensor
    std::string field_;  // of the tensor, or key of the metadata
    TensorEntry entry_;
    std::vector<int64_t> dims_, offsets_;
    std::array<bool, kFields.size()> seen_{};
};

// Sorted by offset the tensors must follow one another from byte 0 to the end: no hole, no overlap, nothing after.
void check_tiling(const std::vector<TensorEntry>& entries, int64_t data_bytes, std::string_view where) {
    int64_t end = 0;
    for (const TensorEntry& entry : entries) {
        if (entry.offset != end)
            throw UserError(ExitCode::model, where, "tensor \"{}\" starts at data byte {}, expected {}: {}", entry.name,
                            entry.offset, end, entry.offset < end ? "tensors overlap" : "there is a hole before it");
        end = entry.offset + entry.bytes;  // cannot overflow: both come from a checked pair
    }
    if (end != data_bytes)
        throw UserError(ExitCode::model, where, "holds {} data bytes, its header describes {}", data_bytes, end)
            .hint(end > data_bytes ? "the file is cut short; download it again" : "the file has bytes no tensor owns");
}

}  // namespace

int64_t safetensors_dtype_bits(std::string_view name) {
    static const std::map<std::string_view, int64_t> bits = {
        {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
        {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
        {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
        {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
    };
    const auto found = bits.find(name);
    return found == bits.end() ? 0 : found->second;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes, std::string_view where) {
    if (text.empty() || text.front() != '{')
        throw UserError(ExitCode::model, where, "its header does not start with \"{{\": not a safetensors file");
    HeaderEvents events(where);
    Json::sax_parse(text, &events);
    SafetensorsHeader header = events.take();
    std::ranges::sort(header.entries, {}, [](const TensorEntry& e) { return std::pair(e.offset, e.bytes); });
    check_tiling(header.entries, data_bytes, where);
    return header;
}

}  // namespace windlass
