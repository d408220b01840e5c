// best_fixture.h: runs that look for their best step, and what they leave of it.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "format/manifest.h"
#include "state/run_state.h"
#include "tests/train/train_fixture.h"

namespace windlass {

class BestTest : public TrainTest {
  protected:
    // Rates at which losses fall and rise again, so that the best step is neither the first nor the last.
    Settings best(const Settings& changes = {}) const {
        Settings settings = {{"eval_data", at("eval.jsonl")},    {"eval_steps", "2"},
                             {"load_best_model_at_end", "true"}, {"max_steps", "16"},
                             {"learning_rate", "0.03"},          {"gradient_accumulation_steps", "1"},
                             {"gradient_checkpointing", "false"}};
        for (const auto& [key, value] : changes) settings[key] = value;
        return settings;
    }
    // "2 3.1234" of each evaluated step.
    std::vector<std::string> evaluations(const std::string& run, const char* key = "eval_loss") const {
        std::vector<std::string> found;
        std::istringstream text(bytes(run + "/metrics.jsonl"));
        for (std::string line; std::getline(text, line);) {
            const Json json = Json::parse(line);
            if (json.contains(key)) found.push_back(fmt::format("{} {}", json["step"].dump(), json[key].dump()));
        }
        return found;
    }
    // The step with the least loss, the first of equals.
    int64_t least(const std::string& run) const {
        int64_t step = 0;
        double value = 0;
        for (const std::string& each : evaluations(run)) {
            const double loss = std::stod(each.substr(each.find(' ')));
            if (step == 0 || loss < value) step = std::stoll(each), value = loss;
        }
        return step;
    }
    Manifest final_manifest(const std::string& run) const { return read_manifest(files_, at(run + "/final")); }
    int64_t final_step(const std::string& run) const { return final_manifest(run).step; }
    // What the run's last checkpoint remembers.
    BestStep remembered(const std::string& run, int64_t step) const {
        const std::string folder = at(fmt::format("{}/checkpoint-{}", run, step));
        return parse_run_state(read_manifest(files_, folder).run_state, folder).progress.best;
    }
    bool has(const std::string& name) const { return files_.exists(at(name)); }
};

}  // namespace windlass
