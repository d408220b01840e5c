// split_names.h: which part of a data set a file or folder holds, by its name, as the Python library `datasets` reads
// names: train, training; validation, valid, val, dev; test, testing, eval, evaluation.
#pragma once

#include <optional>
#include <string_view>

namespace windlass {

enum class DataSplit { train, validation, test };

std::string_view name_of(DataSplit split);  // "train"

// By the words of a name without folders: longest runs of letters, in capital or small letters. Nothing where no word,
// or words of several splits, are in it ("train_test.jsonl").
std::optional<DataSplit> split_of_name(std::string_view name);

// Files that describe a data set or a repository, such as dataset_infos.json and README.txt: they have endings as files
// of rows do, and hold none.
bool is_description_name(std::string_view name);

}  // namespace windlass
