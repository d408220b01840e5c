// Files of others, cut off, with bits turned around, lines doubled and numbers out of all bounds: each is read, or ends
// in one error of ours. No crash, no other exception, no memory to speak of; what takes for ever, ctest ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "config/config.h"
#include "data/open_adapter.h"
#include "format/model_folder.h"
#include "infer/inference.h"
#include "model/adapters/first_weights.h"
#include "model/families.h"
#include "model/load.h"
#include "schedule/machine_profiles.h"
#include "schedule/machine_text.h"
#include "state/run_state.h"
#include "task/task.h"
#include "tests/place.h"
#include "tests/sanitizer.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

constexpr int64_t kMemoryMax = int64_t{1} << 30;
constexpr size_t kMessageMax = 2000;

std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

// Puts another value in the place of one of the numbers.
void replace_number(std::string& text, std::mt19937& random) {
    constexpr std::array kValues = {"0",          "-1",    "1",     "65536", "1000000", "2147483647",
                                    "4294967296", "9e300", "1e308", "0.5",   "null",    "18446744073709551615",
                                    "[]",         "{}",    "\"x\"", "true",  "1e-320",  "9223372036854775807"};
    constexpr const char* kDigits = "0123456789";
    const size_t begin = text.find_first_of(kDigits, random() % text.size());
    if (begin == std::string::npos) return;
    const size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    text.replace(begin, end - begin, kValues[random() % kValues.size()]);
}

// Leaves out a line, or a member of a list, or has it twice.
void repeat_or_drop(std::string& text, std::mt19937& random) {
    const char border = text.find('\n') == std::string::npos ? ',' : '\n';
    const size_t begin = text.rfind(border, random() % text.size()) + 1;  // 0 where there is none
    const size_t end = std::min(text.find(border, begin), text.size() - 1) + 1;
    const std::string piece = text.substr(begin, end - begin);
    if (random() % 2 == 0)
        text.erase(begin, end - begin);
    else
        text.insert(begin, piece);
}

struct Damaged {
    std::string name;  // of the file
    std::string whole;
    int rounds;
    std::function<void(const std::string& path)> read;  // throws Error, or does not
    size_t head = std::string::npos;                    // what is damaged of it: its first bytes
};

std::string damaged(const Damaged& file, std::mt19937& random) {
    const size_t size = file.whole.size(), head_bytes = std::min(file.head, size);
    if (random() % 6 == 0) return file.whole.substr(0, random() % size);
    std::string head = file.whole.substr(0, head_bytes);
    switch (random() % 4) {
        case 0:
            repeat_or_drop(head, random);
            break;
        case 1:
            for (int flips = 0; flips < 3; ++flips) head[random() % head_bytes] ^= static_cast<char>(1 << random() % 8);
            break;
        default:
            replace_number(head, random);
    }
    return head + file.whole.substr(head_bytes);
}

void PrintTo(const Damaged& file, std::ostream* out) {
    *out << file.name;
}

const std::string& quickstart() {
    static const std::string folder = source_dir() + "/examples/quickstart/model/";
    return folder;
}

void read_configuration(const std::vector<std::string>& words) {
    make_config(read_config_sources(real_files(), words), ConfigUse::train);
}

// Ids that a sound model has rows for, whatever the tokenizer says.
void read_tokenizer(const std::string& path) {
    static const ModelSpec model = [] {
        HfConfig config = HfConfig::parse(bytes_of(quickstart() + "config.json"), "config.json");
        return build_model(config, {});
    }();
    const Tokenizer tokenizer = open_tokenizer(real_files(), std::filesystem::path(path).parent_path(), model);
    const std::vector<int32_t> ids = tokenizer.encode("WIT, n. The salt  with which\n7 humorists <s> spoil it.", true);
    for (const int32_t id : ids) EXPECT_LT(id, model.vocab);
    tokenizer.decode(ids, true);
}

// The model beside this file, and all of its numbers.
void read_model(const std::string& path) {
    const std::string folder = std::filesystem::path(path).parent_path();
    for (const char* name : {"config.json", "model.safetensors"}) {
        const std::string beside = folder + "/" + name;
        if (beside == path) continue;
        std::filesystem::copy_file(source_dir() + "/tests/golden/llama/model/" + name, beside,
                                   std::filesystem::copy_options::overwrite_existing);
    }
    ModelFolder opened = ModelFolder::open(real_files(), folder);
    HfConfig config = opened.config();
    const ModelSpec model = build_model(config, opened.tensors());
    for (const ParamSpec& param : model.params) {
        std::vector<float> numbers(static_cast<size_t>(param.shape.numel()));
        load_elements(opened, param, 0, numbers);
    }
}

// The adapter beside this file, put beside its base, and all of its numbers.
void read_adapter(const std::string& path) {
    static ModelFolder base = ModelFolder::open(real_files(), source_dir() + "/tests/golden/llama3/model");
    const std::string folder = std::filesystem::path(path).parent_path();
    for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
        const std::string beside = folder + "/" + name;
        if (beside == path) continue;
        std::filesystem::copy_file(source_dir() + "/tests/golden/peft/llama3_regex/adapter/" + name, beside,
                                   std::filesystem::copy_options::overwrite_existing);
    }
    HfConfig config = base.config();
    ModelSpec model = build_model(config, base.tensors());
    Config wanted;
    wanted.adapter = folder;
    const std::optional<AdapterFolder> adapter = put_adapter(real_files(), wanted, base, model);
    const ReadMasters first = first_weights(base, model, 0, &*adapter);
    for (size_t param = 0; param < model.params.size(); ++param) {
        std::vector<float> numbers(static_cast<size_t>(model.params[param].numel()));
        first(static_cast<int>(param), 0, numbers);
    }
}

