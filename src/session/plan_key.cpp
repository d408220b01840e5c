#include "session/plan_key.h"

#include <elf.h>
#include <fmt/ranges.h>
#include <link.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "format/checksum.h"
#include "method/phase.h"
#include "schedule/kernel_rate.h"
#include "schedule/machine_text.h"

namespace windlass {
namespace {

int64_t aligned_note(uint32_t bytes) {
    return (int64_t{bytes} + 3) / 4 * 4;
}

// The id among the notes of one segment; empty if it is not there.
std::string id_in_notes(const std::byte* notes, int64_t size) {
    for (int64_t at = 0; at + int64_t{sizeof(ElfW(Nhdr))} <= size;) {
        ElfW(Nhdr) note;
        std::memcpy(&note, notes + at, sizeof note);
        const int64_t name = at + int64_t{sizeof note}, value = name + aligned_note(note.n_namesz);
        at = value + aligned_note(note.n_descsz);
        if (at > size) break;
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || std::memcmp(notes + name, "GNU", 4) != 0) continue;
        const auto* const first = reinterpret_cast<const uint8_t*>(notes + value);
        return fmt::format("{:02x}", fmt::join(first, first + note.n_descsz, ""));
    }
    return "";
}

// The program itself is the first of the loaded objects.
int take_first(dl_phdr_info* object, size_t, void* into) {
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = object->dlpi_phdr[i];
        if (segment.p_type != PT_NOTE) continue;
        const auto* const notes = reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr);
        std::string id = id_in_notes(notes, static_cast<int64_t>(segment.p_memsz));
        if (!id.empty()) *static_cast<std::string*>(into) = std::move(id);
    }
    return 1;
}

std::string model_key_words(const TrainedModel& model) {
    std::string text = fmt::format("{} {} {} {} {}\n", model.family, model.vocab, model.hidden, model.context_length,
                                   model.frozen_type ? dtype_name(*model.frozen_type) : "");
    std::map<const Program*, size_t> programs;
    const auto add_block = [&](const Block& block) {
        const auto [known, is_new] = programs.emplace(block.program.get(), programs.size());
        if (is_new) text += block.program->to_string();
        text += fmt::format("{}: {}\n", known->second, fmt::join(block.params, " "));
    };
    for (const Block& block : model.blocks) add_block(block);
    if (model.logits.program) add_block(model.logits);
    for (const Param param : model.all_params())
        text += fmt::format("{} {} {} {} {}{}{}{} {} {} {}\n", param.spec.shape.to_string(),
                            dtype_name(param.spec.file_dtype), param.spec.block, param.spec.layer,
                            param.training.trains ? "t" : "", param.training.is_refreshed ? "r" : "",
                            param.spec.added ? "a" : "", model.adapter && param.spec.learns_with_adapter() ? "b" : "",
                            static_cast<int>(param.storage.store), dtype_name(param.storage.dtype),
                            merge_name(param.perturb.merge));
    if (model.adapter)
        text += fmt::format("{} {} {}\n", model.adapter->kind, model.adapter->rank, model.adapter->nonzeros);
    if (model.adapter)
        for (const auto& [layer, own] : model.adapter->layers)
            text += fmt::format("{} {} {}\n", layer, own.rank, own.scales_input);
    return text;
}

// Structures are taken apart by name below: a field that is added does not compile until it is decided whether plans
// follow from it.
std::string method_key_words(const Recipe& recipe, const MethodOptions& options) {
    const auto& [beta1, beta2, epsilon, weight_decay, max_grad_norm, split_masters, state_format, zo_eps, directions,
                 scalar_clip, noise, noise_rank, noise_window, noise_keeps_left, estimator, layer_drop, sparse_share,
                 moments, replay_window, merge] = options;
    std::string text = fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n", recipe.name,
                                   max_grad_norm > 0, split_masters, static_cast<int>(state_format), directions,
                                   static_cast<int>(noise), noise_rank, noise_window, noise_keeps_left,
                                   static_cast<int>(estimator), layer_drop, sparse_share, static_cast<int>(moments),
                                   replay_window, merge_name(merge), recipe.needs_norm(), recipe.has_norm_pass());
    for (const RecipePass& pass : recipe.passes)
        text += fmt::format("pass {} {} {} {}\n", static_cast<int>(pass.kind), pass.k, pass.clean, pass.rank);
    for (const StateSpec& state : recipe.state)
        text += fmt::format("state {} {} {}\n", state.bytes, state.per, static_cast<int>(state.of));
    return text;
}

