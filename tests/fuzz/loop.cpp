// fuzz: changes inputs at random and gives them to a reader, for some seconds, in a process of its own.
//
//   fuzz TARGET [--seconds N] [--seed S] [--findings FOLDER] [FILE|FOLDER]...
//   fuzz TARGET --replay FILE...
//
// Seeds are the target's folder in tests/fuzz/corpus/, and what is named. It does not follow coverage: it keeps inputs
// that were read, or refused with a message of a new kind, and changes those further. libFuzzer follows coverage
// (docs/dev/testing.md).
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/shell_word.h"
#include "base/units.h"
#include "format/checksum.h"
#include "tests/fuzz/judge.h"
#include "tests/fuzz/mutate.h"
#include "tests/place.h"
#include "tests/sanitizer.h"

namespace windlass {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    const FuzzTarget* target = nullptr;
    double seconds = 60;
    uint64_t seed = 1;
    std::string findings = ".";
    bool replays = false;
    std::vector<std::string> paths;
    std::string program;
};

// What outlives the process that reads.
struct Shared {
    int64_t inputs, findings, slowest_ms, most_heap_bytes;
    size_t bytes;
    char input[kInputMax];
    uint64_t known[64];  // kinds of findings that were kept
};

// A processor's second as released; instrumented code takes several times as long.
int64_t limit_ms() {
    return is_sanitized() ? 6000 : 1000;
}

int64_t processor_ms() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto ms = [](const timeval& time) { return int64_t{time.tv_sec} * 1000 + time.tv_usec / 1000; };
    return ms(usage.ru_utime) + ms(usage.ru_stime);
}

// The beginning of a message, without its numbers and its quotations, which inputs choose.
uint64_t kind_of(std::string_view text) {
    constexpr size_t kKindMax = 64;
    std::string kind;
    bool is_quoted = false;
    for (const char c : text) {
        if (kind.size() == kKindMax) break;
        if (c == '"') is_quoted = !is_quoted;
        if (!is_quoted && !isdigit(static_cast<unsigned char>(c))) kind += c;
    }
    return xxh3_64(bytes_of(kind));
}

std::vector<std::string> read_corpus(const std::vector<std::string>& paths) {
    std::vector<std::string> files, corpus;
    for (const std::string& path : paths) {
        if (!std::filesystem::is_directory(path)) {
            files.push_back(path);
            continue;
        }
        for (const std::string& name : real_files().list(path)) files.push_back(path + "/" + name);
    }
    for (const std::string& path : files) {
        const auto file = real_files().open(path, {});
        std::string bytes(static_cast<size_t>(std::min<int64_t>(file->size(), kInputMax)), '\0');
        file->read_at(std::as_writable_bytes(std::span(bytes)), 0);
        corpus.push_back(std::move(bytes));
    }
    if (corpus.empty()) corpus.emplace_back();
    return corpus;
}

// Keeps the input of a finding, unless one of its kind is kept.
void keep(const Options& options, Shared& shared, std::string_view what) {
    ++shared.findings;
    const uint64_t kind = kind_of(what);
    for (uint64_t& known : shared.known) {
        if (known == kind) return;
        if (known != 0) continue;
        known = kind;
        const std::string_view input(shared.input, shared.bytes);
        const std::string path =
            fmt::format("{}/{}-{:016x}", options.findings, options.target->name, xxh3_64(bytes_of(input)));
        const auto file = real_files().open(path, {.mode = OpenMode::create});
        file->write_at(bytes_of(input), 0);
        fmt::print(stderr, "{}: {}\n    {} {} --replay {}\n", options.target->name, printable(excerpt(what)),
                   options.program, options.target->name, shell_word(path));
        return;
    }
}

void try_input(const Options& options, Shared& shared, std::string_view input, Verdict& verdict) {
    shared.bytes = std::min(input.size(), kInputMax);
    std::memcpy(shared.input, input.data(), shared.bytes);
    const int64_t before = processor_ms();
    constexpr int kPatience = 5;
    const itimerval timer{.it_interval = {}, .it_value = {.tv_sec = kPatience * limit_ms() / 1000, .tv_usec = 0}};
    setitimer(ITIMER_PROF, &timer, nullptr);
    verdict = judge(*options.target, input);
    const int64_t took = processor_ms() - before;
    ++shared.inputs;
    shared.slowest_ms = std::max(shared.slowest_ms, took);
    shared.most_heap_bytes = std::max(shared.most_heap_bytes, verdict.heap_bytes);
    if (verdict.finding.empty() && took > limit_ms())
        verdict.finding = fmt::format("{} ms of processor time for {} bytes", took, input.size());
    if (!verdict.finding.empty()) keep(options, shared, verdict.finding);
}

