// lower_buffers.h: the buffers of a training step that are neither weights nor state: activations and gradients, on
// their way between device, host and disk as the plan says.
#pragma once

#include <array>
#include <vector>

#include "schedule/builder.h"

namespace windlass {

// What forward keeps for backward, and where each kind of it waits.
inline constexpr std::array kSavedRegions = {Region::saved, Region::saved_second, Region::saved_third};
inline constexpr std::array kSavedHomes = {Home::device, Home::host, Home::disk};

// Residual streams, saved values and their gradients, by block and micro-batch.
class ActivationBuffers {
  public:
    explicit ActivationBuffers(ScheduleBuilder& builder);

    // Regions of a forward segment; its output becomes the next block's input, or the step's result.
    void bind_forward(RunTask& task, std::vector<BufferUse>& uses);
    // Regions of a backward segment; where it passes it on, the gradient of its input becomes that of the output of the
    // block before.
    void bind_reverse(RunTask& task, std::vector<BufferUse>& uses, bool passes_gradient_on);
    // What the plan does not keep on the device leaves it, once forward is through with it.
    void spill(int block, int micro);
    // It comes back for a backward visit. Does nothing where nothing left, or where it was called for this visit
    // before.
    void bring(const Visit& visit, int micro);

  private:
    // A buffer that left the device.
    struct Offloaded {
        BufferId host = kNoBuffer;  // or, on disk:
        int64_t file_offset = -1;
        int64_t bytes = 0;
        MemoryTag tag = MemoryTag::block_inputs;
        bool is_back = false, is_back_again = false;  // for the visit that updates, and for the one before it
        bool is_away() const { return bytes > 0; }
    };
    struct Activation {
        BufferId input = kNoBuffer;  // the block's residual stream in
        std::array<BufferId, kSavedRegions.size()> saved{kNoBuffer, kNoBuffer, kNoBuffer};
        BufferId gradient = kNoBuffer;  // of the block's output
        Offloaded offloaded_input;
        std::array<Offloaded, kSavedRegions.size()> offloaded_saved;
    };

    Activation& of(int block, int micro) {
        return activations_[static_cast<size_t>(block)][static_cast<size_t>(micro)];
    }
    BufferId make(int block, int micro, std::string_view what, MemoryTag tag, int64_t bytes);
    void bind(RunTask& task, std::vector<BufferUse>& uses, Region region, BufferId buffer, bool write) const;
    bool leaves(Home home) const { return home == Home::disk || (home == Home::host && in_.plan.own_memory()); }
    Offloaded offload(BufferId buffer, Home home);
    BufferId bring_back(const Offloaded& offloaded, int block, int micro);
    void copy(MoveKind kind, BufferId from, BufferId to, int64_t bytes);
    void transfer(MoveKind kind, BufferId buffer, const Offloaded& offloaded);

    ScheduleBuilder& builder_;
    const LowerInput& in_;
    int blocks_;
    std::vector<std::vector<Activation>> activations_;  // [block][micro]
};

// Gradients of parameters: where runs add to them, and the way from there to where they are held.
class GradientBuffers {
  public:
    // Where they are used at once: in buffers that live as long as they do. for_norm: they are squared, and no more.
    explicit GradientBuffers(ScheduleBuilder& builder, bool for_norm = false);

    // Targets of a backward segment's contributions.
    void bind(RunTask& task, std::vector<BufferUse>& uses);
    // The last contributions are there: the recipe's acts on gradients, but for updates, are done to them.
    void complete(int block);
    // And go to where the plan holds them. Completes them where that was not asked for.
    void finish(int block);
    // Where an update of this step finds a chunk's gradient in memory.
    BufferSlice in_memory(int param, int64_t first) const;

  private:
    void make_buffers(int block);
    // For sums, or for their rounded form.
    void make_buffer(const std::vector<int>& params, int block, TierKind tier, std::vector<BufferSlice>& slices,
                     bool is_sum);
    bool leaves_device(int param) const {
        return in_.plan.own_memory() && in_.plan_of(param).gradients != Home::device;
    }
    std::vector<int> ending_with(int block) const;
    void find_leaving(const std::vector<int>& params, int block);
    void take_whole(const std::vector<int>& params, ParamTask& task) const;
    void take_chunks(const std::vector<int>& params, ParamTask& task) const;
    BufferSlice rounded_to(int param, int64_t first) const;
    void move_down(const std::vector<int>& params, int block);
    void write_to_disk(const std::vector<int>& params);

    ScheduleBuilder& builder_;
    const LowerInput& in_;
    bool for_norm_;
    int pass_;                          // index of the backward pass into Recipe::passes
    std::vector<BufferSlice> target_;   // by parameter: where runs add
    std::vector<BufferSlice> leaving_;  // by parameter: what goes down or to disk, where sums are rounded to be that
    std::vector<BufferSlice> held_;     // by parameter: in the memory of the updating processor, for this step
    std::vector<bool> written_;         // by parameter: some contribution was scheduled
    std::vector<bool> is_complete_;     // by block
    std::vector<int> last_user_;        // by parameter: the last block of backward that adds to it
};

}  // namespace windlass
