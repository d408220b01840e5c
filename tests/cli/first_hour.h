// first_hour.h: one row of the tables of what people try in their first hour.
//
// Every row runs the program. It ends in the result, or in one message: place, reason, and a "Try: " that works, which
// the row then follows. What would have to be downloaded is checked by its text alone.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/cli/sandbox.h"

namespace windlass::cli {

struct Tried {
    std::string name;
    std::function<Command(Sandbox&)> attempt;
    int code = 0;
    std::vector<std::string> says = {};  // parts of what is printed, in any order
    // What the message's "Try: " leads to, which must succeed; nothing where it names a download or another model.
    std::function<Command(Sandbox&, const Finished&)> follow = {};
};

void PrintTo(const Tried& tried, std::ostream* out);
std::string name_of_tried(const testing::TestParamInfo<Tried>& info);

void expect_it_helps(const Tried& tried);

// windlass with these words; "MODEL" stands for the sandbox's model, "@name" for a file of the sandbox.
std::function<Command(Sandbox&)> words(std::vector<std::string> words);
std::function<Command(Sandbox&, const Finished&)> then(std::vector<std::string> words);
// A training run with these settings beside the sandbox's own; null: without that one.
std::function<Command(Sandbox&)> training(const Settings& changes);
std::function<Command(Sandbox&, const Finished&)> then_training(const Settings& changes);
// The same after `edit` changed the folder of a model of this name.
std::function<Command(Sandbox&)> training_after(std::function<void(const std::string& folder)> edit,
                                                const Settings& changes = {}, const std::string& model = "llama_tiny");
// Puts a short run into the sandbox's "out" first.
std::function<Command(Sandbox&)> after_a_run(std::function<Command(Sandbox&)> attempt);

}  // namespace windlass::cli