std::string state_text() {
    const RunState state{.identity = {.run_id = "0123456789abcdef",
                                      .seed = 7,
                                      .method = "adamw",
                                      .data_fingerprint = "ab",
                                      .param_groups = {"*norm* weight_decay=0.01"},
                                      .weight_storage = "f8",
                                      .scale_exponents = {-3, 4},
                                      .settings = {{"adam_beta1", "0.9"}},
                                      .coefficients = {"avx2", "oneDNN 2.6.3", "0f", "1e"},
                                      .numerics = {.micro_batch_size = 2,
                                                   .micro_batches = 4,
                                                   .sequence_lengths = {64, 128},
                                                   .kernel_path = "avx2"}},
                         .progress = {.step = 12}};
    return run_state_text(state);
}

constexpr const char* kRunYaml = R"(model: models/tiny
train_data: [rows.jsonl, more.csv]
output_dir: runs/a
method: adamw
max_steps: 100
per_device_train_batch_size: 4
learning_rate: 1.0e-5
warmup_ratio: 0.1
ram: 8GiB
ssd_space: 90%
freeze: ["*.embed_tokens.weight"]
param_groups:
  - {match: "*norm*", weight_decay: 0.01}
  - {match: "*.layers.[0-3].*", learning_rate_scale: 0.1}
threads: 2
)";

std::vector<Damaged> files() {
    const std::string golden = source_dir() + "/tests/golden/llama/model/";
    const std::string adapter = source_dir() + "/tests/golden/peft/llama3_regex/adapter/";
    const auto configuration = [](const std::string& path) { read_configuration({path}); };
    const auto preset = [](const std::string& path) {
        read_configuration({"--preset", path, "model=m", "train_data=r.jsonl", "output_dir=o", "ssd_dir=s"});
    };
    return {
        {"config.json", bytes_of(golden + "config.json"), 1500, read_model},
        {"model.safetensors", bytes_of(golden + "model.safetensors"), 1000, read_model, 2104},
        {"adapter_config.json", bytes_of(adapter + "adapter_config.json"), 1500, read_adapter},
        {"adapter_model.safetensors", bytes_of(adapter + "adapter_model.safetensors"), 1000, read_adapter, 528},
        {"tokenizer.json", bytes_of(quickstart() + "tokenizer.json"), 300, read_tokenizer},
        {"tokenizer_config.json", bytes_of(quickstart() + "tokenizer_config.json"), 300,
         [](const std::string& path) {
             const std::string folder = std::filesystem::path(path).parent_path();
             if (!real_files().exists(folder + "/tokenizer.json"))
                 std::filesystem::copy_file(quickstart() + "tokenizer.json", folder + "/tokenizer.json");
             read_tokenizer(path);
         }},
        {"run.yaml", kRunYaml, 3000, configuration},
        {"preset.json", bytes_of(source_dir() + "/presets/fuyou.json"), 1500, preset},
        {"task.json", bytes_of(source_dir() + "/tasks/squad.json"), 1500,
         [](const std::string& path) { find_task(real_files(), path); }},
        {"machine.txt", machine_text(find_machine(real_files(), "rtx4090-desktop")), 3000,
         [](const std::string& path) { find_machine(real_files(), path); }},
        {"state.json", state_text(), 3000, [](const std::string& path) { parse_run_state(bytes_of(path), path); }},
    };
}

int64_t peak_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return int64_t{usage.ru_maxrss} << 10;
}

class DamagedFiles : public testing::TestWithParam<Damaged> {};

TEST_P(DamagedFiles, AreReadOrRefused) {
    const TempFolder folder;
    set_log_level(LogLevel::error);
    const std::string path = folder / GetParam().name;
    const int64_t peak = peak_bytes();
    write(path, GetParam().whole);
    EXPECT_NO_THROW(GetParam().read(path));
    std::mt19937 random(11);
    const int rounds = is_sanitized() ? GetParam().rounds / 2 : GetParam().rounds;
    int refused = 0;
    for (int round = 0; round < rounds; ++round) {
        const std::string text = damaged(GetParam(), random);
        write(path, text);
        try {
            GetParam().read(path);
        } catch (const Error& error) {
            ++refused;
            EXPECT_NE(error.code(), ExitCode::internal) << error.what();
            EXPECT_LT(std::string_view(error.what()).size(), kMessageMax) << error.what();
            EXPECT_THAT(error.what(), testing::HasSubstr(": "));
        } catch (const std::exception& other) {
            ADD_FAILURE() << "round " << round << ": " << other.what() << "\n" << text.substr(0, 1000);
        }
    }
    EXPECT_GT(refused, rounds / 10);
    EXPECT_LT(peak_bytes() - peak, kMemoryMax);
}

INSTANTIATE_TEST_SUITE_P(All, DamagedFiles, testing::ValuesIn(files()), [](const auto& info) {
    std::string name = info.param.name;
    std::ranges::replace(name, '.', '_');
    return name;
});

}  // namespace
}  // namespace windlass