std::string numerics_key_words(const Numerics& numerics) {
    const auto& [compute, micro_batch_size, micro_batches, sequence_lengths, kernel_path, state_format,
                 gradient_format] = numerics;
    return fmt::format("{} {} {} {} {} {} {}\n", dtype_name(compute), micro_batch_size, micro_batches,
                       fmt::join(sequence_lengths, "/"), kernel_path, static_cast<int>(state_format),
                       static_cast<int>(gradient_format));
}

// Rates of other models' kernels come to a machine as these are planned: they change nothing here.
std::string rates_key_words(const SearchQuestion& question) {
    std::vector<OpSize> sizes;
    for (const int64_t length : question.numerics.sequence_lengths)
        sizes.push_back({.rows = question.numerics.micro_batch_size,
                         .sequence_length = length,
                         .device = question.request.device.kind,
                         .compute = question.numerics.compute});
    std::set<std::string> called;
    for (const KernelCase& each : kernel_cases(question.model, question.recipe, sizes)) called.insert(each.key);
    Machine machine = question.machine;
    std::erase_if(machine.kernels, [&](const auto& kernel) { return !called.contains(kernel.first); });
    return machine_text(machine);
}

std::string budget_key_words(int64_t bytes, bool is_given) {
    if (is_given || bytes <= 0) return fmt::format("{}", bytes);
    return fmt::format("2^{}", std::floor(2 * std::log2(static_cast<double>(bytes))) / 2);
}

std::string budgets_key_words(const PlanRequest& request, const GivenSizes& given) {
    const auto& [ram, disk, process, exporter, device, step_disk_writes] = request.budgets;
    return fmt::format("{} {} {} {} {}\n", budget_key_words(ram, given.ram),
                       budget_key_words(request.device.own_memory ? device : 0, given.device),
                       budget_key_words(disk, given.disk), exporter, step_disk_writes);
}

std::string schedule_key_words(const ScheduleRequest& schedule) {
    const auto& [kind, rows, sequence_length, micro_batches, cache_capacity, phase, iterations, writes_answers] =
        schedule;
    return fmt::format("{} {} {} {} {} {} {} {}\n", static_cast<int>(kind), rows, sequence_length, micro_batches,
                       cache_capacity, phase == nullptr ? "" : phase->name, iterations, writes_answers);
}

std::string request_key_words(const PlanRequest& request, const GivenSizes& given) {
    // A search does not depend on example_rows: they only tell a refusal what to leave out.
    const auto& [policy, recompute, update_time, device, threads, budgets, schedules, example_rows, writeback_steps,
                 clip_frequency, start, should_stop] = request;
    std::string text = fmt::format("{} {} {} {} {} {} {} {} {}\n", policy, recompute ? (*recompute ? 1 : 0) : -1,
                                   update_time ? static_cast<int>(*update_time) : -1, static_cast<int>(device.kind),
                                   device.index, device.own_memory, threads, writeback_steps, clip_frequency) +
                       budgets_key_words(request, given);
    for (const ScheduleRequest& schedule : schedules) text += schedule_key_words(schedule);
    if (start) text += fmt::format("{} {}\n", start->policy, fmt::join(start->choice, " "));
    return text;
}

}  // namespace

std::string build_id() {
    std::string id;
    dl_iterate_phdr(take_first, &id);
    return id;
}

std::optional<uint64_t> plan_key(const SearchQuestion& question, const GivenSizes& given, std::string_view build) {
    if (build.empty()) return std::nullopt;
    std::string text = fmt::format(
        "{}\n{}{}{}{}{}", build, model_key_words(question.model), method_key_words(question.recipe, question.options),
        numerics_key_words(question.numerics), rates_key_words(question), request_key_words(question.request, given));
    if (const auto& rival = question.rival)
        text += fmt::format("{} {} {}\n", rival->policy, fmt::join(rival->choice, " "), rival->seconds);
    return xxh3_64(bytes_of(text));
}

}  // namespace windlass
