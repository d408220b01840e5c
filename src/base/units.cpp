#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace windlass {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 15> kSuffixes = {{
    {"", 1.0},
    {"B", 1.0},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"K", 0x1p10},
    {"M", 0x1p20},
    {"G", 0x1p30},
    {"T", 0x1p40},
    {"KiB", 0x1p10},
    {"MiB", 0x1p20},
    {"GiB", 0x1p30},
    {"TiB", 0x1p40},
}};

std::string scaled(double value, double base, const std::array<const char*, 5>& names) {
    size_t unit = 0;
    while (std::abs(value) >= base && unit + 1 < names.size()) value /= base, ++unit;
    return unit == 0 ? fmt::format("{:.0f} {}", value, names[0]) : fmt::format("{:.2f} {}", value, names[unit]);
}

// What to type for a place that is a flag or a key.
std::string with_value(std::string_view where, const std::string& value) {
    if (where.empty()) return value;
    return fmt::format("{}{}{}", where, where.starts_with("--") ? " " : ": ", value);
}

}  // namespace

std::string format_bytes(int64_t bytes) {
    return scaled(static_cast<double>(bytes), 1024.0, {"B", "KiB", "MiB", "GiB", "TiB"});
}

std::string size_to_type(int64_t bytes) {
    constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < kUnits.size()) value /= 1024.0, ++unit;
    const int decimals = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
    const double steps = decimals == 2 ? 100 : decimals == 1 ? 10 : 1;  // of a unit
    return fmt::format("{:.{}f}{}", std::ceil(value * steps) / steps, decimals, kUnits[unit]);
}

std::string format_count(int64_t count) {
    if (count < 1000) return fmt::format("{}", count);
    return scaled(static_cast<double>(count), 1000.0, {"", "K", "M", "B", "T"});
}

std::string format_seconds(double seconds) {
    if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
    if (seconds < 1.0) return fmt::format("{:.1f} ms", seconds * 1e3);
    if (seconds < 120.0) return fmt::format("{:.2f} s", seconds);
    const int64_t whole = static_cast<int64_t>(std::llround(seconds));
    return fmt::format("{:02}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

int64_t parse_bytes(std::string_view text, std::string_view where, int64_t total) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
    while (suffix.starts_with(' ')) suffix.remove_prefix(1);
    const auto bad = [&] {
        return UserError(ExitCode::usage, where, "\"{}\" is not a size", text)
            .hint("a number with a unit, such as 4GiB, 512MB or 80%");
    };
    if (error != std::errc() || !(number >= 0)) throw bad();
    // "8" means eight somethings, and hardly bytes.
    if (suffix.empty() && number > 0 && number < static_cast<double>(kMiB))
        throw UserError(ExitCode::usage, where, "{} what? A size has a unit", text)
            .hint(with_value(where, fmt::format("{}GiB", text)));
    if (suffix == "%" && total <= 0)
        throw UserError(ExitCode::usage, where, "\"{}\" is a share, but there is nothing that it could be a share of",
                        text)
            .hint("a number with a unit, such as 4GiB or 512MB");
    if (suffix == "%") {
        if (number > 100) throw bad();
        return static_cast<int64_t>(static_cast<double>(total) * number / 100.0);
    }
    for (const auto& [name, factor] : kSuffixes) {
        if (name == suffix && number * factor < 0x1p62) return static_cast<int64_t>(number * factor);
    }
    throw bad();
}

}  // namespace windlass
