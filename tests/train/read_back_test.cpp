// Every file that a run reads back, with a bit turned around, where a run was killed half way: it is refused by name,
// or ends with the weights of a run that nobody disturbed. None leads to other weights without a word.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/rng.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kStepsUnkilled = 60;    // more than there are before a kill
constexpr int64_t kLinesBeforeKill = 7;   // lines of metrics
constexpr int64_t kStepsAfterResume = 2;  // after a resume

struct KilledRun {
    std::string name;
    Settings settings;
    std::string resume = "auto";
    std::string weights = kWeights;
};

void PrintTo(const KilledRun& run, std::ostream* out) {
    *out << run.name;
}

// What a file of a killed run is for. A file that is not named here fails the test.
enum class FileRole {
    state,     // JSON with a checksum: bits of every digit are tried
    store,     // binary or long, with checksums inside
    settings,  // run.yaml: a user's to change, within what a run may be resumed with
    unread,    // what it says is for people, or for other programs
    untried,   // a machine's rates: placement follows from them, and damaged ones are measured again, which takes long
};

FileRole role_of(const std::string& path) {
    static const std::vector<std::pair<const char*, FileRole>> roles = {
        {"run.yaml", FileRole::settings},
        {"trajectory.json", FileRole::state},
        {"references.json", FileRole::state},
        {"manifest.json", FileRole::store},
        {"trajectory.wlt", FileRole::store},
        {"state.wls", FileRole::store},
        {".wls", FileRole::store},
        {".tokens", FileRole::store},
        {"model.safetensors", FileRole::store},
        {"adapter_model.safetensors", FileRole::store},
        {"config.json", FileRole::store},            // of a checkpoint's model: its manifest knows its hash
        {"tokenizer.json", FileRole::store},         //
        {"tokenizer_config.json", FileRole::store},  //
        {"adapter_config.json", FileRole::store},    //
        {"metrics.jsonl", FileRole::store},
        {"/export", FileRole::settings},  // a request: where a folder is written
        {".plan", FileRole::unread},
        {".lock", FileRole::unread},
        {"log.txt", FileRole::unread},
        {"loss.svg", FileRole::unread},
        {"/events.jsonl", FileRole::unread},  // what a status says
    };
    for (const auto& [end, role] : roles)
        if (path.ends_with(end)) return role;
    if (path.find("/machine-") != path.npos) return FileRole::untried;
    for (const char* const part : {"/events.out.tfevents.", "/refresh-"})
        if (path.find(part) != path.npos) return FileRole::unread;
    ADD_FAILURE() << path << " has no role";
    return FileRole::unread;
}

class ReadBack : public TrainTest, public testing::WithParamInterface<KilledRun> {
  protected:
    ReadBack() {
        write_rows("eval.jsonl", 5, 2);
        Random random(1, RandomStream::test);
        std::string pairs;
        for (int row = 0; row < 7; ++row) {
            std::string words[3];
            for (std::string& text : words)
                for (uint64_t i = 0; i < 5 + random.below(5); ++i) text += static_cast<char>('a' + random.below(6));
            pairs += Json({{"prompt", words[0]}, {"chosen", words[1]}, {"rejected", words[2]}}).dump() + "\n";
        }
        write("pairs.jsonl", pairs);
    }

    Settings settings() const {
        Settings all = GetParam().settings;
        for (auto& [key, value] : all)
            if (const size_t place = value.find("$"); place != value.npos) value.replace(place, 1, folder_ + "/");
        all["max_steps"] = std::to_string(kStepsUnkilled);
        return all;
    }
    // What a killed run leaves: its folder, its store, and what is kept of tokenised rows and of plans.
    static constexpr const char* kPlaces[] = {"run", "ssd", "cache"};
    void kill_half_way() {
        const int status = run_apart("run", settings(), [](int pid, int64_t lines) {
            if (lines >= kLinesBeforeKill) kill(pid, SIGKILL);
        });
        ASSERT_EQ(status, 128 + SIGKILL);
        write("run/export", Json({{"to", at("run/asked")}, {"overwrite", true}, {"reply", "export-reply-1-2"}}).dump());
        fs::create_directories(at("kept"));
        for (const char* place : kPlaces) fs::copy(at(place), at("kept/") + place, fs::copy_options::recursive);
    }
    void restore() const {
        for (const char* place : kPlaces) {
            fs::remove_all(at(place));
            fs::copy(at("kept/") + place, at(place), fs::copy_options::recursive);
        }
    }
    // As `windlass train RUN --resume` does, with the settings that the run wrote.
    void resume() {
        const int64_t last = resumed_to_;
        const std::vector<std::string> words = {at("run/run.yaml"), "resume=" + GetParam().resume,
                                                fmt::format("max_steps={}", last)};
        train(files_, make_config(read_config_sources(files_, words), ConfigUse::train).config);
    }

    // Bits of this file that are tried.
    std::vector<size_t> bits_of(const std::string& path) const;
    void try_bit(const std::string& path, size_t bit);
    void try_all();

    int64_t resumed_to_ = 0;
    std::string expected_;
    int64_t refused_ = 0, same_ = 0, followed_ = 0;
    size_t digits_most_ = 8, settings_most_ = 12, others_most_ = 3;
};

