#include "session/control_group.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text_cuts.h"
#include "base/units.h"
#include "session/kernel_text.h"

namespace windlass {
namespace {

constexpr int64_t kTableBytesMax = kMiB;        // of mounts, or of a group's statistics
constexpr int64_t kNumberBytesMax = 128;        // "max", "200000 100000"
constexpr int64_t kNoLimit = int64_t{1} << 62;  // version 1 writes the largest number of pages, in bytes

bool contains(std::string_view list, std::string_view word) {
    return std::ranges::count(split(list, ','), word) > 0;
}

bool leaves_its_root(std::string_view path) {
    return std::ranges::count(split(path, '/'), "..") > 0;
}

// Mounts are written with "\040" for a blank.
std::string unescaped(std::string_view text) {
    const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
    std::string plain;
    for (size_t at = 0; at < text.size(); ++at) {
        const std::string_view digits = text.substr(at + 1, 3);
        const bool escapes = text[at] == '\\' && digits.size() == 3 && std::ranges::all_of(digits, is_octal);
        if (!escapes) {
            plain += text[at];
            continue;
        }
        plain += static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0'));
        at += 3;
    }
    return plain;
}

// The groups that this process is in, as paths below the root of their hierarchy.
struct OwnGroups {
    std::string unified, memory, cpu;  // of version 2, and of the two controllers of version 1; empty: none
};

OwnGroups parse_own_groups(std::string_view text) {
    OwnGroups own;
    for (const std::string_view line : split(text, '\n')) {  // "4:cpu,cpuacct:/docker/x", "0::/user.slice"
        const size_t first = line.find(':'), second = first == line.npos ? first : line.find(':', first + 1);
        if (second == line.npos) continue;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const std::string path(line.substr(second + 1));
        if (line.starts_with("0::")) own.unified = path;
        if (contains(controllers, "memory")) own.memory = path;
        if (contains(controllers, "cpu")) own.cpu = path;
    }
    return own;
}

// Where a hierarchy is mounted. A container may see a part of it alone: `root` is where that begins.
struct Mount {
    std::string root, point;
    bool is_unified = false, has_memory = false, has_cpu = false;
};

std::vector<Mount> parse_mounts(std::string_view text) {
    std::vector<Mount> mounts;
    for (const std::string_view line : split(text, '\n')) {
        // "35 31 0:32 /docker/x /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"
        const size_t dash = line.find(" - ");
        if (dash == line.npos) continue;
        const std::vector<std::string_view> where = split(line.substr(0, dash), ' ');
        const std::vector<std::string_view> what = split(line.substr(dash + 3), ' ');
        if (where.size() < 5 || what.size() < 3) continue;
        Mount mount{.root = unescaped(where[3]), .point = unescaped(where[4]), .is_unified = what[0] == "cgroup2"};
        mount.has_memory = what[0] == "cgroup" && contains(what[2], "memory");
        mount.has_cpu = what[0] == "cgroup" && contains(what[2], "cpu");
        if (mount.is_unified || mount.has_memory || mount.has_cpu) mounts.push_back(std::move(mount));
    }
    return mounts;
}

// The folders of a group and of each one above it, up to what is mounted.
std::vector<std::string> levels(const Mount& mount, const std::string& group) {
    // Mounted from above this process's namespace: its own group cannot be named there, and is below all the same.
    if (leaves_its_root(mount.root)) return {mount.point};
    std::string below = group;
    if (mount.root != "/") {
        if (group != mount.root && !group.starts_with(mount.root + "/")) return {};
        below = group.substr(mount.root.size());
    }
    if (!below.empty() && (!below.starts_with('/') || leaves_its_root(below))) return {};
    std::vector<std::string> folders;
    for (; !below.empty(); below.resize(below.rfind('/')))
        if (below != "/") folders.push_back(mount.point + below);
    folders.push_back(mount.point);
    return folders;
}

class Reader {
  public:
    Reader(FileSystem& files, const std::string& root) : files_(files), root_(root) {}

    ControlGroup read() {
        const OwnGroups own = parse_own_groups(text("/proc/self/cgroup", kTableBytesMax));
        for (const Mount& mount : parse_mounts(text("/proc/self/mountinfo", kTableBytesMax))) {
            if (mount.is_unified && !own.unified.empty()) read_unified(levels(mount, own.unified));
            if (mount.has_memory && !own.memory.empty()) read_memory(levels(mount, own.memory));
            if (mount.has_cpu && !own.cpu.empty()) read_cpu(levels(mount, own.cpu));
        }
        return found_;
    }

  private:
    std::string text(const std::string& path, int64_t bytes_max) {
        return read_kernel_text(files_, root_ + path, bytes_max).value_or("");
    }
    std::optional<int64_t> number(const std::string& path) { return first_number(text(path, kNumberBytesMax)); }

    void read_unified(const std::vector<std::string>& folders) {
        for (const std::string& folder : folders) {
            for (const char* file : {"/memory.max", "/memory.high"})  // above "high" a process hardly moves
                limit_memory(number(folder + file), folder, "/memory.current", "inactive_file");
            const std::string quota = text(folder + "/cpu.max", kNumberBytesMax);  // "200000 100000"
            const size_t blank = quota.find(' ');
            if (blank != quota.npos) limit_processors(first_number(quota), first_number(quota.substr(blank + 1)));
        }
    }

    void read_memory(const std::vector<std::string>& folders) {
        for (const std::string& folder : folders) {
            // Once a group could leave out what the groups below it take.
            if (folder != folders.front() && number(folder + "/memory.use_hierarchy") == 0) return;
            limit_memory(number(folder + "/memory.limit_in_bytes"), folder, "/memory.usage_in_bytes",
                         "total_inactive_file");
        }
    }

    void read_cpu(const std::vector<std::string>& folders) {
        for (const std::string& folder : folders)
            limit_processors(number(folder + "/cpu.cfs_quota_us"), number(folder + "/cpu.cfs_period_us"));
    }

    // Bytes of a line "name 17" of the group's statistics.
    int64_t statistic(const std::string& folder, std::string_view name) {
        const std::string all = text(folder + "/memory.stat", kTableBytesMax);
        for (const std::string_view line : split(all, '\n'))
            if (line.starts_with(name) && line.substr(name.size()).starts_with(' '))
                return first_number(line.substr(name.size() + 1)).value_or(0);
        return 0;
    }

    void limit_memory(std::optional<int64_t> limit, const std::string& folder, const char* usage,
                      std::string_view inactive) {
        if (!limit || *limit < 0 || *limit >= kNoLimit) return;
        const int64_t used = number(folder + usage).value_or(0) - statistic(folder, inactive);
        const int64_t left = std::max<int64_t>(0, *limit - std::max<int64_t>(0, used));
        if (!found_.memory || left < found_.memory->left) found_.memory = {*limit, left};
    }

    void limit_processors(std::optional<int64_t> quota, std::optional<int64_t> period) {
        if (!quota || *quota <= 0 || !period || *period <= 0) return;
        const auto whole = static_cast<int>(std::clamp<int64_t>(*quota / *period, 1, INT32_MAX));
        found_.processors = std::min(whole, found_.processors.value_or(whole));
    }

    FileSystem& files_;
    const std::string& root_;
    ControlGroup found_;
};

}  // namespace

ControlGroup read_control_group(FileSystem& files, const std::string& root) {
    return Reader(files, root).read();
}

}  // namespace windlass
