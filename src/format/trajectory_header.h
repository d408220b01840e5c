// trajectory_header.h: what the log of a forward-only run says before its first record: all that replaying it takes
// besides the records and the base model. Grammar: docs/format/trajectory.md.
//
// A header from a file is hostile until its checksum and every bound held; nothing is allocated on its word before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "tensor/tensor.h"

namespace windlass {

enum class TrajectoryNoiseKind : uint8_t { gaussian, rademacher, low_rank };

// How the directions of a step are drawn: from the run's seed, counted by element, step and direction.
struct TrajectoryNoise {
    TrajectoryNoiseKind kind = TrajectoryNoiseKind::gaussian;
    int64_t revision = 1;     // of the generator: the same counters give other bits under another one
    int64_t rank = 0;         // of low_rank: columns of the factors; 0 of the others
    int64_t window = 0;       // of low_rank: steps for which a factor is kept, 0: all steps of the run; 0 of the others
    bool keeps_left = false;  // of low_rank: the left factor is kept as well as the right one
    bool operator==(const TrajectoryNoise&) const = default;
};

// One row of the canonical parameter table.
struct TrajectoryParam {
    std::string_view name;
    DType dtype = DType::f32;  // as stored
    Shape shape;
    bool trainable = true;
    bool decay = true;
};

// Which weights the first step started from.
struct TrajectoryBase {
    std::string name;          // for people: a folder, a model's name; not compared
    int64_t elements = 0;      // of all parameters together
    uint64_t table_sum = 0;    // trajectory_table_sum of the canonical parameter table
    uint64_t weights_sum = 0;  // XXH3-64 of the stored bytes of all parameters, in the table's order
    bool operator==(const TrajectoryBase&) const = default;
};

// Where a branch left another log.
struct TrajectoryOrigin {
    std::string file;          // as it was named; the sum tells whether a file of that name is still the one
    uint32_t step = 0;         // the last step that both share
    uint64_t history_sum = 0;  // of the other log after that step
    bool operator==(const TrajectoryOrigin&) const = default;
};

struct TrajectoryHeader {
    static constexpr int64_t kDirectionsMax = 65536;

    std::string method;
    uint64_t run_seed = 0;
    TrajectoryNoise noise;
    int64_t directions = 1;  // per step: scalars of a record
    double eps = 0;          // probe radius; 0 where the method has none
    DType storage = DType::bf16;
    bool stochastic_rounding = false;  // of updated weights; else to nearest
    uint32_t first_step = 1;
    TrajectoryBase base;
    std::string settings = "{}";  // JSON of the method's: whatever else its replay depends on
    std::optional<TrajectoryOrigin> origin;
    bool operator==(const TrajectoryHeader&) const = default;
};

// XXH3-64 over names, types, shapes and flags, each with its length, so that no two tables read the same.
uint64_t trajectory_table_sum(std::span<const TrajectoryParam> table);

// UserError(model, where) that says what differs: the log belongs to other weights than `got`.
void require_trajectory_base(const TrajectoryHeader& header, const TrajectoryBase& got, std::string_view where);

// ---- the front of the file: header and mark ----

inline constexpr int64_t kTrajectoryMarkOffset = 32;
inline constexpr int64_t kTrajectoryMarkBytes = 16;

// A header as its file holds it.
struct TrajectoryFront {
    TrajectoryHeader header;
    uint64_t header_sum = 0;        // the history's sum before the first record
    int64_t bytes = 0;              // where the records begin
    std::optional<int64_t> synced;  // records that were durable when the mark was written; nothing: it is damaged
};

// The whole front with a mark of 0 records. UserError(storage, where) for values that a reader would refuse.
std::string encode_trajectory_front(const TrajectoryHeader& header, std::string_view where);
std::array<std::byte, kTrajectoryMarkBytes> encode_trajectory_mark(uint64_t header_sum, int64_t synced);
// UserError(storage) for another major version, by its number, and for anything that is not a whole header.
TrajectoryFront read_trajectory_front(File& file);

}  // namespace windlass
