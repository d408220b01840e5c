#include "tests/train/train_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/json.h"
#include "base/log.h"
#include "base/rng.h"
#include "schedule/machine_text.h"
#include "session/machine_cache.h"
#include "session/signals.h"
#include "tests/place.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;

constexpr int kVocab = 96;
constexpr int kThreads = 2;

// One printable character to an id; the last id is the end of text.
std::string tokenizer_text() {
    Json vocab = Json::object();
    for (int id = 0; id < kVocab - 1; ++id) vocab[std::string(1, static_cast<char>(' ' + id))] = id;
    const Json end = {{"id", kVocab - 1}, {"content", "<end>"},  {"single_word", false}, {"lstrip", false},
                      {"rstrip", false},  {"normalized", false}, {"special", true}};
    const Json json = {{"version", "1.0"},
                       {"added_tokens", {end}},
                       {"normalizer", nullptr},
                       {"pre_tokenizer", nullptr},
                       {"post_processor", nullptr},
                       {"decoder", {{"type", "Fuse"}}},
                       {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
    return json.dump();
}

std::string slurp(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    std::string text(file ? static_cast<size_t>(file.tellg()) : 0, '\0');
    file.seekg(0).read(text.data(), std::ssize(text));
    text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    return text;
}

int64_t count_lines(const std::string& path) {
    const std::string text = slurp(path);
    return std::count(text.begin(), text.end(), '\n');
}

}  // namespace

TrainTest::TrainTest() : folder_(fmt::format("{}/windlass_train_{}", testing::TempDir(), getpid())) {
    set_log_level(LogLevel::error);
    fs::remove_all(folder_);
    fs::create_directories(at("ssd"));
    setenv("XDG_CACHE_HOME", at("cache").c_str(), 1);
    fs::create_directories(at("cache/windlass"));
    for (const std::string& drive : {std::string(), at("ssd")}) know_machine(drive, kThreads);
    fs::copy(source_dir() + "/tests/golden/llama/model", at("model"), fs::copy_options::recursive);
    write("model/tokenizer.json", tokenizer_text());
    write("model/tokenizer_config.json", R"({"eos_token": "<end>"})");
    write_rows("train.jsonl", 21, 1);
    write_rows("eval.jsonl", 5, 2);
}

TrainTest::~TrainTest() {
    fs::remove_all(folder_);
}

void TrainTest::know_machine(const std::string& drive, int threads) const {
    const Machine machine{.name = "test",
                          .threads = threads,
                          .memory_bytes = int64_t{8} << 30,
                          .gemm_bf16_flops = 1e11,
                          .gemm_f32_flops = 1e11,
                          .memory_bytes_per_s = 1e10,
                          .disk_read_bytes_per_s = 1e9,
                          .disk_write_bytes_per_s = 1e9};
    std::ofstream(machine_cache_path(drive, threads)) << machine_text(machine);
}

void TrainTest::write(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
}

void TrainTest::write_rows(const std::string& name, int64_t count, uint64_t seed) const {
    Random random(seed, RandomStream::test);
    std::string text;
    for (int64_t row = 0; row < count; ++row) {
        std::string words;
        for (uint64_t i = 0; i < (row % 3 == 0 ? 40 : 8) + random.below(8); ++i)
            words += static_cast<char>('a' + random.below(6));
        text += Json({{"text", words}}).dump() + "\n";
    }
    write(name, text);
}

Config TrainTest::config(const std::string& name, const Settings& changes) const {
    Settings settings = {{"model", at("model")},
                         {"output_dir", at(name)},
                         {"train_data", "[" + at("train.jsonl") + "]"},
                         {"max_length", "64"},
                         {"max_steps", "12"},
                         {"per_device_train_batch_size", "2"},
                         {"gradient_accumulation_steps", "2"},
                         {"learning_rate", "0.01"},
                         {"lr_scheduler_type", "constant"},
                         {"save_steps", "null"},
                         {"dtype", "f32"},
                         {"threads", std::to_string(kThreads)}};
    for (const auto& [key, value] : changes) settings[key] = value;
    if (settings.contains("policy") && settings["policy"] == "three_tier") settings["ssd_dir"] = at("ssd");
    std::vector<std::string> words;
    for (const auto& [key, value] : settings) words.push_back(fmt::format("{}={}", key, value));
    return make_config(read_config_sources(real_files(), words), ConfigUse::train).config;
}

TrainResult TrainTest::run(const std::string& name, const Settings& changes) {
    return train(files_, config(name, changes));
}

int TrainTest::run_apart(const std::string& name, const Settings& changes,
                         const std::function<void(int pid, int64_t lines)>& watch) {
    const int64_t before = count_lines(at(name + "/metrics.jsonl"));
    const pid_t pid = fork();
    if (pid == 0) {
        try {
            take_signals();
            RunControl control;
            const SignalScope signals(control);
            _exit(static_cast<int>(train(files_, config(name, changes), {.control = &control}).code));
        } catch (const Error& error) {
            fmt::print(stderr, "{}\n", error.what());  // a test that expects no error says why it failed
            _exit(static_cast<int>(error.code()));
        }
    }
    int status = 0;
    const std::string metrics = at(name + "/metrics.jsonl");
    std::error_code absent;
    uintmax_t size = fs::file_size(metrics, absent);
    for (int64_t seen = before; waitpid(pid, &status, WNOHANG) == 0;) {
        const uintmax_t now = fs::file_size(metrics, absent);
        const int64_t lines = now == size ? seen : count_lines(metrics);
        if (lines != seen) watch(pid, lines);
        seen = lines, size = now;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string TrainTest::bytes(const std::string& name) const {
    return slurp(at(name));
}

std::vector<std::string> TrainTest::history(const std::string& run) const {
    std::vector<std::string> lines;
    std::istringstream text(bytes(run + "/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) {
        const Json json = Json::parse(line);
        lines.push_back(fmt::format("{} loss {} lr {} norm {} epoch {} tokens {}", json["step"].dump(),
                                    json["loss"].dump(), json["lr"].dump(), json["grad_norm"].dump(),
                                    json["epoch"].dump(), json["tokens_total"].dump()));
    }
    return lines;
}

std::vector<double> TrainTest::losses(const std::string& run) const {
    std::vector<double> values;
    std::istringstream text(bytes(run + "/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) values.push_back(Json::parse(line)["loss"].get<double>());
    return values;
}

}  // namespace windlass
