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
    return builder_.buffer({what, block, micro}, tag, round_up(bytes, kParamAlignment), TierKind::device);
}

void ActivationBuffers::bind(RunTask& task, std::vector<BufferUse>& uses, Region region, BufferId buffer,
                             bool write) const {
    // The first block has no input, and a segment that recomputes everything no saved regions.
    if (buffer == kNoBuffer || builder_.segment_at(task.segment).region_bytes(region) == 0) return;
    task.regions[at(region)] = {buffer, 0};
    uses.push_back({buffer, write});
}

void ActivationBuffers::bind_forward(RunTask& task, std::vector<BufferUse>& uses) {
    const Segment& segment = builder_.segment_at(task.segment);
    Activation& here = of(task.block, task.micro);
    bind(task, uses, Region::input, here.input, false);
    for (size_t index = 0; index < kSavedRegions.size(); ++index) {
        const int64_t bytes = segment.region_bytes(kSavedRegions[index]);
        if (bytes == 0) continue;
        here.saved[index] = make(task.block, task.micro, "saved", MemoryTag::activations, bytes);
        bind(task, uses, kSavedRegions[index], here.saved[index], true);
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
    for (size_t index = 0; index < kSavedRegions.size(); ++index)
        bind(task, uses, kSavedRegions[index], here.saved[index], false);
    // As a write: a block may turn it into the gradient of its input in place.
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
    for (size_t index = 0; index < kSavedRegions.size(); ++index) {
        if (leaves(kSavedHomes[index]) && here.saved[index] != kNoBuffer)
            here.offloaded_saved[index] = offload(here.saved[index], kSavedHomes[index]);
    }
}

void ActivationBuffers::bring(const Visit& visit, int micro) {
    Activation& here = of(visit.block, micro);
    if (!visit.backward) return;
    const auto bring = [&](Offloaded& offloaded, BufferId& buffer) {
        // A pass for the norm alone comes before the one that updates, and each brings its own copy. One copy for both
        // would keep the activations of all blocks alive from the one pass to the other.
        bool& is_back = visit.updates ? offloaded.is_back : offloaded.is_back_again;
        if (offloaded.is_away() && !std::exchange(is_back, true)) buffer = bring_back(offloaded, visit.block, micro);
    };
    bring(here.offloaded_input, here.input);
    for (size_t index = 0; index < kSavedRegions.size(); ++index) bring(here.offloaded_saved[index], here.saved[index]);
}

ActivationBuffers::Offloaded ActivationBuffers::offload(BufferId buffer, Home home) {
    Schedule& schedule = builder_.schedule();
    const BufferSpec spec = schedule.buffers[at(buffer - in_.persistent_count)];
    Offloaded offloaded{.bytes = spec.bytes, .tag = spec.tag};
    BufferId from = buffer;
    if (in_.plan.own_memory()) {
        from = builder_.buffer({spec.name + ", host", spec.block, spec.micro}, spec.tag, spec.bytes, TierKind::host);
        copy(MoveKind::down, buffer, from, spec.bytes);
    }
    if (home == Home::disk) {
        // Each buffer has a place of its own: in a shared one, a write would have to wait for a read.
        offloaded.file_offset = schedule.activation_file_bytes;
        schedule.activation_file_bytes += spec.bytes;
        transfer(MoveKind::disk_write, from, offloaded);
    } else {
        offloaded.host = from;
    }
    return offloaded;
}

BufferId ActivationBuffers::bring_back(const Offloaded& offloaded, int block, int micro) {
    // Another buffer than the one that left: its end after forward is what made room on the device.
    const BufferId on_device =
        builder_.buffer({"back", block, micro}, offloaded.tag, offloaded.bytes, TierKind::device);
    BufferId from = offloaded.host;
    if (offloaded.file_offset >= 0) {
        from = in_.plan.own_memory()
                   ? builder_.buffer({"back, host", block, micro}, offloaded.tag, offloaded.bytes, TierKind::host)
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

namespace {

// The index of the recipe's last backward pass, or, `for_norm`, of the one before it.
int backward_pass(const Recipe& recipe, bool for_norm) {
    int last = -1, before = -1;
    for (int pass = 0; pass < std::ssize(recipe.passes); ++pass) {
        if (recipe.passes[at(pass)].kind == PassKind::backward) before = std::exchange(last, pass);
    }
    return for_norm ? before : last;
}

}  // namespace

GradientBuffers::GradientBuffers(ScheduleBuilder& builder, bool for_norm)
    : builder_(builder),
      in_(builder.in()),
      for_norm_(for_norm),
      pass_(backward_pass(in_.recipe, for_norm)),
      target_(in_.model.params.size()),
      leaving_(in_.model.params.size()),
      held_(in_.model.params.size()),
      written_(in_.model.params.size(), false),
      is_complete_(in_.model.blocks.size(), false),
      last_user_(in_.model.params.size(), 0) {
    // Backward runs from the last block to the first, so the user that is noted last adds last. A tied table is
    // complete only after the embedding's backward.
    for (int block = static_cast<int>(in_.model.blocks.size()) - 1; block >= 0; --block) {
        for (const int param : in_.model.blocks[at(block)].params) last_user_[at(param)] = block;
    }
}

void GradientBuffers::bind(RunTask& task, std::vector<BufferUse>& uses) {
    make_buffers(task.block);
    const std::vector<int>& params = in_.model.blocks[at(task.block)].params;
    task.gradients.reserve(params.size());
    task.first_gradient.reserve(params.size());
    for (const int param : params) {
        const BufferSlice& slice = target_[at(param)];
        task.gradients.push_back(slice);
        // The first contribution writes, the others add: no task has to clear gradients.
        task.first_gradient.push_back(slice.buffer != kNoBuffer && !written_[at(param)] ? 1 : 0);
        if (slice.buffer == kNoBuffer) continue;
        written_[at(param)] = true;
        uses.push_back({slice.buffer, true, slice.offset, slice.offset + in_.param(param).numel() * 4});
    }
}

// Where the device's memory holds sums for good they are added there. Else: a buffer for the parameters that end with
// this block, and one of its own for a parameter that an earlier block will add to.
void GradientBuffers::make_buffers(int block) {
    std::vector<int> together;
    for (const int param : in_.model.blocks[at(block)].params) {
        if (target_[at(param)].buffer != kNoBuffer || !in_.param(param).trains()) continue;
        const Home home = in_.plan_of(param).gradients;
        const bool stays = home == Home::device || (home == Home::host && !in_.plan.own_memory());
        const bool waits =
            in_.place(param).gradient_format == GradientFormat::f32 && !in_.recipe.uses_gradients_at_once();
        if (stays && waits)
            target_[at(param)] = in_.place(param).gradient;
        else if (last_user_[at(param)] == block)
            together.push_back(param);
        else
            make_buffer({param}, block, TierKind::device, target_, true);
    }
    if (!together.empty()) make_buffer(together, block, TierKind::device, target_, true);
}

void GradientBuffers::make_buffer(const std::vector<int>& params, int block, TierKind tier,
                                  std::vector<BufferSlice>& slices, bool is_sum) {
    int64_t end = 0;
    for (const int param : params) {
        slices[at(param)].offset = end;
        if (is_sum) end += aligned_bytes(in_.param(param).numel(), 4);
        for (const ChunkSpan& chunk : in_.chunks(param)) {
            if (!is_sum && !in_.visits(param, chunk.first)) end += piece_bytes(in_, DiskPlace::gradient, chunk);
        }
    }
    if (end == 0) return;  // all of it visits
    const BufferId made = builder_.buffer({"gradients", block}, MemoryTag::gradients, end, tier);
    for (const int param : params) slices[at(param)].buffer = made;
}

BufferSlice GradientBuffers::in_memory(int param, int64_t first) const {
    const BufferSlice persistent = in_.held_gradient(param, first);
    return persistent.buffer != kNoBuffer ? persistent : in_.gradient_behind(held_[at(param)], param, first);
}

// Parameters of the block that no earlier block adds to.
std::vector<int> GradientBuffers::ending_with(int block) const {
    std::vector<int> params;
    params.reserve(in_.model.blocks[at(block)].params.size());
    for (const int param : in_.model.blocks[at(block)].params) {
        if (target_[at(param)].buffer != kNoBuffer && last_user_[at(param)] == block) params.push_back(param);
    }
    return params;
}

void GradientBuffers::complete(int block) {
    const std::vector<int> params = ending_with(block);
    is_complete_[at(block)] = true;
    if (!for_norm_) find_leaving(params, block);
    // In the order of the list, which is part of the numerics: squares are of the gradient as it was rounded, since
    // that is what the update sees.
    for (const Act& act : in_.recipe.acts) {
        if (act.at != Stage::on_gradient || act.kernel->is_update || (act.pass >= 0 && act.pass != pass_)) continue;
        ParamTask task{.kernel = act.kernel, .block = block};
        act.kernel->grain == Grain::chunk ? take_chunks(params, task) : take_whole(params, task);
        if (!task.chunks.empty()) builder_.param(std::move(task));
    }
}

void GradientBuffers::take_whole(const std::vector<int>& params, ParamTask& task) const {
    task.chunks.reserve(params.size());
    for (const int param : params)
        task.chunks.push_back({.param = param,
                               .count = in_.param(param).numel(),
                               .gradient = target_[at(param)],
                               .squares = in_.place(param).squares});
}

// Those that wait in another form, or elsewhere, than they were summed.
void GradientBuffers::take_chunks(const std::vector<int>& params, ParamTask& task) const {
    for (const int param : params) {
        for (const ChunkSpan& chunk : in_.chunks(param)) {
            if (in_.numerics.gradient_format == GradientFormat::f32 && !in_.visits(param, chunk.first)) continue;
            const BufferSlice& sums = target_[at(param)];
            task.chunks.push_back({.param = param,
                                   .first = chunk.first,
                                   .count = chunk.count,
                                   .gradient = {sums.buffer, sums.offset + 4 * chunk.first},
                                   .narrow = rounded_to(param, chunk.first)});
        }
    }
}

void GradientBuffers::finish(int block) {
    if (!is_complete_[at(block)]) complete(block);
    if (for_norm_) return;
    std::vector<int> down, out;
    for (const int param : ending_with(block)) {
        if (in_.recipe.uses_gradients_at_once()) held_[at(param)] = target_[at(param)];
        if (leaves_device(param)) down.push_back(param);
        if (in_.plan_of(param).gradients == Home::disk) out.push_back(param);
    }
    // An update of this step finds in memory what is also on its way to disk, and need not read it back. Where it comes
    // down first, move_down names the copy in the host's memory instead.
    for (const int param : out) held_[at(param)] = leaving_[at(param)];
    if (!down.empty()) move_down(down, block);
    if (!out.empty()) write_to_disk(out);
}

// Where what goes down or to disk is: the sums themselves, or room for what they are rounded to.
void GradientBuffers::find_leaving(const std::vector<int>& params, int block) {
    const GradientFormat format = in_.numerics.gradient_format;
    std::vector<int> leave;
    for (const int param : params) {
        if (!leaves_device(param) && in_.plan_of(param).gradients != Home::disk) continue;
        leaving_[at(param)] = target_[at(param)];
        if (format != GradientFormat::f32) leave.push_back(param);
    }
    for (const int param : leave) leaving_[at(param)] = {};
    if (!leave.empty()) make_buffer(leave, block, TierKind::device, leaving_, false);
}

// Next to the sum; kNoBuffer where the sum itself is what waits.
BufferSlice GradientBuffers::rounded_to(int param, int64_t first) const {
    const ParamPlace& place = in_.place(param);
    if (in_.visits(param, first)) return in_.held_gradient(param, first);
    if (place.gradient_format == GradientFormat::f32) return {};
    const BufferSlice& leaving = leaving_[at(param)];
    return in_.gradient_behind(leaving.buffer == kNoBuffer ? place.gradient : leaving, param, first);
}

void GradientBuffers::move_down(const std::vector<int>& params, int block) {
    std::vector<int> homeless;
    for (const int param : params) {
        held_[at(param)] = in_.place(param).gradient;
        // Gradients at home on disk pass through the host's memory, in a buffer of the step.
        if (held_[at(param)].buffer == kNoBuffer) homeless.push_back(param);
    }
    if (!homeless.empty()) make_buffer(homeless, block, TierKind::host, held_, false);
    std::vector<MoveTask> tasks;  // one for each pair of buffers
    const auto add = [&](int param, const BufferSlice& from, const BufferSlice& to, int64_t bytes) {
        if (tasks.empty() || tasks.back().source != from.buffer || tasks.back().buffer != to.buffer)
            tasks.push_back(
                {.kind = MoveKind::down, .place = DiskPlace::gradient, .buffer = to.buffer, .source = from.buffer});
        std::vector<MovePiece>& pieces = tasks.back().pieces;
        // Each piece of a copy costs a call: chunks that lie one after the other on both sides are one.
        const bool goes_on = !pieces.empty() && pieces.back().param == param &&
                             pieces.back().source + pieces.back().bytes == from.offset &&
                             pieces.back().offset + pieces.back().bytes == to.offset;
        if (goes_on)
            pieces.back().bytes += bytes;
        else
            pieces.push_back({.param = param, .offset = to.offset, .source = from.offset, .bytes = bytes});
    };
    for (const int param : params) {
        const bool is_sum = in_.place(param).gradient_format == GradientFormat::f32;
        const BufferSlice& from = leaving_[at(param)];
        for (const ChunkSpan& chunk : in_.chunks(param)) {
            if (in_.visits(param, chunk.first)) continue;
            add(param,
                is_sum ? BufferSlice{from.buffer, from.offset + 4 * chunk.first}
                       : in_.gradient_behind(from, param, chunk.first),
                in_.gradient_behind(held_[at(param)], param, chunk.first),
                piece_bytes(in_, DiskPlace::gradient, chunk));
        }
    }
    for (MoveTask& task : tasks) builder_.move(std::move(task));
}

void GradientBuffers::write_to_disk(const std::vector<int>& params) {
    std::vector<MoveTask> tasks;  // one for each buffer
    for (const int param : params) {
        const BufferSlice& from = held_[at(param)];
        if (tasks.empty() || tasks.back().buffer != from.buffer)
            tasks.push_back({.kind = MoveKind::disk_write, .place = DiskPlace::gradient, .buffer = from.buffer});
        for (const ChunkSpan& chunk : in_.chunks(param)) {
            tasks.back().pieces.push_back({.param = param,
                                           .first = chunk.first,
                                           .count = chunk.count,
                                           .offset = in_.gradient_behind(from, param, chunk.first).offset,
                                           .bytes = piece_bytes(in_, DiskPlace::gradient, chunk)});
        }
    }
    for (MoveTask& task : tasks) builder_.move(std::move(task));
}

}  // namespace windlass
