#include "tests/simt/block.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <memory>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "tests/simt/matrix.h"
#include "tests/simt/switches.h"

namespace windlass::simt {
namespace {

namespace context = boost::context::detail;

constexpr size_t kStackBytes = size_t{320} << 10;  // touched as far as it is used
// Stacks begin at different distances from their pages: else the ends of all, which a switch reads, would fall on the
// same few lines of a cache.
constexpr size_t kStagger = 832, kStaggerMost = size_t{64} << 10;
constexpr unsigned kThreadsMax = 1024;  // of a block, as on every card

// The stacks of an operating system's thread, kept for its next grids.
class Stacks {
  public:
    ~Stacks() {
        for (std::byte* const stack : stacks_) ::munmap(stack, kStackBytes);
    }
    std::byte* stack(size_t index) {
        while (stacks_.size() <= index) {
            void* const made = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
            if (made == MAP_FAILED) throw std::bad_alloc();
            stacks_.push_back(static_cast<std::byte*>(made));
        }
        return stacks_[index];
    }

  private:
    std::vector<std::byte*> stacks_;
};

}  // namespace

enum class Waits : uint8_t { no, for_block, for_warp, for_event, ended };

struct Warp {
    unsigned lanes = 0, waiting = 0;
    Site site;
    Slots given{}, returned{};
};

struct Fiber {
    Thread thread;
    Waits waits = Waits::no;
    Site site;  // where it waits
    Warp* warp = nullptr;
    context::fcontext_t at = nullptr;
    std::byte* stack = nullptr;
    size_t stack_bytes = 0;

    std::byte* stack_end() const { return stack + stack_bytes; }
};

namespace {

class Block;
thread_local Block* running = nullptr;  // on this thread of the operating system
thread_local Fiber* current = nullptr;
thread_local Stacks stacks;

class Block {
  public:
    Block(const CudaGrid& grid, Index index, Random& random, const std::function<void()>& kernel)
        : random_(random),
          kernel_(kernel),
          shared_bytes_(grid.shared_bytes),
          shared_(new std::byte[grid.shared_bytes]),
          warps_((grid.threads + kLanes - 1) / kLanes),
          fibers_(grid.threads) {
        std::fill_n(shared_.get(), grid.shared_bytes, std::byte{0xff});
        for (unsigned i = 0; i < grid.threads; ++i) {
            Fiber& fiber = fibers_[i];
            const Index grid_size = {static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.rows), 1};
            fiber.thread = {{i}, index, {grid.threads, 1, 1}, grid_size, i % kLanes};
            fiber.warp = &warps_[i / kLanes];
            ++fiber.warp->lanes;
            fiber.stack = stacks.stack(i);
            fiber.stack_bytes = kStackBytes - i * kStagger % kStaggerMost;
            fiber.at = context::make_fcontext(fiber.stack_end(), fiber.stack_bytes, enter);
            ready_.push_back(&fiber);
        }
    }
    Block(const Block&) = delete;
    ~Block() {
        for (const Fiber& fiber : fibers_) forget_frames(fiber.at, fiber.stack_end());
        forget_copies();
    }

    // Until all have ended.
    void run() {
        running = this;
        while (ended_ < fibers_.size()) {
            work_some();
            if (ready_.empty() && !late_.empty()) {
                take(late_, draw_below(late_.size()))();
            } else {
                if (ready_.empty() && fault_.empty()) release_block();
                if (fault_.empty()) resume(draw());
            }
            if (!fault_.empty()) throw Fault(fault_);
        }
        if (state != nullptr && !state->unfinished().empty()) throw Fault(state->unfinished());
        running = nullptr;
        if (const size_t copies = forget_copies(); copies > 0)
            throw Fault(fmt::format("a block ended, and its threads have not waited for {} copies", copies));
    }

    std::byte* shared() const { return shared_.get(); }
    unsigned shared_bytes() const { return shared_bytes_; }
    unsigned threads() const { return static_cast<unsigned>(fibers_.size()); }
    unsigned meetings() const { return meetings_; }
    std::unique_ptr<BlockState> state;

