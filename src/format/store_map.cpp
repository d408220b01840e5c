#include "format/store_map.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/math.h"
#include "base/printable.h"
#include "format/store_commit.h"

namespace windlass {
namespace {

constexpr int64_t kParamsMax = int64_t{1} << 20;
constexpr int64_t kNameBytesMax = 1024;
constexpr int64_t kElementsMax = int64_t{1} << 48;  // of one parameter
constexpr int64_t kChunkElementsMax = int64_t{1} << 30;
constexpr int64_t kChunkElementsUnit = 256;
constexpr int64_t kChunksMax = int64_t{1} << 26;
constexpr int64_t kElementBytesMax = 64;
constexpr int64_t kSectionsMax = 64;
constexpr int64_t kOwnBytesMax = int64_t{1} << 48;  // of one parameter
constexpr int64_t kRunStateBytesMax = int64_t{16} << 20;
constexpr int64_t kMetaBytesMax = int64_t{4} << 20;

UserError too_large(std::string_view where) {
    return UserError(ExitCode::storage, where, "the store's layout does not fit 63 bits");
}

void require_in(std::string_view where, std::string_view what, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most)
        throw UserError(ExitCode::storage, where, "the store's {} is {}, expected {} to {}", what, value, least, most);
}

void require_bounds(const StoreLayout& layout, std::string_view where) {
    require_in(where, "number of parameters", std::ssize(layout.params), 1, kParamsMax);
    require_in(where, "chunk_elements", layout.chunk_elements, kChunkElementsUnit, kChunkElementsMax);
    require_in(where, "remainder of chunk_elements by 256", layout.chunk_elements % kChunkElementsUnit, 0, 0);
    require_in(where, "number of versions", layout.versions, 1, 2);
    require_in(where, "weight_bytes", layout.weight_bytes, 1, kElementBytesMax);
    require_in(where, "run_state_bytes_max", layout.run_state_bytes_max, 0, kRunStateBytesMax);
    require_in(where, "length of meta", std::ssize(layout.meta), 0, kMetaBytesMax);
    require_in(where, "number of sections", std::ssize(layout.sections), 0, kSectionsMax);
    for (const StoreSection& section : layout.sections) {
        require_in(where, "length of a section name", std::ssize(section.name), 1, kNameBytesMax);
        require_in(where, "section's bytes", section.bytes, 1, kElementBytesMax);
        require_in(where, "section's elements per group", section.per, 1, kChunkElementsMax);
    }
    for (const StoreParam& param : layout.params) {
        require_in(where, "length of a parameter name", std::ssize(param.name), 1, kNameBytesMax);
        require_in(where, "number of elements of " + param.name, param.numel, 1, kElementsMax);
        require_in(where, "number of sections of " + param.name, param.sections, StoreParam::kAllSections,
                   std::ssize(layout.sections));
        require_in(where, "bytes of a weight of " + param.name, param.weight_bytes, 0, kElementBytesMax);
        require_in(where, "number of weights in a group of " + param.name, param.weight_group, 1,
                   param.weight_bytes == 0 ? 1 : kChunkElementsUnit);
        require_in(where, "bytes of state of all of " + param.name, param.own_bytes, 0, kOwnBytesMax);
        require_in(where, "remainder of 256 by the weights in a group of " + param.name,
                   kChunkElementsUnit % param.weight_group, 0, 0);
    }
}

std::string text_of(const StoreLayout& layout, std::string_view where) {
    Json params = Json::array(), sections = Json::array();
    for (const StoreParam& param : layout.params) {
        params.push_back({param.name, param.numel});
        // What is as it mostly is stays away, from the end.
        const std::array<int64_t, 5> fields = {param.sections, param.weight_bytes, param.weight_group,
                                               param.once ? 1 : 0, param.own_bytes};
        constexpr std::array<int64_t, 5> kPlain = {StoreParam::kAllSections, 0, 1, 0, 0};
        size_t last = fields.size();
        while (last > 0 && fields[last - 1] == kPlain[last - 1]) --last;
        for (size_t field = 0; field < last; ++field) params.back().push_back(fields[field]);
    }
    for (const StoreSection& section : layout.sections) sections.push_back({section.name, section.bytes, section.per});
    const Json json = {{"params", std::move(params)},
                       {"chunk_elements", layout.chunk_elements},
                       {"versions", layout.versions},
                       {"weight_bytes", layout.weight_bytes},
                       {"sections", std::move(sections)},
                       {"run_state_bytes_max", layout.run_state_bytes_max},
                       {"meta", layout.meta}};
    std::string text;
    try {
        text = json.dump();
    } catch (const Json::type_error&) {
        throw UserError(ExitCode::storage, where, "a name in the store's layout is not UTF-8");
    }
    text.resize(round_up<size_t>(text.size(), StoreMap::kAlignment), ' ');
    require_in(where, "length of its layout", std::ssize(text), 0, StoreMap::kLayoutBytesMax);
    return text;
}

// Integers that a file claims: a float or a number beyond 63 bits is not one.
int64_t integer(const Json& value) {
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
        throw UserError(ExitCode::storage, "layout", "not a 63-bit integer");
    return value.get<int64_t>();
}

int small_integer(const Json& value) {
    return static_cast<int>(std::clamp<int64_t>(integer(value), -1, INT32_MAX));
}

StoreLayout layout_of(const Json& json) {
    StoreLayout layout;
    for (const Json& param : json.at("params")) {
        const int64_t sections = param.size() > 2 ? integer(param.at(2)) : StoreParam::kAllSections;
        const int weight_bytes = param.size() > 3 ? small_integer(param.at(3)) : 0;
        const int weight_group = param.size() > 4 ? small_integer(param.at(4)) : 1;
        const int versions = param.size() > 5 ? small_integer(param.at(5)) : 0;
        if (versions != 0 && versions != 1) throw std::out_of_range("a parameter has other versions than one or all");
        layout.params.push_back({param.at(0).get<std::string>(), integer(param.at(1)), sections, weight_bytes,
                                 weight_group, versions == 1, param.size() > 6 ? integer(param.at(6)) : 0});
    }
    for (const Json& section : json.at("sections"))
        layout.sections.push_back({section.at(0).get<std::string>(), integer(section.at(1)), integer(section.at(2))});
    layout.chunk_elements = integer(json.at("chunk_elements"));
    layout.versions = small_integer(json.at("versions"));
    layout.weight_bytes = small_integer(json.at("weight_bytes"));
    layout.run_state_bytes_max = integer(json.at("run_state_bytes_max"));
    layout.meta = json.at("meta").get<std::string>();
    return layout;
}

}  // namespace

