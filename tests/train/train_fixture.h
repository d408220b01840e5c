// train_fixture.h: a tiny model with a tokenizer of single characters, rows to train on, and whole runs over them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "train/train.h"

namespace windlass {

// Of what a run leaves, in its folder.
inline constexpr const char* kWeights = "/final/model.safetensors";
inline constexpr const char* kAdapterWeights = "/final/adapter_model.safetensors";

using Settings = std::map<std::string, std::string>;

class TrainTest : public testing::Test {
  protected:
    TrainTest();
    ~TrainTest() override;

    std::string at(const std::string& name) const { return folder_ + "/" + name; }
    // Settings of a short run into the folder `name`, with what `changes` says.
    Config config(const std::string& name, const Settings& changes = {}) const;
    TrainResult run(const std::string& name, const Settings& changes = {});
    // The same in a process of its own. `watch` is called with the number of metrics lines as they come and may send
    // signals to the process. Returns the exit status as a shell tells it: 128 + signal where one ended it.
    int run_apart(const std::string& name, const Settings& changes,
                  const std::function<void(int pid, int64_t lines)>& watch);

    // A machine that was measured already: plans here do not depend on the one that tests run on. drive: a folder on
    // it, or "" for none.
    void know_machine(const std::string& drive, int threads) const;
    std::string bytes(const std::string& name) const;
    // loss, learning rate, norm, epoch and tokens of each line of metrics.jsonl.
    std::vector<std::string> history(const std::string& run) const;
    std::vector<double> losses(const std::string& run) const;
    void write(const std::string& name, const std::string& text) const;
    // Rows of random text; every third is long.
    void write_rows(const std::string& name, int64_t count, uint64_t seed) const;

    FileSystem& files_ = real_files();
    std::string folder_;
};

}  // namespace windlass
