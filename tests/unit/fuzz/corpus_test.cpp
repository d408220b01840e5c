// Every input that a fuzzer has found, and the seeds that it began with: read, or refused in one error of ours, in
// bounded memory.
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/log.h"
#include "tests/fuzz/judge.h"
#include "tests/fuzz/mutate.h"
#include "tests/place.h"

namespace windlass {
namespace {

std::string corpus_folder(std::string_view target) {
    return source_dir() + "/tests/fuzz/corpus/" + std::string(target);
}

struct CorpusInput {
    std::string name, bytes;
};
std::vector<CorpusInput> corpus_of(const FuzzTarget& target) {
    std::vector<CorpusInput> inputs;
    const std::string folder = corpus_folder(target.name);
    for (const std::string& name : real_files().list(folder)) {
        const auto file = real_files().open(folder + "/" + name, {});
        std::string bytes(static_cast<size_t>(file->size()), '\0');
        file->read_at(std::as_writable_bytes(std::span(bytes)), 0);
        inputs.push_back({name, std::move(bytes)});
    }
    return inputs;
}

class FuzzCorpus : public testing::TestWithParam<FuzzTarget> {
  protected:
    void SetUp() override { set_log_level(LogLevel::error); }
};

TEST_P(FuzzCorpus, IsReadOrRefused) {
    const std::vector<CorpusInput> inputs = corpus_of(GetParam());
    int read = 0;
    for (const CorpusInput& input : inputs) {
        const Verdict verdict = judge(GetParam(), input.bytes);
        EXPECT_EQ(verdict.finding, "") << input.name;
        const bool is_seed = input.name.starts_with("seed");
        EXPECT_FALSE(is_seed && verdict.was_refused) << input.name << ": " << verdict.said;
        read += !verdict.was_refused;
    }
    EXPECT_GT(read, 0) << "nothing sound is in " << corpus_folder(GetParam().name);
}

// A few changes of each: that the targets still take what mutations make.
TEST_P(FuzzCorpus, ChangedIsReadOrRefused) {
    constexpr int kInputs = 60;
    constexpr size_t kBytesMax = 1 << 14;
    std::vector<std::string> corpus;
    for (CorpusInput& input : corpus_of(GetParam()))
        if (input.bytes.size() <= kBytesMax) corpus.push_back(std::move(input.bytes));
    ASSERT_FALSE(corpus.empty());
    const std::vector<std::string_view> words = words_of(GetParam().words);
    FuzzRandom random(5);
    for (int i = 0; i < kInputs; ++i) {
        const std::string input = mutated(corpus, words, kBytesMax, random);
        EXPECT_EQ(judge(GetParam(), input).finding, "") << "input " << i << ": " << input.substr(0, 1000);
    }
}

INSTANTIATE_TEST_SUITE_P(All, FuzzCorpus, testing::ValuesIn(fuzz_targets().begin(), fuzz_targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace

void PrintTo(const FuzzTarget& target, std::ostream* out) {
    *out << target.name;
}

}  // namespace windlass
