#include "schedule/lower_buffers.h"

#include <algorithm>
#include <utility>

#include "base/index.h"

namespace windlass {

ActivationBuffers::ActivationBuffers(ScheduleBuilder& builder)
    : builder_(builder), in_(builder.in()), blocks_(static_cast<int>(in_.model.blocks.size())) {
    activations_.assign(at(blocks_), std::vector<Activation>(at(builder.schedule().micro_batches)));
}

// Whole blocks of the disk, so that any of them may go there.
BufferId ActivationBuffers::make(int block, int micro, std::string_view what, MemoryTag tag, int64_t bytes) {
    return builder_.buffer(fmt::format("{}.{}.{}", builder_.block(block).name, micro, what), tag,
                           round_up(bytes, kParamAlignment), TierKind::device);
}

void ActivationBuffers::bind(RunTask& task, std::vector<BufferUse>& uses, Region region, BufferId buffer,
                             bool write) const {
    if (buffer == kNoBuffer || builder_.segment_at(task.segment).region_bytes(region) == 0) return;
    task.regions[at(region)] = {buffer, 0};
    uses.push_back({buffer, write});
}

void ActivationBuffers::bind_forward(RunTask& task, std::vector<BufferUse>& uses) {
    const Segment& segment = builder_.segment_at(task.segment);
    Activation& here = of(task.block, task.micro);
    bind(task, uses, Region::input, here.input, false);
    for (size_t index = 0; index < kSavedRegions; ++index) {
        const int64_t bytes = segment.region_bytes(kSaved[index]);
        if (bytes == 0) continue;
        here.saved[index] = make(task.block, task.micro, "saved", MemoryTag::activations, bytes);
        bind(task, uses, kSaved[index], here.saved[index], true);
    }
    const bool is_head = task.block == blocks_ - 1;
    const BufferId out = make(task.block, task.micro, "out", is_head ? MemoryTag::staging : MemoryTag::block_inputs,
                              segment.region_bytes(Region::output));
    bind(task, uses, Region::output, out, true);
    if (is_head)
        builder_.schedule().outputs[at(task.micro)] = {out, 0};
    else
        of(task.block + 1, task.micro).input = out;
}

void ActivationBuffers::bind_reverse(RunTask& task, std::vector<BufferUse>& uses, bool passes_gradient_on) {
    const Segment& segment = builder_.segment_at(task.segment);
    Activation& here = of(task.block, task.micro);
    bind(task, uses, Region::input, here.input, false);
    for (size_t index = 0; index < kSavedRegions; ++index) bind(task, uses, kSaved[index], here.saved[index], false);
    bind(task, uses, Region::grad_output, here.gradient, true);
    if (const int64_t bytes = segment.region_bytes(Region::output); bytes > 0) {
        const BufferId loss = make(task.block, task.micro, "loss", MemoryTag::staging, bytes);
        bind(task, uses, Region::output, loss, true);
        BufferSlice& output = builder_.schedule().outputs[at(task.micro)];
        if (output.buffer == kNoBuffer) output = {loss, 0};  // a second backward pass finds the same
    }
    if (!passes_gradient_on) return;
    BufferId gradient = here.gradient;
    if (!segment.gradient_in_place) {
        gradient =
            make(task.block, task.micro, "gradient", MemoryTag::block_inputs, segment.region_bytes(Region::grad_input));
        bind(task, uses, Region::grad_input, gradient, true);
    }
    of(task.block - 1, task.micro).gradient = gradient;
}

void ActivationBuffers::spill(int block, int micro) {
    Activation& here = of(block, micro);
    const Home home = in_.plan.of(block).block_input;
    if (leaves(home) && here.input != kNoBuffer) here.offloaded_input = offload(here.input, home);
    for (size_t index = 0; index < kSavedRegions; ++index) {
        if (leaves(kSavedHome[index]) && here.saved[index] != kNoBuffer)
            here.offloaded_saved[index] = offload(here.saved[index], kSavedHome[index]);
    }
}

void ActivationBuffers::bring(const Visit& visit, int micro) {
    Activation& here = of(visit.block, micro);
    if (!visit.backward) return;
    const auto bring = [&](Offloaded& offloaded, BufferId& buffer) {
        bool& is_back = visit.updates ? offloaded.is_back : offloaded.is_back_again;
        if (offloaded.is_away() && !std::exchange(is_back, true)) buffer = bring_back(offloaded);
    };
    bring(here.offloaded_input, here.input);
    for (size_t index = 0; index < kSavedRegions; ++index) bring(here.offloaded_saved[index], here.saved[index]);
}

ActivationBuffers::Offloaded ActivationBuffers::offload(BufferId buffer, Home home) {
    Schedule& schedule = builder_.schedule();
    const BufferSpec spec = schedule.buffers[at(buffer - in_.persistent_count)];
    Offloaded offloaded{.bytes = spec.bytes, .tag = spec.tag};
    BufferId from = buffer;
    if (in_.plan.own_memory()) {
        from = builder_.buffer(spec.name + " on the host", spec.tag, spec.bytes, TierKind::host);
        copy(MoveKind::down, buffer, from, spec.bytes);
    }
    if (home == Home::disk) {
        offloaded.file_offset = schedule.activation_file_bytes;
        schedule.activation_file_bytes += spec.bytes;
        transfer(MoveKind::disk_write, from, offloaded);
    } else {
        offloaded.host = from;
    }
    return offloaded;
}

BufferId ActivationBuffers::bring_back(const Offloaded& offloaded) {
    const BufferId on_device = builder_.buffer("back", offloaded.tag, offloaded.bytes, TierKind::device);
    BufferId from = offloaded.host;
    if (offloaded.file_offset >= 0) {
        from = in_.plan.own_memory()
                   ? builder_.buffer("back on the host", offloaded.tag, offloaded.bytes, TierKind::host)
                   : on_device;
        transfer(MoveKind::disk_read, from, offloaded);
    }
    if (in_.plan.own_memory()) copy(MoveKind::up, from, on_device, offloaded.bytes);
    return on_device;
}

void ActivationBuffers::copy(MoveKind kind, BufferId from, BufferId to, int64_t bytes) {
    builder_.move(
        {.kind = kind, .place = DiskPlace::activation, .buffer = to, .source = from, .pieces = {{.bytes = bytes}}});
}

void ActivationBuffers::transfer(MoveKind kind, BufferId buffer, const Offloaded& offloaded) {
    builder_.move({.kind = kind,
                   .place = DiskPlace::activation,
                   .buffer = buffer,
                   .pieces = {{.first = offloaded.file_offset, .bytes = offloaded.bytes}}});
}

GradientBuffers::GradientBuffers(ScheduleBuilder& builder, bool for_norm)
    : builder_(builder),
      in_(builder.in()),
      for_norm_(for_norm),
      finds_squares_(in_.recipe.needs_grad_norm && (for_norm || !in_.recipe.backward_for_norm)),
      target_(in_.model.params.size()),
      held_(in_.model.params.size()),
      written_(in_.model.params.size(), false),
      last_user_(in_.model.params.size(), 0) {
    for (int block = static_cast<int>(in_.model.blocks.size()) - 1; block >= 0; --block) {
        for (const int param : in_.model.blocks[at(block)].params) last_user_[at(param)] = block;
    }
}

void GradientBuffers::bind(RunTask& task, std::vector<BufferUse>& uses) {
    make_buffers(task.block);
    for (const int param : in_.model.blocks[at(task.block)].params) {
        const BufferSlice& slice = target_[at(param)];
        task.gradients.push_back(slice);
        task.first_gradient.push_back(slice.buffer != kNoBuffer && !written_[at(param)] ? 1 : 0);
        if (slice.buffer == kNoBuffer) continue;
        written_[at(param)] = true;
        uses.push_back({slice.buffer, true, slice.offset, slice.offset + in_.param(param).numel() * 4});
    }
}

// Where the device's memory holds gradients for good they are added there. Else: a buffer for the parameters that end
// with this block, and one of its own for a parameter that an earlier block will add to.
void GradientBuffers::make_buffers(int block) {
    std::vector<int> together;
    for (const int param : in_.model.blocks[at(block)].params) {
        if (target_[at(param)].buffer != kNoBuffer || !in_.param(param).trains()) continue;
        const Home home = in_.plan_of(param).gradients;
        const bool stays = home == Home::device || (home == Home::host && !in_.plan.own_memory());
        if (stays && !in_.recipe.uses_gradients_at_once)
            target_[at(param)] = in_.place(param).gradient;
        else if (last_user_[at(param)] == block)
            together.push_back(param);
        else
            make_buffer({param}, block, TierKind::device, target_);
    }
    if (!together.empty()) make_buffer(together, block, TierKind::device, target_);
}

void GradientBuffers::make_buffer(const std::vector<int>& params, int block, TierKind tier,
                                  std::vector<BufferSlice>& slices) {
    int64_t end = 0;
    for (const int param : params) {
        slices[at(param)].offset = end;
        end += aligned_bytes(in_.param(param).numel(), 4);
    }
    const BufferId made =
        builder_.buffer(fmt::format("{}.gradients", builder_.block(block).name), MemoryTag::gradients, end, tier);
    for (const int param : params) slices[at(param)].buffer = made;
}

void GradientBuffers::finish(int block) {
    ReduceTask squares;
    std::vector<int> down, out;
    for (const int param : in_.model.blocks[at(block)].params) {
        if (target_[at(param)].buffer == kNoBuffer || last_user_[at(param)] != block) continue;
        squares.parts.push_back({param, target_[at(param)]});
        if (for_norm_) continue;
        const Home home = in_.plan_of(param).gradients;
        held_[at(param)] =
            in_.plan.own_memory() && home != Home::device ? in_.place(param).gradient : target_[at(param)];
        if (in_.plan.own_memory() && home != Home::device) down.push_back(param);
        if (home == Home::disk) out.push_back(param);
    }
    if (finds_squares_ && !squares.parts.empty()) builder_.reduce(std::move(squares));
    if (!down.empty()) move_down(down, block);
    if (!out.empty()) write_to_disk(out);
}

void GradientBuffers::move_down(const std::vector<int>& params, int block) {
    std::vector<int> homeless;
    for (const int param : params) {
        if (held_[at(param)].buffer == kNoBuffer) homeless.push_back(param);
    }
    if (!homeless.empty()) make_buffer(homeless, block, TierKind::host, held_);
    std::vector<MoveTask> tasks;  // one for each pair of buffers
    for (const int param : params) {
        const BufferSlice &from = target_[at(param)], &to = held_[at(param)];
        if (tasks.empty() || tasks.back().source != from.buffer || tasks.back().buffer != to.buffer)
            tasks.push_back(
                {.kind = MoveKind::down, .place = DiskPlace::gradient, .buffer = to.buffer, .source = from.buffer});
        tasks.back().pieces.push_back({.param = param,
                                       .offset = to.offset,
                                       .source = from.offset,
                                       .bytes = aligned_bytes(in_.param(param).numel(), 4)});
    }
    for (MoveTask& task : tasks) builder_.move(std::move(task));
}

void GradientBuffers::write_to_disk(const std::vector<int>& params) {
    std::vector<MoveTask> tasks;  // one for each buffer
    for (const int param : params) {
        const BufferSlice& from = held_[at(param)];
        if (tasks.empty() || tasks.back().buffer != from.buffer)
            tasks.push_back({.kind = MoveKind::disk_write, .place = DiskPlace::gradient, .buffer = from.buffer});
        for (const ChunkSpan& chunk : chunks_of(in_.model, param)) {
            tasks.back().pieces.push_back({.param = param,
                                           .first = chunk.first,
                                           .count = chunk.count,
                                           .offset = from.offset + chunk.first * 4,
                                           .bytes = aligned_bytes(chunk.count, 4)});
        }
    }
    for (MoveTask& task : tasks) builder_.move(std::move(task));
}

}  // namespace windlass
