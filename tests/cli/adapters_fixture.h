// adapters_fixture.h: runs of adapters through the real program.
#pragma once

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/sandbox.h"

namespace windlass::cli {

class Adapters : public testing::Test {
  protected:
    Settings settings(const Settings& changes = {}) {
        Settings all = sandbox_.training();
        all["adapter"] = "lora";
        all["lora_r"] = "4";
        all["learning_rate"] = "1e-2";
        all["max_steps"] = "8";
        for (const auto& [key, value] : changes) all[key] = value;
        return all;
    }
    double loss(const std::string& model, const std::vector<std::string>& more = {}) {
        std::vector<std::string> words = {"eval", model, "--data", sandbox_.token_rows(), "--json", "dtype=f32"};
        words.insert(words.end(), more.begin(), more.end());
        return json_of(sandbox_.windlass(words)).at("loss").get<double>();
    }
    std::string refusal(const Command& command, int code) {
        const Finished finished = run(command);
        EXPECT_EQ(finished.code, code) << describe(finished);
        return finished.err;
    }
    std::string final_folder() const { return sandbox_.out() + "/final"; }
    std::string adapter_file() const { return final_folder() + "/adapter_model.safetensors"; }

    Sandbox sandbox_;
};

}  // namespace windlass::cli
