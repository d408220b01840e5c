#include "format/trajectory_header.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "format/checksum.h"

namespace windlass {
namespace {

static_assert(std::endian::native == std::endian::little, "files of ours are little-endian, and so are the machines");

constexpr std::array<char, 8> kTrajectoryMagic = {'W', 'N', 'D', 'L', 'T', 'R', 'A', 'J'};
constexpr uint32_t kTrajectoryMajor = 1, kTrajectoryMinor = 0;
constexpr int64_t kTextBytesMax = int64_t{1} << 20;
constexpr int64_t kCountMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kRankMax = 65536;
constexpr int64_t kWindowMax = std::numeric_limits<uint32_t>::max();
constexpr int64_t kStepMax = std::numeric_limits<uint32_t>::max();
constexpr std::array<std::string_view, 3> kNoiseNames = {"gaussian", "rademacher", "low_rank"};
constexpr std::array<std::string_view, 2> kKeptNames = {"right", "both"};
constexpr std::array<std::string_view, 2> kRoundingNames = {"nearest", "stochastic"};

struct Prelude {
    std::array<char, 8> magic = kTrajectoryMagic;
    uint32_t major = kTrajectoryMajor;
    uint32_t minor = kTrajectoryMinor;
    int64_t text_bytes = 0;
    uint64_t header_sum = 0;  // of all before it, and of the text
    int64_t synced = 0;
    uint64_t mark_sum = 0;  // of header_sum and synced
};
static_assert(sizeof(Prelude) == 48 && offsetof(Prelude, synced) == kTrajectoryMarkOffset);

uint64_t header_sum_of(const Prelude& prelude, std::string_view text) {
    Xxh3Stream sum;
    sum.add(std::as_bytes(std::span(&prelude, 1)).first(offsetof(Prelude, header_sum)));
    sum.add(bytes_of(text));
    return sum.sum();
}

uint64_t mark_sum_of(uint64_t header_sum, int64_t synced) {
    const std::array<uint64_t, 2> words = {header_sum, static_cast<uint64_t>(synced)};
    return xxh3_64(std::as_bytes(std::span(words)));
}

std::string hex(uint64_t value) {
    return fmt::format("{:016x}", value);
}

UserError damaged_log(std::string_view where, std::string_view what) {
    return UserError(ExitCode::storage, where, "{}: the file is damaged or not a trajectory log", what);
}

// The values of a JSON object, each held to its bounds.
class Fields {
  public:
    Fields(const Json& object, std::string_view where) : object_(object), where_(where) {
        if (!object.is_object()) throw damaged_log(where, "the header is not a JSON object");
    }
    bool has(const char* key) const { return object_.contains(key); }
    const Json& at(const char* key) const {
        const auto found = object_.find(key);
        if (found == object_.end()) throw damaged_log(where_, fmt::format("the header lacks \"{}\"", key));
        return *found;
    }
    Fields inner(const char* key) const { return {at(key), where_}; }
    std::string text(const char* key) const {
        if (!at(key).is_string()) throw wrong(key, "a string");
        return at(key).get<std::string>();
    }
    uint64_t word(const char* key) const {
        if (!at(key).is_number_unsigned()) throw wrong(key, "a count");
        return at(key).get<uint64_t>();
    }
    int64_t count(const char* key, int64_t least, int64_t most) const {
        const uint64_t value = word(key);
        if (value < static_cast<uint64_t>(least) || value > static_cast<uint64_t>(most))
            throw wrong(key, fmt::format("{} .. {}", least, most));
        return static_cast<int64_t>(value);
    }
    double number(const char* key) const {
        if (!at(key).is_number()) throw wrong(key, "a number");
        return at(key).get<double>();
    }
    uint64_t hash(const char* key) const {
        const std::string digits = text(key);
        uint64_t value = 0;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
        if (digits.size() != 16 || error != std::errc{} || end != digits.data() + digits.size())
            throw wrong(key, "16 hexadecimal digits");
        return value;
    }
    size_t choice(const char* key, std::span<const std::string_view> names) const {
        const auto found = std::ranges::find(names, text(key));
        if (found == names.end()) throw wrong(key, fmt::format("{}", fmt::join(names, " | ")));
        return static_cast<size_t>(found - names.begin());
    }
    UserError wrong(const char* key, std::string_view want) const {
        return UserError(ExitCode::storage, where_, "the log's header has \"{}\": {}, expected {}", key,
                         at(key).dump(-1, ' ', false, Json::error_handler_t::replace), want);
    }