StoreMap StoreMap::from_text(std::string_view text, std::string_view where) {
    const Json json = parse_json(text, where, ExitCode::storage);
    StoreLayout layout;
    try {
        layout = layout_of(json);
    } catch (const std::exception& error) {
        throw UserError(ExitCode::storage, where, "the store's layout is malformed: {}", excerpt(error.what()));
    }
    return StoreMap(std::move(layout), std::string(text), where);
}

StoreMap::StoreMap(StoreLayout layout, std::string_view where) : StoreMap(layout, text_of(layout, where), where) {}

StoreMap::StoreMap(StoreLayout layout, std::string text, std::string_view where)
    : layout_(std::move(layout)), text_(std::move(text)) {
    require_bounds(layout_, where);
    const auto add = [&](int64_t a, int64_t b) {
        const auto sum = checked_add(a, b);
        if (!sum) throw too_large(where);
        return *sum;
    };
    const auto mul = [&](int64_t a, int64_t b) {
        const auto product = checked_mul(a, b);
        if (!product) throw too_large(where);
        return *product;
    };
    // A whole chunk has at most 2^30 elements of at most 65 * 64 bytes: its own size cannot overflow.
    Start at;
    starts_.reserve(layout_.params.size() + 1);
    for (const StoreParam& param : layout_.params) {
        starts_.push_back(at);
        const int64_t whole = param.numel / layout_.chunk_elements, rest = param.numel % layout_.chunk_elements;
        at.chunk = add(at.chunk, whole + (rest > 0 ? 1 : 0));
        Region& region = at.region(param);
        region.weights = add(region.weights, mul(whole, weight_room(param, layout_.chunk_elements)));
        region.weights = add(region.weights, weight_room(param, rest));
        region.states =
            add(region.states, mul(whole, round_up(state_bytes(param, layout_.chunk_elements), kAlignment)));
        region.states = add(region.states, round_up(state_bytes(param, rest), kAlignment));
        const int64_t first = state_bytes(param, std::min(param.numel, layout_.chunk_elements));
        region.states = add(region.states, round_up(first + param.own_bytes, kAlignment) - round_up(first, kAlignment));
    }
    starts_.push_back(at);
    chunk_count_ = at.chunk;
    require_in(where, "number of chunks", chunk_count_, 1, kChunksMax);
    slots_offset_ = kHeaderBytes + std::ssize(text_);
    slot_bytes_ = commit_record_bytes(chunk_count_, layout_.run_state_bytes_max);
    once_offset_ = slots_offset_ + 2 * slot_bytes_;
    versions_offset_ = add(once_offset_, add(at.once.weights, at.once.states));
    version_bytes_ = add(at.version.weights, at.version.states);
    file_bytes_ = add(versions_offset_, mul(version_bytes_, layout_.versions));
}

