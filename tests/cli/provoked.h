// provoked.h: one row of the tables of provoked errors, and what must hold for every one of them.
//
// An error says what happened, where, and where it helps what to do; the exit code is that of its kind; nothing is left
// half-written; the model folder is as it was; stdout holds nothing.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/cli/sandbox.h"

namespace windlass::cli {

struct Provoked {
    std::string name;
    std::function<Command(Sandbox&)> provoke;  // breaks something and tells what to run
    int code = 0;
    std::vector<std::string> says;  // parts of the message, in any order
};

void PrintTo(const Provoked& error, std::ostream* out);
std::string name_of_provoked(const testing::TestParamInfo<Provoked>& info);

void expect_refused(const Provoked& error);

// A training run of the sandbox's llama after `edit` changed its model folder.
std::function<Command(Sandbox&)> with_model(std::function<void(const std::string& folder)> edit);
// The same after its config.json was changed.
std::function<Command(Sandbox&)> with_config(std::function<void(Json&)> edit);
// The same after the header or the data of its model.safetensors was changed.
std::function<Command(Sandbox&)> with_tensors(std::function<void(Json& header, std::string& data)> edit);
// A training run with other settings.
std::function<Command(Sandbox&)> with_settings(std::function<void(Settings&, Sandbox&)> edit);
// A training run on one file of these lines.
std::function<Command(Sandbox&)> with_rows(std::string name, std::vector<std::string> lines);

}  // namespace windlass::cli
