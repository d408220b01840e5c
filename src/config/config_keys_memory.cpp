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
         .help = "numbers that are computed with; masters are f32. auto: f32 for an f32 model, else bf16",
         .aliases = {"torch_dtype"},
         .choices = {"auto", "bf16", "f32"}},
        {.name = "weight_storage",
         .resume = OnResume::resolved,
         .field = &Config::weight_storage,
         .group = kMemory,
         .help =
             "how weights are kept that are not split masters: those of methods without a backward pass, of lomo and "
             "adalomo (or split: fp32 masters), of parameters that are not trained (freeze), of eval and generate. "
             "as_file: in the type of the model's files; f8: matrices and tables in 8 bits, with a scale each, half "
             "the bytes of bf16 in memory, on disk and on the way; nf4: the matrices of layers in 4 bits, with a "
             "scale for each 64 numbers, a quarter; they are frozen, or merge_updates is never",
         .choices = {"as_file", "f8", "nf4", "split"}},
        {.name = "state_format",
         .resume = OnResume::resolved,
         .field = &Config::state_format,
         .group = kMemory,
         .help =
             "how moments are kept: fp32, bf16, or int8 in blocks with a scale (12, 8 and 6 bytes a parameter with the "
             "master); bf16 and int8 round randomly. auto: the most exact that fits",
         .choices = {"auto", "fp32", "bf16", "int8"}},
        {.name = "gradient_format",
         .resume = OnResume::resolved,
         .field = &Config::gradient_format,
         .group = kMemory,
         .help =
             "what each gradient is rounded to, once, before norm and update read it: f32 is not; bf16; i8 or i4, with "
             "a scale for each 256 or 64 numbers. Rounded randomly. Where gradients wait or cross a link or go to disk "
             "they take 4, 2, 1 or 1/2 bytes a number, and scales",
         .choices = {"f32", "bf16", "i8", "i4"}}};
}

std::vector<ConfigKey> placement_keys() {
    return {
        {.name = "gradient_checkpointing",
         .resume = OnResume::free,
         .field = &Config::gradient_checkpointing,
         .group = kMemory,
         .help = "compute activations a second time rather than keep them; auto: when that is faster or must be",
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
         .help = "when weights are updated; in_backward speculates that nothing is clipped (without ssd_dir it keeps "
                 "what it overwrites in memory), next_forward defers the update; auto: the planner's choice",
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
         .help = "what computes: cpu; cpu:emulate, the processor with a memory of its own, so that all three tiers run "
                 "without a GPU; cuda, or cuda:N, in builds with -DWINDLASS_CUDA=on"},
        {.name = "device_memory",
         .resume = OnResume::free,
         .field = &Config::device_memory,
         .group = kMemory,
         .help =
             "memory of the device that may be used, where it has its own; a share is of what the card has free, of "
             "what a described machine's device has, or for cpu:emulate of what is available. null: 90 %; of a "
             "described device with a display, and of cpu:emulate, 50 %"},
        {.name = "link_rate",
         .resume = OnResume::free,
         .field = &Config::link_rate,
         .group = kMemory,
         .help = "cpu:emulate: slows each way of the link between host and device to so many bytes a second"},
        {.name = "disk_rate",
         .resume = OnResume::free,
         .field = &Config::disk_rate,
         .group = kMemory,
         .help = "slows the working store's disk, reads and writes together, to so many bytes a second"},
        {.name = "ram",
         .resume = OnResume::free,
         .field = &Config::ram,
         .group = kMemory,
         .help = "memory that the process may use, enforced when given; a share is of what is available",
         .aliases = {"memory", "cpu_memory"}},
        {.name = "ssd_dir",
         .resume = OnResume::free,
         .field = &Config::ssd_dir,
         .group = kMemory,
         .help = "folder on a fast disk for the working store; without it nothing is moved to disk",
         .aliases = {"nvme_path", "ssd"}},
        {.name = "ssd_space",
         .resume = OnResume::free,
         .field = &Config::ssd_space,
         .group = kMemory,
         .help = "disk that the working store may use; a share is of what is free"},
        {.name = "ssd_writes",
         .resume = OnResume::free,
         .field = &Config::ssd_writes,
         .group = kMemory,
         .help = "bytes that the run may write to the working store's disk; empty: as many as it likes"},
        {.name = "threads",
         .resume = OnResume::free,
         .field = &Config::threads,
         .group = kMemory,
         .help = "worker threads; bits do not depend on them",
         .aliases = {"num_threads"},
         .min = 1,
         .max = 1024,
         .empty = "auto"},
    };
}

}  // namespace windlass