int64_t StoreMap::weight_room(const StoreParam& param, int64_t elements) const {
    return round_up(layout_.weight_bytes_of(param, elements), kAlignment);
}

int64_t StoreMap::section_count(const StoreParam& param) const {
    return param.sections == StoreParam::kAllSections ? std::ssize(layout_.sections) : param.sections;
}

int64_t StoreMap::state_bytes(const StoreParam& param, int64_t elements) const {
    int64_t bytes = 0;
    for (int64_t i = 0; i < section_count(param); ++i) {
        const StoreSection& section = layout_.sections[static_cast<size_t>(i)];
        bytes += section_bytes(section.bytes, section.per, elements);
    }
    return bytes;
}

int64_t StoreMap::states_before(const StoreParam& param, int64_t chunks) const {
    if (chunks == 0) return 0;
    const int64_t bytes = state_bytes(param, layout_.chunk_elements);
    return round_up(bytes + param.own_bytes, kAlignment) + (chunks - 1) * round_up(bytes, kAlignment);
}

ChunkRef StoreMap::chunk(int64_t index) const {
    WINDLASS_CHECK(index >= 0 && index < chunk_count_, "chunk {} of {}", index, chunk_count_);
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), index,
                                        [](int64_t value, const Start& start) { return value < start.chunk; });
    const int64_t param = after - starts_.begin() - 1;
    const int64_t first = (index - first_chunk(param)) * layout_.chunk_elements;
    const int64_t numel = layout_.params[static_cast<size_t>(param)].numel;
    return {.param = param, .first = first, .count = std::min(layout_.chunk_elements, numel - first)};
}

bool StoreMap::is_written_once(int64_t index) const {
    return layout_.params[static_cast<size_t>(chunk(index).param)].once;
}

int64_t StoreMap::region_offset(const StoreParam& param, int version) const {
    WINDLASS_CHECK(version >= 0 && version < layout_.versions, "version {} of {}", version, layout_.versions);
    return param.once ? once_offset_ : versions_offset_ + version * version_bytes_;
}

Extent StoreMap::weight_extent(int64_t index, int version) const {
    const ChunkRef ref = chunk(index);
    const StoreParam& param = layout_.params[static_cast<size_t>(ref.param)];
    const Start& start = starts_[static_cast<size_t>(ref.param)];
    const int64_t before = (index - start.chunk) * weight_room(param, layout_.chunk_elements);
    return {.offset = region_offset(param, version) + start.region(param).weights + before,
            .bytes = layout_.weight_bytes_of(param, ref.count)};
}

Extent StoreMap::state_extent(int64_t index, int version) const {
    const ChunkRef ref = chunk(index);
    const StoreParam& param = layout_.params[static_cast<size_t>(ref.param)];
    const Start& start = starts_[static_cast<size_t>(ref.param)];
    const int64_t states = region_offset(param, version) + starts_.back().region(param).weights;
    return {.offset = states + start.region(param).states + states_before(param, index - start.chunk),
            .bytes = state_bytes(param, ref.count) + (ref.first == 0 ? param.own_bytes : 0)};
}

int64_t StoreMap::section_offset(int64_t index, int64_t section) const {
    const ChunkRef ref = chunk(index);
    const int64_t sections = section_count(layout_.params[static_cast<size_t>(ref.param)]), count = ref.count;
    WINDLASS_CHECK(section >= 0 && section < sections, "section {} of {}", section, sections);
    int64_t offset = 0;
    for (int64_t i = 0; i < section; ++i) {
        const StoreSection& before = layout_.sections[static_cast<size_t>(i)];
        offset += section_bytes(before.bytes, before.per, count);
    }
    return offset;
}

}  // namespace windlass