std::vector<size_t> ReadBack::bits_of(const std::string& path) const {
    const std::string whole = bytes("kept/" + path);
    const FileRole role = role_of(path);
    std::vector<size_t> bits, digits;
    // Elsewhere a changed path would leave folders outside of the test's.
    const auto is_in_path = [&](size_t byte) {
        const size_t begin = byte < folder_.size() ? 0 : byte - folder_.size();
        const size_t found = whole.find(folder_, begin);
        return found != whole.npos && found <= byte;
    };
    // Under other values the machine is measured, which takes minutes on one that is busy.
    const auto is_measured = [&](size_t byte) {
        const size_t begin = byte == 0 ? 0 : whole.rfind('\n', byte - 1) + 1;
        const std::string_view line = std::string_view(whole).substr(begin);
        return line.starts_with("threads:") || line.starts_with("ssd_dir:");
    };
    for (size_t byte = 0; byte < whole.size(); ++byte) {
        if (role == FileRole::settings && (is_in_path(byte) || is_measured(byte))) continue;
        if (role == FileRole::state && std::isdigit(static_cast<unsigned char>(whole[byte])))
            digits.push_back(8 * byte);
        for (size_t bit = 0; bit < 8; ++bit) bits.push_back(8 * byte + bit);
    }
    Random random(7, RandomStream::test);
    const auto sample = [&](std::vector<size_t>& from, size_t most) {
        for (size_t i = 0; i < from.size() && i < most; ++i)
            std::swap(from[i], from[i + random.below(from.size() - i)]);
        from.resize(std::min(from.size(), most));
    };
    // The first digits are those of the step and its place in the rows.
    const auto first = std::min(std::ssize(digits), static_cast<std::ptrdiff_t>(digits_most_));
    std::vector<size_t> chosen(digits.begin(), digits.begin() + first);
    sample(digits, digits_most_);
    sample(bits, role == FileRole::unread     ? others_most_ / 3
                 : role == FileRole::settings ? settings_most_
                                              : others_most_);
    chosen.insert(chosen.end(), digits.begin(), digits.end());
    chosen.insert(chosen.end(), bits.begin(), bits.end());
    return chosen;
}

void ReadBack::try_bit(const std::string& path, size_t bit) {
    SCOPED_TRACE(fmt::format("{}: bit {} of byte {}", path, bit % 8, bit / 8));
    restore();
    std::string damaged = bytes("kept/" + path);
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    write(path, damaged);
    try {
        set_log_level(LogLevel::warning);
        resume();
    } catch (const Error& error) {
        EXPECT_NE(error.code(), ExitCode::internal) << error.what();
        EXPECT_THAT(error.what(), HasSubstr(": "));
        ++refused_;
        return;
    } catch (const std::exception& other) {
        ADD_FAILURE() << other.what();
        return;
    }
    if (bytes("run" + GetParam().weights) == expected_) {
        ++same_;
        return;
    }
    EXPECT_EQ(role_of(path), FileRole::settings) << "other weights, without a word";
    EXPECT_THAT(bytes("run/log.txt"), HasSubstr("Resuming with changed settings: "));
    ++followed_;
}

void ReadBack::try_all() {
    kill_half_way();
    resumed_to_ = std::ssize(history("run")) + kStepsAfterResume;
    restore();
    resume();
    expected_ = bytes("run" + GetParam().weights);
    ASSERT_FALSE(expected_.empty());
    for (const char* place : kPlaces) {
        for (const auto& entry : fs::recursive_directory_iterator(at("kept/") + place)) {
            if (!entry.is_regular_file() || entry.file_size() == 0) continue;
            const std::string path = fs::relative(entry.path(), at("kept"));
            if (role_of(path) == FileRole::untried) continue;
            for (const size_t bit : bits_of(path)) try_bit(path, bit);
        }
    }
    EXPECT_GT(refused_, 5);
    fmt::print("{}: {} refused, {} with the same weights, {} with a warning\n", GetParam().name, refused_, same_,
               followed_);
}

TEST_P(ReadBack, NoFlippedBitGivesOtherWeightsWithoutAWord) {
    try_all();
}

const Settings kComparesSteps = {
    {"eval_data", "[$eval.jsonl]"}, {"eval_steps", "1"}, {"load_best_model_at_end", "true"}, {"learning_rate", "0.03"}};

Settings settings_with(Settings settings, const Settings& more) {
    settings.insert(more.begin(), more.end());
    return settings;
}

std::vector<KilledRun> killed_runs() {
    const Settings probes = {{"method", "zeroth_order"}}, saves = {{"save_steps", "2"}, {"save_total_limit", "1"}};
    return {
        {"adamw_best", settings_with(kComparesSteps, saves)},
        {"disk", {{"policy", "three_tier"}}},
        {"probes", probes},
        {"probes_best", settings_with(probes, kComparesSteps), "5"},
        {"dpo", settings_with({{"objective", "dpo"}, {"train_data", "[$pairs.jsonl]"}}, saves)},
        {"lora", settings_with({{"adapter", "lora"}, {"lora_r", "4"}}, saves), "auto", kAdapterWeights},
        {"lsp", settings_with({{"adapter", "lsp"}, {"lsp_d", "16"}, {"lsp_r", "4"}, {"lsp_refresh", "3"}}, saves)},
    };
}

std::string name_of_killed_run(const testing::TestParamInfo<KilledRun>& info) {
    return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Kinds, ReadBack, testing::ValuesIn(killed_runs()), name_of_killed_run);

// Thousands of each file.
class SlowReadBack : public ReadBack {
  protected:
    SlowReadBack() { digits_most_ = 2000, settings_most_ = others_most_ = 4000; }
};

TEST_P(SlowReadBack, NoFlippedBitGivesOtherWeightsWithoutAWord) {
    try_all();
}

INSTANTIATE_TEST_SUITE_P(Kinds, SlowReadBack, testing::ValuesIn(killed_runs()), name_of_killed_run);

}  // namespace
}  // namespace windlass
