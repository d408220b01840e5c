#include "session/plan_key.h"

#include <elf.h>
#include <fmt/ranges.h>
#include <link.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "format/checksum.h"
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
                            param.spec.added ? "a" : "", param.spec.added && param.spec.added->trains ? "b" : "",
                            static_cast<int>(param.storage.store), dtype_name(param.storage.dtype),
                            merge_name(param.perturb.merge));
    if (model.adapter)
        text += fmt::format("{} {} {}\n", model.adapter->kind, model.adapter->rank, model.adapter->nonzeros);
    return text;
}

std::string method_key_words(const Recipe& recipe, const MethodOptions& o) {
    std::string text = fmt::format(
        "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n", recipe.name, o.max_grad_norm > 0, o.split_masters,
        static_cast<int>(o.state_format), o.directions, static_cast<int>(o.noise), o.noise_rank, o.noise_window,
        o.noise_keeps_left, static_cast<int>(o.estimator), o.layer_drop, o.sparse_share, static_cast<int>(o.moments),
        o.replay_window, merge_name(o.merge), recipe.needs_grad_norm, recipe.backward_for_norm);
    for (const RecipePass& pass : recipe.passes)
        text += fmt::format("pass {} {} {} {}\n", static_cast<int>(pass.kind), pass.k, pass.clean, pass.rank);
    for (const StateSpec& state : recipe.state)
        text += fmt::format("state {} {} {}\n", state.bytes, state.per, static_cast<int>(state.of));
    return text;
}

std::string numerics_key_words(const Numerics& n) {
    return fmt::format("{} {} {} {} {} {} {}\n", dtype_name(n.compute), n.micro_batch_size, n.micro_batches,
                       fmt::join(n.sequence_lengths, "/"), n.kernel_path, static_cast<int>(n.state_format),
                       static_cast<int>(n.gradient_format));
}

// Rates of other models' kernels come to a machine as these are planned: they change nothing here.
std::string rates_key_words(const PlanQuestion& question) {
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

std::string request_key_words(const PlanRequest& r, const GivenSizes& given) {
    std::string text =
        fmt::format("{} {} {} {} {} {} {} {} {}\n{} {} {} {} {}\n", r.policy, r.recompute, r.update_time,
                    static_cast<int>(r.device.kind), r.device.index, r.device.own_memory, r.threads, r.writeback_steps,
                    r.clip_frequency, budget_key_words(r.budgets.ram, given.ram),
                    budget_key_words(r.device.own_memory ? r.budgets.device : 0, given.device),
                    budget_key_words(r.budgets.disk, given.disk), r.budgets.exporter, r.budgets.step_disk_writes);
    for (const ScheduleRequest& each : r.schedules)
        text += fmt::format("{} {} {} {} {} {} {}\n", static_cast<int>(each.kind), each.rows, each.sequence_length,
                            each.micro_batches, each.cache_capacity, each.iterations, each.writes_answers);
    return text;
}

}  // namespace

std::string build_id() {
    std::string id;
    dl_iterate_phdr(take_first, &id);
    return id;
}

std::optional<uint64_t> plan_key(const PlanQuestion& question, const GivenSizes& given) {
    static const std::string build = build_id();
    if (build.empty()) return std::nullopt;
    std::string text = fmt::format(
        "{}\n{}{}{}{}{}", build, model_key_words(question.model), method_key_words(question.recipe, question.options),
        numerics_key_words(question.numerics), rates_key_words(question), request_key_words(question.request, given));
    if (const auto& rival = question.rival)
        text += fmt::format("{} {} {}\n", rival->policy, fmt::join(rival->choice, " "), rival->seconds);
    return xxh3_64(bytes_of(text));
}

}  // namespace windlass