[[noreturn]] void read_inputs(const Options& options, Shared& shared, uint64_t seed, Clock::time_point end) {
    constexpr size_t kCorpusMax = 4000, kUsualMax = 1 << 15;
    std::vector<std::string> corpus = read_corpus(options.paths);
    const std::vector<std::string_view> words = words_of(options.target->words);
    std::set<uint64_t> said;
    FuzzRandom random(seed);
    Verdict verdict;
    const size_t seeds = corpus.size();
    for (size_t i = 0; i < seeds || Clock::now() < end; ++i) {
        const size_t bytes_max = random() % 64 == 0 ? kInputMax : kUsualMax;
        std::string input = i < seeds ? corpus[i] : mutated(corpus, words, bytes_max, random);
        try_input(options, shared, input, verdict);
        const uint64_t kind = verdict.was_refused ? kind_of(verdict.said) : 0;
        const bool is_new = said.insert(kind).second || (!verdict.was_refused && random() % 64 == 0);
        if (i >= seeds && is_new && corpus.size() < kCorpusMax && input.size() <= kUsualMax)
            corpus.push_back(std::move(input));
    }
    _exit(0);
}

std::string death_of(int status) {
    if (!WIFSIGNALED(status)) return fmt::format("the process ended with {}", WEXITSTATUS(status));
    if (WTERMSIG(status) == SIGPROF) return "takes for ever";
    return fmt::format("the process ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

void fuzz(const Options& options) {
    auto* const shared =
        static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (shared == MAP_FAILED) throw MachineError("mmap", "shared memory", errno);
    const Clock::time_point end =
        Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(options.seconds * 1000));
    constexpr uint64_t kDeathsMax = 1000;
    for (uint64_t deaths = 0; deaths < kDeathsMax; ++deaths) {
        const pid_t child = fork();
        if (child < 0) throw MachineError("fork", "fuzz", errno);
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            read_inputs(options, *shared, options.seed + (deaths << 32), end);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status == 0) break;
        ++shared->inputs;
        keep(options, *shared, death_of(status));
        if (Clock::now() >= end) break;
    }
    fmt::print("{}: {} inputs, {} findings, slowest {} ms of processor time, largest {}, seed {}\n",
               options.target->name, shared->inputs, shared->findings, shared->slowest_ms,
               format_bytes(shared->most_heap_bytes), options.seed);
}

int replay(const Options& options) {
    int findings = 0;
    for (const std::string& path : options.paths) {
        const int64_t before = processor_ms();
        const Verdict verdict = judge(*options.target, read_corpus({path}).front());
        fmt::print(
            "{}: {}, {} ms, {}\n", path,
            !verdict.finding.empty() ? verdict.finding : (verdict.was_refused ? "refused: " + verdict.said : "read"),
            processor_ms() - before, format_bytes(verdict.heap_bytes));
        findings += !verdict.finding.empty();
    }
    return findings == 0 ? 0 : 1;
}

Options parse_words(int count, char** words) {
    Options options{.program = words[0]};
    for (int i = 1; i < count; ++i) {
        const std::string_view word = words[i];
        const auto value = [&] {
            if (i + 1 == count) throw UserError(ExitCode::usage, word, "expects a value");
            return std::string(words[++i]);
        };
        if (word == "--seconds")
            options.seconds = std::stod(value());
        else if (word == "--seed")
            options.seed = std::stoull(value());
        else if (word == "--findings")
            options.findings = value();
        else if (word == "--replay")
            options.replays = true;
        else if (options.target == nullptr && (options.target = find_fuzz_target(word)) == nullptr)
            throw UserError(ExitCode::usage, word, "is no target").hint("fuzz, which lists them");
        else if (word != options.target->name)
            options.paths.emplace_back(word);
    }
    return options;
}

int run(int count, char** words) {
    set_log_level(LogLevel::error);
    Options options = parse_words(count, words);
    if (options.target == nullptr) {
        for (const FuzzTarget& target : fuzz_targets()) fmt::print("{}\n", target.name);
        return 0;
    }
    if (options.replays) return replay(options);
    const std::string own = fmt::format("{}/tests/fuzz/corpus/{}", source_dir(), options.target->name);
    if (real_files().exists(own)) options.paths.push_back(own);
    real_files().make_folders(options.findings);
    fuzz(options);
    return 0;
}

}  // namespace
}  // namespace windlass

int main(int count, char** words) {
    try {
        return windlass::run(count, words);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return static_cast<int>(windlass::ExitCode::usage);
    }
}
