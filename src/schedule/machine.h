// machine.h: what a machine can do, as rates; probed once, stored, editable, so that one can plan for another.
//
// A plain value. A number that is zero is not known; completed() puts there what docs/format/machine.md says. Rates are
// of the whole machine: all threads, all drives. Its text is in machine_text.h; embedded machines are in
// machine_profiles.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tensor/dtype.h"

namespace windlass {

// narrow: kNarrowRows or fewer, so that reading the weights from memory bounds the product; attention: the products of
// queries, keys and values, forward, as the op's cost counts them.
enum class GemmShape : uint8_t { large, narrow, attention };
inline constexpr int64_t kNarrowRows = 32;

struct Machine {
    std::string name;
    int threads = 1;                  // of the host
    bool unified_memory = true;       // no device next to the host: compute, updates and copies share cores and memory
    int64_t memory_bytes = 0;         // of the host, installed
    int64_t device_memory_bytes = 0;  // 0 where memory is unified
    bool device_has_display = false;  // a desktop takes some of the device's memory
    int64_t disk_bytes = 0;           // of all drives together

    double gemm_bf16_flops = 0;  // per second, large products; on the device, if there is one next to the host
    double gemm_f32_flops = 0;
    double narrow_bf16_flops = 0;
    double narrow_f32_flops = 0;
    double attention_bf16_flops = 0;
    double attention_f32_flops = 0;

    // Of compute with unified memory: on one thread, times the threads of the host, over that on all of them. Above one
    // where threads wait for each other, or share what they compute with.
    double one_thread_gain = 0;

    // Kernels as models call them, by kernel_key(): operations per second. Others go by the rates above.
    std::map<std::string, double, std::less<>> kernels;

    double memory_bytes_per_s = 0;         // of the host; copy: read plus written
    double device_memory_bytes_per_s = 0;  // the same of the device; memory_bytes_per_s where memory is unified
    double link_up_bytes_per_s = 0;        // host to device, alone; unified: one thread's memcpy, bytes arriving
    double link_down_bytes_per_s = 0;      // device to host, alone
    double link_both_bytes_per_s = 0;      // up and down at once, their sum

    double disk_read_bytes_per_s = 0;   // 2 MiB requests, several in flight
    double disk_write_bytes_per_s = 0;  // sustained
    double disk_mixed_bytes_per_s = 0;  // as many bytes read as written at once, their sum
    double checksum_bytes_per_s = 0;    // one thread, of weights and state that go to a disk or come from it

    double update_bytes_per_s = 0;  // the host's update pass alone, of AdamW: bytes read plus written
    // Of single kinds of updates, by update_key(), the same; others go by the rate above, and on a device of its own by
    // that device's copies.
    std::map<std::string, double, std::less<>> updates, device_updates;
    double update_busy_factor = 0;  // of that rate, what is left while copies and the disk are at work; (0, 1]
    double noise_per_s = 0;         // random numbers of a probed weight, drawn and applied where there is compute
    double task_seconds = 0;        // handing a task to a lane and learning that it is done
    double kernel_seconds = 0;      // calling a kernel, whatever its size

    double price_per_hour = 0;  // rented; in any currency
    double purchase_price = 0;  // or bought, and used for service_years
    double service_years = 0;
    int drives = 0;
    double endurance_bytes = 0;  // that may be written to all drives together in their life

    // Per second, with the bound of the shape; large where the shape's own rate is not known.
    double gemm_flops(DType compute, GemmShape shape = GemmShape::large) const;
    bool operator==(const Machine&) const = default;
};

// What is zero and follows from the rest is set to what follows.
Machine completed(Machine machine);

// The machine with a link that moves no more than this each way, and drives that read and write no more than this
// together; 0: as fast as they are.
Machine slowed(Machine machine, double link_bytes_per_s, double disk_bytes_per_s);

// Money per hour: the rent, or the purchase over its years; 0: no price is known.
double hourly_price(const Machine& machine);
// Tokens for one unit of money; 0: no price is known.
double tokens_per_money(const Machine& machine, double tokens_per_s);
// The part of the drives' life that writing `written_bytes` takes; 0: no endurance is known.
double drive_wear(const Machine& machine, double written_bytes);

}  // namespace windlass
