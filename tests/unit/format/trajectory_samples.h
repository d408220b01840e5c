// trajectory_samples.h: logs for tests, whose records follow from their step.
#pragma once

#include <limits>
#include <string>

#include "base/file.h"
#include "format/trajectory.h"

namespace windlass {

inline TrajectoryHeader sample_header(int64_t directions = 1) {
    return {.method = "zeroth_order",
            .run_seed = std::numeric_limits<uint64_t>::max(),
            .noise = {.kind = TrajectoryNoiseKind::low_rank, .revision = 3, .rank = 2, .window = 50},
            .directions = directions,
            .eps = 1e-3,
            .storage = DType::bf16,
            .stochastic_rounding = true,
            .first_step = 1,
            .base = {.name = "tiny", .elements = 1234, .table_sum = 0x0123456789abcdef, .weights_sum = 42},
            .settings = R"({"probe":"clean"})"};
}

// Numbers that no decimal of a few digits holds; every seventh step is not applied. `history` tells runs apart.
inline TrajectoryRecord sample_record(int64_t step, int64_t directions = 1, int history = 0) {
    const double x = static_cast<double>(step);
    TrajectoryRecord record{.step = static_cast<uint32_t>(step),
                            .learning_rate = (1 + history) * 1e-6 / x,
                            .decay = 1 - 1e-9 * x,
                            .applied = step % 7 != 0};
    for (int64_t i = 0; i < directions; ++i)
        record.scalars.push_back(static_cast<float>((i % 2 == 0 ? 1.1 : -1.3) * x / static_cast<double>(i + 3)));
    if (!record.applied) record.scalars.back() = std::numeric_limits<float>::infinity();
    return record;
}

// Records [writer.next_step(), last_step].
inline void append_samples(TrajectoryWriter& writer, int64_t last_step, int history = 0) {
    while (writer.next_step() <= last_step)
        writer.append(sample_record(writer.next_step(), writer.header().directions, history));
}

// A synced log with the records of steps 1 to `last_step`.
inline TrajectoryWriter make_log(FileSystem& files, const std::string& path, int64_t last_step,
                                 int64_t directions = 1) {
    TrajectoryWriter writer = TrajectoryWriter::create(files, path, sample_header(directions));
    append_samples(writer, last_step);
    writer.sync();
    return writer;
}

inline std::string log_bytes(FileSystem& files, const std::string& path) {
    return read_text(files, path, int64_t{1} << 30);
}

}  // namespace windlass
