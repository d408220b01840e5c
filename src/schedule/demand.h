// demand.h: what a task asks of a machine: operations, random numbers and bytes, each way.
#pragma once

#include <cstdint>

namespace windlass {

struct Demand {
    double flops = 0;
    double model_flops = 0;
    double noise = 0;  // random numbers drawn
    int64_t memory_bytes = 0;
    int64_t up_bytes = 0;
    int64_t down_bytes = 0;
    int64_t disk_read_bytes = 0;
    int64_t disk_write_bytes = 0;

    Demand& operator-=(const Demand& part);
    Demand operator-(const Demand& part) const { return Demand(*this) -= part; }
};

}  // namespace windlass
