#include "schedule/machine_text.h"

#include <charconv>
#include <iterator>
#include <variant>

#include "base/error.h"
#include "base/nearest.h"
#include "base/printable.h"

namespace windlass {
namespace {

struct Unit {
    std::string_view name;
    double factor;
};
constexpr Unit kBytes[] = {{"B", 1},     {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
                           {"PB", 1e15}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
constexpr Unit kBytesPerSecond[] = {{"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}};
constexpr Unit kFlops[] = {{"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
constexpr Unit kSeconds[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};

using Field =
    std::variant<double Machine::*, int64_t Machine::*, int Machine::*, bool Machine::*, std::string Machine::*>;

struct Key {
    std::string_view name;
    Field field;
    double max = 0;  // of a number
    std::span<const Unit> units = {};
};

constexpr double kCapacityMax = 1e15, kRateMax = 1e15, kFlopsMax = 1e18, kCountMax = 65536, kPriceMax = 1e12;

constexpr Key kKeys[] = {
    {"name", &Machine::name},
    {"threads", &Machine::threads, kCountMax},
    {"unified_memory", &Machine::unified_memory},
    {"memory_bytes", &Machine::memory_bytes, kCapacityMax, kBytes},
    {"device_memory_bytes", &Machine::device_memory_bytes, kCapacityMax, kBytes},
    {"device_has_display", &Machine::device_has_display},
    {"disk_bytes", &Machine::disk_bytes, kCapacityMax, kBytes},
    {"gemm_bf16_flops", &Machine::gemm_bf16_flops, kFlopsMax, kFlops},
    {"gemm_f32_flops", &Machine::gemm_f32_flops, kFlopsMax, kFlops},
    {"narrow_bf16_flops", &Machine::narrow_bf16_flops, kFlopsMax, kFlops},
    {"narrow_f32_flops", &Machine::narrow_f32_flops, kFlopsMax, kFlops},
    {"attention_bf16_flops", &Machine::attention_bf16_flops, kFlopsMax, kFlops},
    {"attention_f32_flops", &Machine::attention_f32_flops, kFlopsMax, kFlops},
    {"one_thread_gain", &Machine::one_thread_gain, kCountMax},
    {"memory_bytes_per_s", &Machine::memory_bytes_per_s, kRateMax, kBytesPerSecond},
    {"device_memory_bytes_per_s", &Machine::device_memory_bytes_per_s, kRateMax, kBytesPerSecond},
    {"link_up_bytes_per_s", &Machine::link_up_bytes_per_s, kRateMax, kBytesPerSecond},
    {"link_down_bytes_per_s", &Machine::link_down_bytes_per_s, kRateMax, kBytesPerSecond},
    {"link_both_bytes_per_s", &Machine::link_both_bytes_per_s, kRateMax, kBytesPerSecond},
    {"disk_read_bytes_per_s", &Machine::disk_read_bytes_per_s, kRateMax, kBytesPerSecond},
    {"disk_write_bytes_per_s", &Machine::disk_write_bytes_per_s, kRateMax, kBytesPerSecond},
    {"disk_mixed_bytes_per_s", &Machine::disk_mixed_bytes_per_s, kRateMax, kBytesPerSecond},
    {"checksum_bytes_per_s", &Machine::checksum_bytes_per_s, kRateMax, kBytesPerSecond},
    {"update_bytes_per_s", &Machine::update_bytes_per_s, kRateMax, kBytesPerSecond},
    {"update_busy_factor", &Machine::update_busy_factor, 1},
    {"noise_per_s", &Machine::noise_per_s, kRateMax},
    {"task_seconds", &Machine::task_seconds, 1, kSeconds},
    {"kernel_seconds", &Machine::kernel_seconds, 1, kSeconds},
    {"price_per_hour", &Machine::price_per_hour, kPriceMax},
    {"purchase_price", &Machine::purchase_price, kPriceMax},
    {"service_years", &Machine::service_years, 100},
    {"drives", &Machine::drives, kCountMax},
    {"endurance_bytes", &Machine::endurance_bytes, 1e21, kBytes},
};

// Lines of rates that have names of their own: "kernel linear forward bf16 4096x1024 512: 3.1 TFLOP/s".
struct NamedRates {
    std::string_view prefix;
    std::map<std::string, double, std::less<>> Machine::*rates;
    double max = 0;
    std::span<const Unit> units;
};
constexpr NamedRates kNamedRates[] = {{"kernel ", &Machine::kernels, kFlopsMax, kFlops},
                                      {"update ", &Machine::updates, kRateMax, kBytesPerSecond},
                                      {"device update ", &Machine::device_updates, kRateMax, kBytesPerSecond}};

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r";
    const size_t begin = text.find_first_not_of(kBlank);
    if (begin == text.npos) return "";
    return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// A comment begins with '#' at the start of a line or after a blank.
std::string_view without_comment(std::string_view line) {
    for (size_t at = line.find('#'); at != line.npos; at = line.find('#', at + 1)) {
        if (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t') return line.substr(0, at);
    }
    return line;
}

// Reads one text; `place` is "where:line".
class Reader {
  public:
    Machine read(std::string_view text, std::string_view where) {
        if (static_cast<int64_t>(text.size()) > kMachineTextMax)
            throw UserError(ExitCode::usage, where, "{} bytes are not a description of a machine", text.size());
        for (int line = 1; !text.empty(); ++line) {
            const size_t end = std::min(text.find('\n'), text.size());
            place_ = fmt::format("{}:{}", where, line);
            if (const std::string_view entry = trimmed(without_comment(text.substr(0, end))); !entry.empty())
                read_entry(entry);
            text.remove_prefix(std::min(end + 1, text.size()));
        }
        check(where);
        return completed(machine_);
    }

  private:
    void read_entry(std::string_view entry) {
        const size_t colon = entry.find(':');
        if (colon == entry.npos)
            throw UserError(ExitCode::usage, place_, "\"{}\" is not \"key: value\"", excerpt(entry));
        const std::string_view name = trimmed(entry.substr(0, colon)), value = trimmed(entry.substr(colon + 1));
        for (const NamedRates& named : kNamedRates) {
            if (name.starts_with(named.prefix)) return read_named(named, name, value);
        }
        const Key* key = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& k) { return k.name == name; });
        if (key == std::end(kKeys)) throw_unknown(name);
        if (const auto [earlier, fresh] = seen_.emplace(key->name, place_); !fresh)
            throw UserError(ExitCode::usage, place_, "\"{}\" is set already, at {}", name, earlier->second);
        assign(*key, value);
    }

    void read_named(const NamedRates& named, std::string_view name, std::string_view value) {
        const Key key{.name = name, .max = named.max, .units = named.units};
        const std::string_view what = trimmed(name.substr(named.prefix.size()));
        if (!(machine_.*named.rates).emplace(what, number(key, value)).second)
            throw UserError(ExitCode::usage, place_, "\"{}\" is set already", excerpt(name));
    }

    [[noreturn]] void throw_unknown(std::string_view name) const {
        UserError error(ExitCode::usage, place_, "there is no key \"{}\"", excerpt(name));
        if (const std::string_view near = nearest_name(name, machine_keys()); !near.empty())
            throw std::move(error).hint(near);
        throw error;
    }

    void assign(const Key& key, std::string_view value) {
        if (const auto* field = std::get_if<std::string Machine::*>(&key.field)) {
            machine_.** field = value;
        } else if (const auto* field = std::get_if<bool Machine::*>(&key.field)) {
            if (value != "true" && value != "false")
                throw UserError(ExitCode::usage, place_, "\"{}\" is neither true nor false, for \"{}\"", excerpt(value),
                                key.name);
            machine_.** field = value == "true";
        } else if (const auto* field = std::get_if<int Machine::*>(&key.field)) {
            machine_.** field = static_cast<int>(number(key, value));
            if (machine_.**field != number(key, value)) throw_number(key, value, "whole");
        } else if (const auto* field = std::get_if<int64_t Machine::*>(&key.field)) {
            machine_.** field = static_cast<int64_t>(number(key, value));
        } else {
            machine_.*std::get<double Machine::*>(key.field) = number(key, value);
        }
    }

    double number(const Key& key, std::string_view value) const {
        double number = 0;
        const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
        if (error != std::errc()) throw_number(key, value, "");
        const std::string_view unit = trimmed(value.substr(static_cast<size_t>(end - value.data())));
        if (!unit.empty()) {
            const auto known =
                std::find_if(key.units.begin(), key.units.end(), [&](const Unit& u) { return u.name == unit; });
            if (known == key.units.end()) throw_number(key, value, "");
            number *= known->factor;
        }
        // Not a number fails both comparisons.
        if (!(number >= 0 && number <= key.max)) throw_number(key, value, fmt::format("between 0 and {}", key.max));
        return number;
    }

    [[noreturn]] void throw_number(const Key& key, std::string_view value, std::string_view what) const {
        UserError error(ExitCode::usage, place_, "\"{}\" is not a number{}{} for \"{}\"", excerpt(value),
                        what.empty() ? "" : " that is ", what, excerpt(key.name));
        if (key.units.empty()) throw error;
        std::vector<std::string_view> units;
        for (const Unit& unit : key.units) units.push_back(unit.name);
        throw std::move(error).hint(fmt::format("a plain number, or one with {}", fmt::join(units, ", ")));
    }

    void check(std::string_view where) const {
        const auto want = [&](bool present, std::string_view key, std::string_view why) {
            if (!present) throw UserError(ExitCode::usage, where, "\"{}\" is missing{}", key, why);
        };
        const Machine& m = machine_;
        want(!m.name.empty(), "name", "");
        want(m.threads > 0, "threads", "");
        want(m.memory_bytes > 0, "memory_bytes", "");
        want(m.memory_bytes_per_s > 0, "memory_bytes_per_s", "");
        want(m.gemm_bf16_flops > 0 || m.gemm_f32_flops > 0, "gemm_bf16_flops", "; gemm_f32_flops would do as well");
        const bool reads = m.disk_read_bytes_per_s > 0, writes = m.disk_write_bytes_per_s > 0;
        want(writes || !reads, "disk_write_bytes_per_s", ", but the machine reads from a disk");
        want(reads || !writes, "disk_read_bytes_per_s", ", but the machine writes to a disk");
        constexpr std::string_view kBeside = ": unified_memory is false, so the device has its own";
        want(m.unified_memory || m.device_memory_bytes > 0, "device_memory_bytes", kBeside);
        want(m.unified_memory || m.device_memory_bytes_per_s > 0, "device_memory_bytes_per_s", kBeside);
        want(m.unified_memory || m.link_up_bytes_per_s > 0, "link_up_bytes_per_s", kBeside);
        if (m.unified_memory && m.device_memory_bytes > 0)
            throw UserError(ExitCode::usage, where, "device_memory_bytes is set, but memory is unified")
                .hint("unified_memory: false");
    }

    Machine machine_;
    std::string place_;
    std::map<std::string_view, std::string> seen_;
};

}  // namespace

std::string machine_text(const Machine& machine) {
    const Machine empty;
    std::string text;
    for (const Key& key : kKeys) {
        std::visit(
            [&](auto field) {
                if (machine.*field != empty.*field || key.name == "threads")
                    text += fmt::format("{}: {}\n", key.name, machine.*field);
            },
            key.field);
    }
    for (const NamedRates& named : kNamedRates) {
        for (const auto& [what, rate] : machine.*named.rates)
            text += fmt::format("{}{}: {}\n", named.prefix, what, rate);
    }
    return text;
}

Machine parse_machine(std::string_view text, std::string_view where) {
    return Reader().read(text, where);
}

std::vector<std::string_view> machine_keys() {
    std::vector<std::string_view> names;
    for (const Key& key : kKeys) names.push_back(key.name);
    return names;
}

}  // namespace windlass