  private:
    const Json& object_;
    std::string_view where_;
};

std::string text_of(const TrajectoryHeader& header, std::string_view where) {
    const TrajectoryNoise& noise = header.noise;
    const TrajectoryBase& base = header.base;
    Json json = {
        {"method", header.method},
        {"run_seed", header.run_seed},
        {"noise",
         {{"kind", kNoiseNames[static_cast<size_t>(noise.kind)]},
          {"revision", noise.revision},
          {"rank", noise.rank},
          {"window", noise.window}}},
        {"directions", header.directions},
        {"eps", header.eps},
        {"storage", dtype_name(header.storage)},
        {"rounding", kRoundingNames[header.stochastic_rounding ? 1 : 0]},
        {"first_step", header.first_step},
        {"base",
         {{"name", base.name},
          {"elements", base.elements},
          {"table", hex(base.table_sum)},
          {"weights", hex(base.weights_sum)}}},
        {"settings", parse_json(header.settings, where, ExitCode::internal)},
    };
    if (noise.kind == TrajectoryNoiseKind::low_rank) json["noise"]["kept"] = kKeptNames[noise.keeps_left ? 1 : 0];
    if (const auto& origin = header.origin)
        json["origin"] = {{"file", origin->file}, {"step", origin->step}, {"history", hex(origin->history_sum)}};
    // Names of files may be any bytes; those that are no UTF-8 lose only what nothing depends on.
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TrajectoryNoise parse_noise(const Fields& fields) {
    TrajectoryNoise noise{.kind = static_cast<TrajectoryNoiseKind>(fields.choice("kind", kNoiseNames)),
                          .revision = fields.count("revision", 1, kStepMax)};
    const bool has_factors = noise.kind == TrajectoryNoiseKind::low_rank;
    noise.rank = fields.count("rank", has_factors ? 1 : 0, has_factors ? kRankMax : 0);
    noise.window = fields.count("window", 0, has_factors ? kWindowMax : 0);
    noise.keeps_left = has_factors && fields.choice("kept", kKeptNames) == 1;
    return noise;
}

TrajectoryHeader parse_header(std::string_view text, std::string_view where) {
    const Json json = parse_json(text, where, ExitCode::storage);
    const Fields fields(json, where), base = fields.inner("base");
    TrajectoryHeader header{.method = fields.text("method"),
                            .run_seed = fields.word("run_seed"),
                            .noise = parse_noise(fields.inner("noise")),
                            .directions = fields.count("directions", 1, TrajectoryHeader::kDirectionsMax),
                            .eps = fields.number("eps"),
                            .stochastic_rounding = fields.choice("rounding", kRoundingNames) == 1,
                            .first_step = static_cast<uint32_t>(fields.count("first_step", 1, kStepMax)),
                            .base = {.name = base.text("name"),
                                     .elements = base.count("elements", 0, kCountMax),
                                     .table_sum = base.hash("table"),
                                     .weights_sum = base.hash("weights")},
                            .settings = fields.at("settings").dump()};
    if (header.method.empty()) throw fields.wrong("method", "a name");
    if (!std::isfinite(header.eps) || header.eps < 0) throw fields.wrong("eps", "0 or more");
    const auto storage = dtype_from_name(fields.text("storage"));
    if (!storage) throw fields.wrong("storage", "an element type");
    header.storage = *storage;
    if (!fields.has("origin")) return header;
    const Fields origin = fields.inner("origin");
    const auto step = static_cast<uint32_t>(origin.count("step", int64_t{header.first_step} - 1, kStepMax));
    header.origin = {.file = origin.text("file"), .step = step, .history_sum = origin.hash("history")};
    return header;
}

}  // namespace

uint64_t trajectory_table_sum(std::span<const TrajectoryParam> table) {
    Xxh3Stream sum;
    const auto add_word = [&](int64_t word) { sum.add(std::as_bytes(std::span(&word, 1))); };
    const auto add_text = [&](std::string_view text) {
        add_word(std::ssize(text));
        sum.add(bytes_of(text));
    };
    add_word(std::ssize(table));
    for (const TrajectoryParam& param : table) {
        add_text(param.name);
        add_text(dtype_name(param.dtype));
        add_word(param.shape.rank());
        for (const int64_t extent : param.shape.dims()) add_word(extent);
        add_word(param.trainable ? 1 : 0);
        add_word(param.decay ? 1 : 0);
    }
    return sum.sum();
}

void require_trajectory_base(const TrajectoryHeader& header, const TrajectoryBase& got, std::string_view where) {
    const TrajectoryBase& want = header.base;
    const auto refuse = [&](std::string_view what, const auto& has, const auto& expected) {
        throw UserError(ExitCode::model, where, "the log belongs to \"{}\", not to \"{}\": {} {}, expected {}",
                        want.name, got.name, what, has, expected)
            .hint("the model folder that this run started from");
    };
    if (got.elements != want.elements) refuse("number of elements", got.elements, want.elements);
    if (got.table_sum != want.table_sum)
        refuse("checksum of the parameter table", hex(got.table_sum), hex(want.table_sum));
    if (got.weights_sum != want.weights_sum)
        refuse("checksum of the weights", hex(got.weights_sum), hex(want.weights_sum));
}

std::string encode_trajectory_front(const TrajectoryHeader& header, std::string_view where) {
    const std::string text = text_of(header, where);
    if (std::ssize(text) > kTextBytesMax)
        throw UserError(ExitCode::storage, where, "the log's header has {} bytes, at most {} are read", text.size(),
                        kTextBytesMax);
    parse_header(text, where);
    Prelude prelude{.text_bytes = std::ssize(text)};
    prelude.header_sum = header_sum_of(prelude, text);
    prelude.mark_sum = mark_sum_of(prelude.header_sum, 0);
    std::string front(sizeof(prelude), '\0');
    std::memcpy(front.data(), &prelude, sizeof(prelude));
    return front + text;
}

std::array<std::byte, kTrajectoryMarkBytes> encode_trajectory_mark(uint64_t header_sum, int64_t synced) {
    const uint64_t sum = mark_sum_of(header_sum, synced);
    std::array<std::byte, kTrajectoryMarkBytes> mark{};
    std::memcpy(mark.data(), &synced, sizeof(synced));
    std::memcpy(mark.data() + sizeof(synced), &sum, sizeof(sum));
    return mark;
}

TrajectoryFront read_trajectory_front(File& file) {
    Prelude prelude;
    const auto prelude_bytes = static_cast<int64_t>(sizeof(prelude));
    const int64_t file_bytes = file.size();
    if (file_bytes < prelude_bytes) throw damaged_log(file.path(), "the log's header is cut off");
    file.read_at(std::as_writable_bytes(std::span(&prelude, 1)), 0);
    if (prelude.magic != kTrajectoryMagic) throw damaged_log(file.path(), "no header of a trajectory log");
    if (prelude.major != kTrajectoryMajor)
        throw UserError(ExitCode::storage, file.path(), "trajectory log version {}.{}, this program reads {}.x",
                        prelude.major, prelude.minor, kTrajectoryMajor)
            .hint("the version of windlass that wrote it");
    const bool bounded = prelude.text_bytes >= 0 && prelude.text_bytes <= kTextBytesMax;
    if (!bounded || prelude.text_bytes > file_bytes - prelude_bytes)
        throw damaged_log(file.path(), "wrong size in the log's header");
    std::string text(static_cast<size_t>(prelude.text_bytes), '\0');
    file.read_at(std::as_writable_bytes(std::span(text)), prelude_bytes);
    if (prelude.header_sum != header_sum_of(prelude, text))
        throw damaged_log(file.path(), "wrong checksum of the log's header");
    TrajectoryFront front{.header = parse_header(text, file.path()),
                          .header_sum = prelude.header_sum,
                          .bytes = prelude_bytes + prelude.text_bytes};
    const bool mark_bounded = prelude.synced >= 0 && prelude.synced <= kStepMax;
    const bool mark_holds = mark_bounded && prelude.mark_sum == mark_sum_of(front.header_sum, prelude.synced);
    if (mark_holds) front.synced = prelude.synced;
    return front;
}

}  // namespace windlass