    void do_some_time(std::function<void()> work) {
        (random_.next() % 2 == 0 ? soon_ : late_).push_back(std::move(work));
    }
    void wait_in(Waiters& waiters, Site site) {
        current->site = site;
        waiters.push_back(current);
        wait(Waits::for_event);
    }
    void release_all(Waiters& waiters) {
        for (Fiber* const fiber : waiters) release(*fiber);
        waiters.clear();
    }

    void wait_for_block(Site site) {
        current->site = site;
        wait(Waits::for_block);
    }

    const Slots& exchange(Site site, std::span<const std::byte> mine, void (*turn)(Slots&)) {
        Warp& warp = *current->warp;
        if (warp.waiting == 0) warp.site = site;
        if (!(warp.site == site)) fault_ = both(warp.site, site);
        std::copy(mine.begin(), mine.end(), warp.given[current->thread.lane].begin());
        current->site = site;
        if (++warp.waiting < warp.lanes) {
            wait(Waits::for_warp);
            return warp.returned;
        }
        if (turn != nullptr) turn(warp.given);
        warp.returned = warp.given;
        warp.waiting = 0;
        const size_t first = static_cast<size_t>(&warp - warps_.data()) * kLanes;
        for (size_t i = first; i < first + warp.lanes; ++i)
            if (fibers_[i].waits == Waits::for_warp) release(fibers_[i]);
        return warp.returned;
    }

    void fail(std::string what) {
        if (fault_.empty()) fault_ = std::move(what);
    }

  private:
    using Works = std::vector<std::function<void()>>;

    WINDLASS_NEVER_LEFT static void enter(context::transfer_t from) {
        running->arrive(from);
        running->kernel_();
        running->wait(Waits::ended);
    }

    static std::string both(Site a, Site b) {
        return fmt::format("threads wait at {}:{} and at {}:{}", a.file, a.line, b.file, b.line);
    }

    void release(Fiber& fiber) {
        fiber.waits = Waits::no;
        ready_.push_back(&fiber);
    }

    // Nobody may go on: all are at one barrier, or something is wrong.
    void release_block() {
        for (const Fiber& fiber : fibers_)
            if (fiber.waits == Waits::for_event)
                throw Fault(fmt::format("a thread waits forever at {}:{}", fiber.site.file, fiber.site.line));
        const Fiber& first = *std::find_if(fibers_.begin(), fibers_.end(),
                                           [](const Fiber& fiber) { return fiber.waits != Waits::ended; });
        for (const Fiber& fiber : fibers_) {
            if (fiber.waits == Waits::ended)
                throw Fault(fmt::format("a thread ended, and others wait at {}:{}", first.site.file, first.site.line));
            if (fiber.waits != Waits::for_block || !(fiber.site == first.site))
                throw Fault(both(first.site, fiber.site));
        }
        ++meetings_;
        for (Fiber& fiber : fibers_) release(fiber);
    }

    size_t draw_below(size_t bound) { return uint64_t{random_.next()} * bound >> 32; }  // in less time than below()

    static std::function<void()> take(Works& works, size_t index) {
        std::swap(works[index], works.back());
        std::function<void()> work = std::move(works.back());
        works.pop_back();
        return work;
    }
    // What is to be done soon takes its turn among the threads that may go on.
    void work_some() {
        while (!soon_.empty() && fault_.empty()) {
            const size_t drawn = draw_below(soon_.size() + ready_.size());
            if (drawn >= soon_.size()) return;
            take(soon_, drawn)();
        }
    }

    // Of those that may go on, the next one.
    Fiber& draw() {
        const size_t drawn = draw_below(ready_.size());
        std::swap(ready_[drawn], ready_.back());
        Fiber& next = *ready_.back();
        ready_.pop_back();
        return next;
    }

    // Back here when no fiber may go on, or all have ended, or there is a fault.
    void resume(Fiber& fiber) {
        current = &fiber;
        const Switch there({fiber.stack, fiber.stack_bytes});
        leave(context::jump_fcontext(fiber.at, &scheduler_));
        there.is_back();
        current = nullptr;
    }

