// The keys of one group: what numbers are computed with, and where everything may live.
#include "config/config_keys.h"

namespace windlass {

namespace {

std::vector<ConfigKey> number_keys() {
    return {
        {.name = "dtype",
         .resume = OnResume::resolved,
         .field = &Config::dtype,
         .group = kMemory,
         .help = "compute type; masters are f32. auto: f32 for an f32 model, else bf16",
         .aliases = {"torch_dtype"},
         .choices = {"auto", "bf16", "f32"}},
        {.name = "weight_storage",
         .resume = OnResume::resolved,
         .field = &Config::weight_storage,
         .group = kMemory,
         .help = "storage of weights other than split masters: with methods without a backward pass, with lomo and "
                 "adalomo (or split: fp32 masters), of frozen parameters, in eval and generate. as_file: the type "
                 "of the model's files; f8: matrices and tables in 8 bits with one scale each, half the bytes of "
                 "bf16 in memory, on disk and in transfers; nf4: the matrices of layers in 4 bits with a scale per "
                 "64 numbers, a quarter of the bytes; they are frozen, or merge_updates is never",
         .choices = {"as_file", "f8", "nf4", "split"}},
        {.name = "state_format",
         .resume = OnResume::resolved,
         .field = &Config::state_format,
         .group = kMemory,
         .help = "storage of moments: fp32, bf16, or int8 in blocks with a scale (12, 8 and 6 bytes per parameter "
                 "with the master); bf16 and int8 round randomly. auto: the most exact that fits",
         .choices = {"auto", "fp32", "bf16", "int8"}},
        {.name = "gradient_format",
         .resume = OnResume::resolved,
         .field = &Config::gradient_format,
         .group = kMemory,
         .help = "each gradient is rounded to this once, before norm and update read it: f32 (no rounding); bf16; "
                 "i8 or i4, with a scale per 256 or 64 numbers. Rounding is random. Gradients that wait, cross a "
                 "link or go to disk take 4, 2, 1 or 1/2 bytes per number, and scales",
         .choices = {"f32", "bf16", "i8", "i4"}},
    };
}

std::vector<ConfigKey> placement_keys() {
    return {
        {.name = "gradient_checkpointing",
         .resume = OnResume::free,
         .field = &Config::gradient_checkpointing,
         .group = kMemory,
         .help = "recompute activations instead of keeping them; auto: when faster, or needed to fit",
         .choices = {"auto", "true", "false"}},
        {.name = "policy",
         .resume = OnResume::free,
         .field = &Config::policy,
         .group = kMemory,
         .help = "where weights and state live; auto: the fastest that fits",
         .aliases = {"offload"},
         .choices = {"auto", "in_memory", "host_stream", "three_tier"}},
        {.name = "update_time",
         .resume = OnResume::free,
         .field = &Config::update_time,
         .group = kMemory,
         .help =
             "when weights are updated; in_backward speculates that nothing is clipped (without ssd_dir it keeps a "
             "copy of the overwritten values in memory), next_forward defers the update; auto: the planner's choice",
         .choices = {"auto", "after_backward", "in_backward", "next_forward"}},
        {.name = "writeback_steps",
         .resume = OnResume::free,
         .field = &Config::writeback_steps,
         .group = kMemory,
         .help = "methods without a backward pass: steps between two that write updated weights back; in between, "
                 "updates are applied again each time a layer is fetched. auto: the planner's choice",
         .unit = "steps",
         .min = 1,
         .max = 1024,
         .empty = "auto"},
    };
}

}  // namespace

std::vector<ConfigKey> memory_keys() {
    std::vector<ConfigKey> keys = number_keys();
    for (ConfigKey& key : placement_keys()) keys.push_back(std::move(key));
    return keys;
}

std::vector<ConfigKey> tier_keys() {
    return {
        {.name = "device",
         .resume = OnResume::free,
         .field = &Config::device,
         .group = kMemory,
         .help = "cpu; cpu:emulate, the processor with separate device memory, so that all three tiers run without a "
                 "GPU; cuda, or cuda:N, in builds with -DWINDLASS_CUDA=on"},
        {.name = "device_memory",
         .resume = OnResume::free,
         .field = &Config::device_memory,
         .group = kMemory,
         .help = "limit of the device's own memory; a share is of the card's free memory, of a described machine's "
                 "device memory, or, for cpu:emulate, of available memory. null: 90 %; 50 % for a described device "
                 "with a display and for cpu:emulate"},
        {.name = "link_rate",
         .resume = OnResume::free,
         .field = &Config::link_rate,
         .group = kMemory,
         .help = "cpu:emulate: limit of each way of the link between host and device, in bytes per second"},
        {.name = "disk_rate",
         .resume = OnResume::free,
         .field = &Config::disk_rate,
         .group = kMemory,
         .help = "limit of the working store's disk, reads and writes together, in bytes per second"},
        {.name = "ram",
         .resume = OnResume::free,
         .field = &Config::ram,
         .group = kMemory,
         .help = "memory limit of the process, enforced if given; a share is of available memory, or of what the "
                 "limits of the process leave",
         .aliases = {"memory", "cpu_memory"}},
    };
}

std::vector<ConfigKey> disk_keys() {
    return {
        {.name = "ssd_dir",
         .resume = OnResume::free,
         .field = &Config::ssd_dir,
         .group = kMemory,
         .help = "folder on a fast disk for the working store; without it nothing moves to disk",
         .aliases = {"nvme_path", "ssd"},
         .names_files = true},
        {.name = "ssd_space",
         .resume = OnResume::free,
         .field = &Config::ssd_space,
         .group = kMemory,
         .help = "disk limit of the working store; a share is of free disk space, with the run's own store on top"},
        {.name = "ssd_writes",
         .resume = OnResume::free,
         .field = &Config::ssd_writes,
         .group = kMemory,
         .help = "bytes that the run may write to the working store's disk; empty: no limit"},
        {.name = "threads",
         .resume = OnResume::free,
         .field = &Config::threads,
         .group = kMemory,
         .help = "worker threads; the result does not depend on their number. auto: one for each processor that the "
                 "process may use",
         .aliases = {"num_threads"},
         .min = 1,
         .max = 1024,
         .empty = "auto"},
    };
}

}  // namespace windlass
