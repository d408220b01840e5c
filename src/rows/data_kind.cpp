#include "rows/data_kind.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"

namespace windlass {
namespace {

struct LayoutEnding {
    std::string_view ending;
    RowLayout layout;
};
constexpr std::array<LayoutEnding, 6> kLayouts = {{{".jsonl", RowLayout::lines},
                                                   {".ndjson", RowLayout::lines},
                                                   {".json", RowLayout::json},
                                                   {".csv", RowLayout::csv},
                                                   {".tsv", RowLayout::tabs},
                                                   {".txt", RowLayout::documents}}};

struct CompressionEnding {
    std::string_view ending;
    Compression compression;
    std::string_view first_bytes;
};
constexpr std::array<CompressionEnding, 3> kCompressions = {{{".gz", Compression::gzip, "\x1F\x8B"},
                                                             {".zst", Compression::zstd, "\x28\xB5\x2F\xFD"},
                                                             {".xz", Compression::xz, "\xFD\x37zXZ"}}};

constexpr std::array<std::string_view, 6> kArchives = {".tar", ".tgz", ".zip", ".7z", ".rar", ".txz"};
// The kinds of tables that the Python library `datasets` exports.
constexpr std::array<std::string_view, 2> kTables = {".parquet", ".arrow"};

constexpr const char* kConvert =
    "convert it to .jsonl (one JSON object a line), .json (an array of objects), .csv, .tsv or .txt";

// From the last dot of the last part of a path.
std::string_view last_ending(std::string_view path) {
    const size_t name = path.rfind('/') + 1;  // 0 without a slash
    const size_t dot = path.rfind('.');
    return dot == std::string_view::npos || dot < name ? "" : path.substr(dot);
}

bool is_ending(std::string_view given, std::string_view ending) {
    return std::ranges::equal(given, ending,
                              [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

const CompressionEnding* compression_ending(std::string_view ending) {
    const auto at =
        std::ranges::find_if(kCompressions, [&](const auto& each) { return is_ending(ending, each.ending); });
    return at == kCompressions.end() ? nullptr : at;
}

bool among(std::string_view given, auto&& endings) {
    return std::ranges::any_of(endings, [&](std::string_view each) { return is_ending(given, each); });
}

// Whether a shell takes these characters as they are between single quotes inside of double ones.
bool is_plain(std::string_view path) {
    return std::ranges::all_of(path, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("/._-+=,@*?[]: ").find(c) != std::string_view::npos;
    });
}

std::string export_command(std::string_view type, std::string_view path) {
    return fmt::format(
        "python -c \"from datasets import load_dataset as d; "
        "d('{}', data_files='{}', split='train').to_json('rows.jsonl')\"",
        type, is_plain(path) ? path : "FILES");
}

// By its mark, or as every second one of the first bytes is NUL: letters of the languages that most rows are in.
bool is_utf16(std::string_view first_bytes) {
    constexpr size_t kLooked = 16;
    if (first_bytes.starts_with("\xFF\xFE") || first_bytes.starts_with("\xFE\xFF")) return true;
    if (first_bytes.size() < kLooked) return false;
    const auto nul_from = [&](size_t from) {
        for (size_t i = 0; i < kLooked; ++i)
            if ((first_bytes[i] == '\0') != (i % 2 == from)) return false;
        return true;
    };
    return nul_from(0) || nul_from(1);
}

}  // namespace

std::string_view name_of(Compression compression) {
    switch (compression) {
        case Compression::none:
            return "plain";
        case Compression::gzip:
            return "gzip";
        case Compression::zstd:
            return "zstd";
        case Compression::xz:
            return "xz";
    }
    return "";
}

std::string_view ending_of(Compression compression) {
    const auto at = std::ranges::find(kCompressions, compression, &CompressionEnding::compression);
    return at == kCompressions.end() ? "" : at->ending;
}

std::string_view data_ending(std::string_view path) {
    const std::string_view last = last_ending(path);
    if (compression_ending(last) == nullptr) return last;
    const std::string_view inner = last_ending(path.substr(0, path.size() - last.size()));
    return path.substr(path.size() - last.size() - inner.size());
}

std::optional<DataKind> find_data_kind(std::string_view path) {
    DataKind kind;
    std::string_view ending = last_ending(path);
    if (const CompressionEnding* const found = compression_ending(ending)) {
        kind.compression = found->compression;
        ending = last_ending(path.substr(0, path.size() - ending.size()));
    }
    const auto layout =
        std::ranges::find_if(kLayouts, [&](const auto& each) { return is_ending(ending, each.ending); });
    if (layout == kLayouts.end()) return std::nullopt;
    kind.layout = layout->layout;
    return kind;
}

DataKind data_kind(const std::string& path) {
    if (const std::optional<DataKind> kind = find_data_kind(path)) return *kind;
    const std::string_view ending = data_ending(path), last = last_ending(path);
    const bool is_compressed = compression_ending(last) != nullptr;
    const std::string_view inner = ending.substr(0, ending.size() - (is_compressed ? last.size() : 0));
    if (is_compressed && inner.empty())
        throw UserError(ExitCode::data, path, "the name does not say of which kind the file in it is")
            .hint(fmt::format("give it the ending of what it holds, such as .jsonl{}", last));
    UserError error(ExitCode::data, path, "the kind of file \"{}\" is not read", ending);
    if (among(inner, kArchives)) throw error.hint("unpack it, and name the files that it holds");
    if (const auto command = table_export(path)) throw error.hint(fmt::format("convert it to .jsonl: {}", *command));
    throw error.hint(kConvert);
}

std::optional<std::string> table_export(std::string_view path) {
    const std::string_view ending = last_ending(path);
    if (!among(ending, kTables)) return std::nullopt;
    return export_command(is_ending(ending, ".parquet") ? "parquet" : "arrow", path);
}

std::string saved_export(std::string_view folder, std::string_view part) {
    const bool whole = part.empty(), plain = is_plain(folder) && is_plain(part);
    return fmt::format("python -c \"from datasets import load_from_disk as d; d('{}'){}.to_json('rows.jsonl')\"",
                       plain ? folder : "FOLDER", whole ? "" : fmt::format("['{}']", plain ? part : "PART"));
}

Compression compression_of(std::string_view first_bytes) {
    for (const CompressionEnding& each : kCompressions)
        if (first_bytes.starts_with(each.first_bytes)) return each.compression;
    return Compression::none;
}

void refuse_what_is_no_text(const std::string& path, Compression compression, std::string_view first_bytes) {
    constexpr size_t kTarMarkAt = 257;
    const std::string what =
        compression == Compression::none ? "the file" : fmt::format("what the {} file holds", name_of(compression));
    const auto refuse = [&](std::string_view found, std::string_view hint) {
        throw UserError(ExitCode::data, path, "{} is {}", what, found).hint(hint);
    };
    if (const Compression inner = compression_of(first_bytes); inner != Compression::none)
        refuse(fmt::format("{} data, which its name does not say", name_of(inner)),
               compression == Compression::none
                   ? fmt::format("rename it to end in {}{}", last_ending(path), ending_of(inner))
                   : "decompress it once");
    const bool is_tar = first_bytes.size() > kTarMarkAt && first_bytes.substr(kTarMarkAt).starts_with("ustar");
    if (is_tar || first_bytes.starts_with("PK\x03\x04"))
        refuse(is_tar ? "a tar archive" : "a zip archive", "unpack it, and name the files that it holds");
    if (first_bytes.starts_with("PAR1"))
        refuse("parquet, which is not read", fmt::format("convert it: {}", export_command("parquet", path)));
    if (is_utf16(first_bytes)) refuse("in UTF-16, and only UTF-8 is read", "iconv -f UTF-16 -t UTF-8 FILE > NEW");
}

}  // namespace windlass
