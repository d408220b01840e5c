#include "rows/split_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace windlass {
namespace {

struct SplitWord {
    std::string_view word;
    DataSplit split;
};
// datasets/data_files.py, SPLIT_KEYWORDS.
constexpr std::array<SplitWord, 10> kSplitWords = {{{"train", DataSplit::train},
                                                    {"training", DataSplit::train},
                                                    {"validation", DataSplit::validation},
                                                    {"valid", DataSplit::validation},
                                                    {"val", DataSplit::validation},
                                                    {"dev", DataSplit::validation},
                                                    {"test", DataSplit::test},
                                                    {"testing", DataSplit::test},
                                                    {"eval", DataSplit::test},
                                                    {"evaluation", DataSplit::test}}};

// Of the Hub's repositories, `datasets`' save_to_disk, LLaMA-Factory, Croissant, Kaggle, Frictionless Data.
constexpr std::array<std::string_view, 10> kDescriptions = {
    "dataset_infos.json", "dataset_info.json",     "dataset_dict.json", "state.json",   "croissant.json",
    "metadata.json",      "dataset-metadata.json", "datapackage.json",  "package.json", "requirements.txt"};
// Whatever their ending is.
constexpr std::array<std::string_view, 7> kProse = {"readme",   "license",   "licence",     "notice",
                                                    "citation", "changelog", "contributing"};

std::string in_small_letters(std::string_view name) {
    std::string small(name);
    std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
    return small;
}

bool is_letter(unsigned char c) {
    return std::isalpha(c) != 0 || c >= 0x80;  // bytes of other alphabets are letters too
}

}  // namespace

std::string_view name_of(DataSplit split) {
    switch (split) {
        case DataSplit::train:
            return "train";
        case DataSplit::validation:
            return "validation";
        case DataSplit::test:
            return "test";
    }
    return "";
}

std::optional<DataSplit> split_of_name(std::string_view name) {
    const std::string small = in_small_letters(name);
    std::optional<DataSplit> found;
    for (size_t begin = 0; begin < small.size();) {
        size_t end = begin;
        while (end < small.size() && is_letter(static_cast<unsigned char>(small[end]))) ++end;
        const std::string_view word = std::string_view(small).substr(begin, end - begin);
        const auto* const at = std::ranges::find(kSplitWords, word, &SplitWord::word);
        if (at != kSplitWords.end()) {
            if (found && *found != at->split) return std::nullopt;
            found = at->split;
        }
        begin = end + 1;
    }
    return found;
}

bool is_description_name(std::string_view name) {
    const std::string small = in_small_letters(name);
    const std::string_view stem = std::string_view(small).substr(0, small.find('.'));
    return std::ranges::find(kDescriptions, small) != kDescriptions.end() ||
           std::ranges::find(kProse, stem) != kProse.end();
}

}  // namespace windlass