    // Where the jump that ended here came from: who jumps says where that is kept.
    static void leave(context::transfer_t from) { *static_cast<context::fcontext_t*>(from.data) = from.fctx; }

    // On a fiber: it goes on from here.
    void arrive(context::transfer_t from) {
        leave(from);
        Switch::begins(from.data == &scheduler_ ? &scheduler_stack_ : nullptr);
    }

    // Fibers take turns among themselves: a way over the scheduler would be twice as many jumps.
    WINDLASS_NEVER_LEFT void wait(Waits for_what) {
        Fiber& mine = *current;
        mine.waits = for_what;
        if (for_what == Waits::ended) ++ended_;
        work_some();
        Fiber* const next = ready_.empty() || !fault_.empty() ? nullptr : &draw();
        if (next == &mine) return;  // released by what was just done
        if (next != nullptr) current = next;
        const StackRange to = next != nullptr ? StackRange{next->stack, next->stack_bytes} : scheduler_stack_;
        const Switch back(to, for_what == Waits::ended);
        const context::transfer_t from = context::jump_fcontext(next != nullptr ? next->at : scheduler_, &mine.at);
        leave(from);
        back.is_back(from.data == &scheduler_ ? &scheduler_stack_ : nullptr);
    }

    Random& random_;
    const std::function<void()>& kernel_;
    unsigned shared_bytes_;
    std::unique_ptr<std::byte[]> shared_;
    std::vector<Warp> warps_;
    std::vector<Fiber> fibers_;
    std::vector<Fiber*> ready_;
    Works soon_, late_;
    size_t ended_ = 0;
    unsigned meetings_ = 0;
    std::string fault_;
    context::fcontext_t scheduler_ = nullptr;
    StackRange scheduler_stack_;
};

}  // namespace

const Thread& this_thread() {
    return current->thread;
}

std::byte* shared_memory() {
    return running->shared();
}

void sync_block(Site site) {
    running->wait_for_block(site);
}

const Slots& exchange(Site site, std::span<const std::byte> mine, void (*turn)(Slots&)) {
    return running->exchange(site, mine, turn);
}

void do_some_time(std::function<void()> work) {
    running->do_some_time(std::move(work));
}
void wait_in(Waiters& waiters, Site site) {
    running->wait_in(waiters, site);
}
void release_all(Waiters& waiters) {
    running->release_all(waiters);
}
unsigned shared_bytes() {
    return running->shared_bytes();
}
unsigned block_threads() {
    return running->threads();
}
unsigned block_meetings() {
    return running->meetings();
}
std::unique_ptr<BlockState>& block_state() {
    return running->state;
}

void fail(std::string what) {
    running->fail(std::move(what));
}

void require_full(Site site, uint32_t mask) {
    if (mask != 0xffffffffu)
        fail(fmt::format("{}:{}: lanes {:#x} of a warp exchange; all are wanted", site.file, site.line, mask));
}

uint32_t ballot(Site site, uint32_t mask, bool holds) {
    require_full(site, mask);
    const auto mine = static_cast<std::byte>(holds);
    const Slots& slots = exchange(site, {&mine, 1});
    uint32_t bits = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) bits |= static_cast<uint32_t>(slots[lane][0]) << lane;
    return bits;
}

void run_grid(const CudaGrid& grid, uint64_t seed, const std::function<void()>& kernel) {
    if (grid.threads == 0 || grid.threads > kThreadsMax || grid.blocks <= 0 || grid.rows <= 0)
        throw Fault(fmt::format("a grid of {} x {} blocks of {} threads", grid.blocks, grid.rows, grid.threads));
    Random random(seed, RandomStream::test);
    const auto across = static_cast<unsigned>(grid.blocks), down = static_cast<unsigned>(grid.rows);
    std::vector<unsigned> order(size_t{across} * down);
    std::iota(order.begin(), order.end(), 0u);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (const unsigned index : order) Block(grid, {index % across, index / across}, random, kernel).run();
}

}  // namespace windlass::simt
