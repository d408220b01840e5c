#include "persist/run_identity.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/durable_folders.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "format/store.h"
#include "persist/run_parts.h"
#include "session/session.h"
#include "state/metrics.h"

namespace windlass {
namespace {

constexpr std::string_view kIdLine = "# run ", kIdentityLine = "# identity ";
constexpr size_t kDigits = 32;
constexpr int64_t kYamlBytesMax = int64_t{1} << 20;

bool is_run_id(std::string_view text) {
    return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<Identity> identity_in(const std::string& yaml, const std::string& path) {
    const std::vector<std::string_view> found = lines_that_begin(yaml, kIdentityLine);
    if (found.empty()) return std::nullopt;
    return parse_identity(found.front(), path);
}

// Whether the locked file is still the one of this name: who ends takes its lock away.
bool is_still_there(const File& file) {
    struct stat held {
    }, named{};
    return ::fstat(file.descriptor(), &held) == 0 && ::stat(file.path().c_str(), &named) == 0 &&
           held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

// Whether this store was made when the run went back to its step, and nothing was trained in it since: lines of later
// steps are of the history that was left, and a kill came before they were cut off.
bool is_as_made(FileSystem& files, const StartPoint& start, const std::string& run_folder) {
    const std::string meta = Store::open(files, start.path, OpenMode::read).layout().meta;
    const std::string maker = parse_run_state(meta, start.path).identity.part_id;
    const std::vector<RunPart> parts = parts_in_run(files, run_folder);
    const auto made = std::ranges::find(parts, maker, &RunPart::id);
    return made != parts.end() && std::all_of(made, parts.end(), [&](const RunPart& part) {
               return part.after == start.last().progress.step;
           });
}

}  // namespace

std::vector<std::string_view> lines_that_begin(std::string_view text, std::string_view head) {
    std::vector<std::string_view> found;
    for (size_t begin = 0; begin < text.size();) {
        const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
        if (line.starts_with(head)) found.push_back(line.substr(head.size()));
        begin += line.size() + 1;
    }
    return found;
}

std::string new_run_id() {
    std::array<unsigned char, kDigits / 2> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != std::ssize(bytes))
        throw MachineError("getrandom", "the id of the run", errno);
    std::string id;
    for (const unsigned char byte : bytes) id += fmt::format("{:02x}", byte);
    return id;
}

std::string with_identity(const Identity& identity, const std::vector<RunPart>& parts, const std::string& yaml) {
    return fmt::format("{}{}: in its checkpoints, working store and log, too; leave these lines in place\n{}{}\n{}{}",
                       kIdLine, identity.run_id, kIdentityLine, identity_text(identity), parts_line(parts), yaml);
}

std::string run_id_of(FileSystem& files, const std::string& run_folder) {
    const std::string path = fmt::format("{}/run.yaml", run_folder);
    if (!files.exists(path)) return "";
    const std::string text = read_text(files, path, kYamlBytesMax);
    for (const std::string_view line : lines_that_begin(text, kIdLine)) {
        const std::string_view id = line.substr(0, kDigits);
        if (is_run_id(id)) return std::string(id);
    }
    return "";
}

std::optional<Identity> identity_in_run(FileSystem& files, const std::string& run_folder) {
    const std::string path = fmt::format("{}/run.yaml", run_folder);
    if (!files.exists(path)) return std::nullopt;
    return identity_in(read_text(files, path, kYamlBytesMax), path);
}

std::vector<std::string> differs_from_run(FileSystem& files, const std::string& yaml_path, const Identity& identity) {
    const std::optional<Identity> its_own = identity_in(read_text(files, yaml_path, kYamlBytesMax), yaml_path);
    std::vector<std::string> texts;
    if (!its_own) return texts;
    for (const Difference& each : differences(*its_own, identity)) texts.push_back(each.text());
    return texts;
}

void require_own(const std::string& own_id, const RunState& state, const std::string& path, std::string_view remedy) {
    if (own_id.empty() || own_id == state.identity.run_id) return;
    throw UserError(ExitCode::storage, path, "belongs to another run: it was written by run {}, run.yaml is of run {}",
                    state.identity.run_id, own_id)
        .hint(remedy);
}

void require_own_store(FileSystem& files, const RunRequest& run) {
    const std::string& path = run.store;
    if (path.empty() || !files.exists(path)) return;
    RunState state;
    try {
        state = parse_run_state(Store::open(files, path, OpenMode::read).committed_run_state(), path);
    } catch (const UserError&) {
        return;  // no whole state of any run
    }
    const std::string own_id = run_id_of(files, run.folder);
    constexpr std::string_view kRemedy = "another ssd_dir; or remove the file, if the run that it belongs to is over";
    if (!own_id.empty()) return require_own(own_id, state, path, kRemedy);
    throw UserError(ExitCode::storage, path, "belongs to another run: it was written by run {}, and {} holds none",
                    state.identity.run_id, run.folder)
        .hint(kRemedy);
}

std::string adopted_run_id(FileSystem& files, const StartPoint& start, const std::string& run_folder) {
    std::string own_id = run_id_of(files, run_folder);
    if (!own_id.empty()) return own_id;
    log_warning("{}/run.yaml names no run; what {} holds is taken for its state", run_folder,
                start.path.empty() ? run_folder : start.path);
    return start.last().identity.run_id;
}

void require_newest_store(FileSystem& files, const StartPoint& start, const std::string& run_folder) {
    constexpr int64_t kTakenBack = 1;
    const std::string path = fmt::format("{}/metrics.jsonl", run_folder);
    const int64_t written = last_step_on_disk(files, path), step = start.resumes() ? start.last().progress.step : 0;
    if (written <= step + kTakenBack) return;
    if (start.from == StartPoint::From::working_store && !is_as_made(files, start, run_folder))
        throw UserError(ExitCode::storage, start.path, "is of step {}, but {} has steps up to {} that were kept in it",
                        step, path, written)
            .hint("the ssd_dir of that run; or move metrics.jsonl away, to continue from the older state");
    if (start.from == StartPoint::From::checkpoint)
        log_warning("{} has steps up to {} that were kept in a working store, which is not there; step {} is older",
                    path, written, step);
}

StoreLock::StoreLock(FileSystem& files, const std::string& store_path) : files_(files) {
    if (store_path.empty()) return;
    make_durable_folders(files, parent_folder(store_path));
    const std::string path = store_path + ".lock";
    do {
        lock_.reset();
        LockAttempt attempt = try_lock(files, files.open(path, {OpenMode::append}), LockUse::alone);
        if (!attempt.lock) {
            UserError error(ExitCode::storage, store_path, "{} trains with this working store", attempt.holder);
            error.hint("another ssd_dir, or wait until it ends");
            if (!attempt.owner_path.empty())
                error.or_hint(fmt::format("rm {}, if that process is over", shell_word(attempt.owner_path)));
            throw std::move(error);
        }
        lock_.emplace(*std::move(attempt.lock));
    } while (lock_->file().descriptor() >= 0 && !is_still_there(lock_->file()));
}

StoreLock::~StoreLock() {
    if (!lock_) return;
    try {
        files_.remove_file(lock_->file().path());
    } catch (const Error& error) {
        log_warning("{}", error.what());
    }
}

}  // namespace windlass
