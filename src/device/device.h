// device.h: the nouns of whatever computes: DeviceId, Device, Stream, Event, Memory.
//
// A Stream is where kernels go, in order. On `cpu` a launch returns when the work is done; on `cuda` it returns at once
// and an Event tells. `fake` computes nothing: schedules are lowered, checked and simulated for it.
// `cpu:emulate` computes with the same kernels as `cpu`, but in its own arena, separate from the host's: moves up and
// down are real copies, so all three tiers can be exercised without a GPU.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace windlass {

enum class DeviceKind : uint8_t { cpu, fake, cuda };
inline constexpr int kDeviceKinds = 3;

struct DeviceId {
    DeviceKind kind = DeviceKind::cpu;
    int index = 0;
    bool own_memory = false;  // apart from the host's; else both are one arena, and moves up and down are nothing
    auto operator<=>(const DeviceId&) const = default;
};

std::string_view device_kind_name(DeviceKind kind);

// cpu | cpu:emulate | fake, which replaces a GPU and so has memory of its own | cuda | cuda:N. Other text is
// UserError(usage) at `where`, a configuration key or an option. Does not check that such a device exists.
DeviceId parse_device(std::string_view text, std::string_view where);
std::optional<DeviceId> device_from_name(std::string_view text);
// As parse_device reads it, followed by the index where that is not 0.
std::string device_name(DeviceId device);

class Stream;

// Given to work while a device does it. A device's memory is touched there, and nowhere else: code without a Launch has
// no address of it (Memory::address). Only streams make them.
class Launch {
  public:
    Stream& stream() const { return stream_; }  // what kernels are given

  private:
    friend class Stream;
    explicit Launch(Stream& stream) : stream_(stream) {}
    Stream& stream_;
};
using Work = std::function<void(const Launch&)>;

// A point in what a stream does.
class Event {
  public:
    virtual ~Event() = default;
    // Returns when all that was launched before it was recorded is complete. Throws what that failed with.
    virtual void wait() {}
    // now_ns() of that moment, once wait() has returned.
    int64_t time_ns() const { return time_ns_; }

  protected:
    friend class Stream;
    int64_t time_ns_ = 0;
};

// What is launched is done in order. A stream completes at once, as this one does, or runs ahead: then launch() returns
// before the work is complete, and an event tells. Threads: one owner, but for Event::wait and, as argument, wait_for.
class Stream {
  public:
    virtual ~Stream() = default;
    virtual DeviceKind device() const = 0;
    virtual bool runs_ahead() const { return false; }
    // Everything that `work` refers to lives until an event after it says that it is complete.
    virtual void launch(Work work) { work(on(*this)); }
    virtual std::unique_ptr<Event> make_event() { return std::make_unique<Event>(); }
    // The event is of this kind of device; from now on it marks the end of everything launched so far.
    virtual void record(Event& event) { event.time_ns_ = now_ns(); }
    // What is launched from now on begins when the event, which was recorded before, is complete.
    virtual void wait_for(const Event&) {}
    // Returns when everything launched so far is complete. Throws what it failed with.
    virtual void synchronize() {}

    // By work, while it is launched: bytes that this stream's device and the host's arenas hold, apart from each other.
    virtual void copy(void* to, const void* from, int64_t bytes) { std::memcpy(to, from, static_cast<size_t>(bytes)); }
    virtual void clear(void* to, int64_t bytes) { std::memset(to, 0, static_cast<size_t>(bytes)); }

  protected:
    static Launch on(Stream& stream) { return Launch(stream); }
};

// Whose memory: of the device itself, or of the host, as the device likes best to copy from and to.
enum class MemoryKind : uint8_t { device, host };

// Bytes that a device was asked for. The host reaches those of a device by read() and write() alone.
class Memory {
  public:
    virtual ~Memory() = default;
    virtual int64_t bytes() const = 0;
    // Where work finds them.
    virtual std::byte* address(const Launch& launch) const = 0;
    // Where the host finds them. Where it cannot look, an address for telling parts apart: who follows it faults.
    virtual std::byte* address() const = 0;
    // Bytes [offset, offset + size), while nothing that is launched writes them (or, of write, reads them).
    virtual void read(int64_t offset, std::span<std::byte> to) const = 0;
    virtual void write(int64_t offset, std::span<const std::byte> from) = 0;
};

// Of a device with memory of its own.
struct DeviceProperties {
    std::string name;         // "NVIDIA H200"
    std::string kernel_path;  // what decides which kernels run: "sm_90 x 132", architecture and multiprocessors
    int64_t memory_bytes = 0, free_bytes = 0;
    int64_t cache_bytes = 0;  // of the last-level cache
};

class Device {
  public:
    virtual ~Device() = default;
    // What is free says what the runtime and its libraries have left, so far. Nothing where memory is the host's.
    virtual DeviceProperties properties() { return {}; }
    // `threads` workers where it computes with the host's processor.
    virtual std::unique_ptr<Stream> make_stream(int threads) = 0;
    // Reserved and touched. Throws UserError(no_fit) where the system refuses.
    virtual std::unique_ptr<Memory> allocate(int64_t bytes, MemoryKind kind) = 0;
};

// Throws UserError(gpu) where there is no such device.
std::unique_ptr<Device> make_device(DeviceId device);
// What decides which kernels run: "avx512_bf16", "sm_90 x 132". Throws UserError(gpu) where there is no such device.
std::string kernel_path(DeviceId device);

// A stream of a device that computes in the host's memory; `threads` workers where it is the CPU.
std::unique_ptr<Stream> make_stream(DeviceKind kind, int threads);

}  // namespace windlass
