// Every key of the configuration, given another value where a run goes on.
#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "config/config_keys.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;

// They say how a run goes on, or stand for other keys; output_dir is another one in every case below, and machine is
// of plans alone.
const std::set<std::string_view> kOfTheCommand = {
    "resume", "branch_from", "allow_changed_settings", "overwrite", "preset", "machine", "output_dir"};

// Methods that keep a log have keys of their own. What the others have is tried without one.
bool is_of_probes(const ConfigKey& key) {
    static const std::set<std::string_view> names = {
        "zo_eps",       "directions",     "noise",        "noise_rank",     "noise_window", "noise_kept",
        "fold_updates", "scalar_clip",    "zo_optimizer", "replay_window",  "zo_estimator", "layer_drop",
        "sparse_share", "weight_storage", "objective",    "writeback_steps"};
    return names.contains(key.name);
}

class ResumeKeysTest : public TrainTest {
  protected:
    ResumeKeysTest() {
        fs::copy(at("model"), at("moved_model"), fs::copy_options::recursive);
        write_rows("other.jsonl", 21, 3);
        run("adamw", begun(false));
        run("probes", begun(true));
        for (const bool probes : {false, true}) {
            go_on(probes, {});
            expected_[probes] = bytes(std::string("again") + kWeights);
        }
    }

    static Settings begun(bool probes) {
        Settings settings = {{"max_steps", "4"}, {"save_steps", "4"}};
        if (probes) settings.merge(Settings{{"method", "zeroth_order"}, {"noise", "low_rank"}, {"max_grad_norm", "1"}});
        return settings;
    }

    // In a copy of the run's folder, "again".
    void go_on(bool probes, const Settings& changes) {
        set_log_file("");
        fs::remove_all(at("again"));
        fs::copy(at(probes ? "probes" : "adamw"), at("again"), fs::copy_options::recursive);
        go_on_in_place(probes, changes);
    }
    void go_on_in_place(bool probes, const Settings& changes) {
        Settings settings = changes;
        settings.merge(Settings{{"max_steps", "6"}, {"resume", "auto"}});
        settings.merge(begun(probes));
        run("again", settings);
    }
    std::string refusal(bool probes, const Settings& changes) {
        try {
            go_on(probes, changes);
        } catch (const UserError& error) {
            return error.what();
        } catch (const std::exception& error) {
            ADD_FAILURE() << error.what();
        }
        return "";
    }
    bool has_expected_weights(bool probes) const { return bytes(std::string("again") + kWeights) == expected_[probes]; }

    std::map<std::string_view, Settings> others() const;
    void expect_followed(const ConfigKey& key, const Settings& changes);
    void expect_as_promised(const ConfigKey& key, const Settings& changes);

    std::array<std::string, 2> expected_;
};

// Where neither the next choice nor 3 will do.
std::map<std::string_view, std::string> other_values(const std::string& folder) {
    return {{"model", folder + "/moved_model"},
            {"eval_data", "[" + folder + "/eval.jsonl]"},
            {"train_data", "[" + folder + "/other.jsonl" + "]"},
            {"cache_dir", folder + "/elsewhere"},
            {"ssd_dir", folder + "/ssd"},
            {"ignore_config_keys", "[attention_dropout]"},
            {"task", "sst2"},
            {"document_separator", "x"},
            {"freeze", "[\"*norm*\"]"},
            {"param_groups", "[\"*norm* weight_decay=0.5\"]"},
            {"report_to", "[none]"},
            {"val_split", "0.2"},
            {"per_device_train_batch_size", "1"},
            {"gradient_accumulation_steps", "1"},
            {"dtype", "bf16"},
            {"state_format", "s2"},
            {"weight_storage", "f8"},
            {"method", "forward_gradient"},
            {"fold_updates", "each_window"},
            {"noise", "gaussian"},
            {"noise_kept", "both"},
            {"policy", "three_tier"},
            {"device", "cpu:emulate"},
            {"update_time", "in_backward"},
            {"device_memory", "1GiB"},
            {"link_rate", "1GiB"},
            {"disk_rate", "1GiB"},
            {"ram", "2GiB"},
            {"ssd_space", "1GiB"},
            {"ssd_writes", "1TiB"},
            {"lr_scheduler_type", "cosine"},
            {"zo_estimator", "one_sided"},
            {"zo_optimizer", "momentum"},
            {"threads", "1"},
            {"layer_drop", "0.5"},
            {"sparse_share", "0.5"},
            {"loss_watchdog_threshold", "1e9"},
            {"adam_epsilon", "1e-6"},
            {"adam_beta1", "0.8"},
            {"adam_beta2", "0.95"},
            {"learning_rate", "0.005"},
            {"max_length", "32"},
            {"directions", "3"},
            {"num_train_epochs", "5"},
            {"min_lr_ratio", "0.1"},
            {"lr_power", "2"},
            {"lr_decay_ratio", "0.2"},
            {"warmup_ratio", "0.5"},
            {"weight_decay", "0.3"},
            {"max_grad_norm", "0.5"},
            {"zo_eps", "0.01"},
            {"scalar_clip", "0.5"}};
}

// Another value than the runs were begun with, and what it needs beside it.
std::map<std::string_view, Settings> ResumeKeysTest::others() const {
    const std::string eval = "[" + at("eval.jsonl") + "]";
    std::map<std::string_view, Settings> others = {{"replay_window", {{"zo_optimizer", "momentum"}}},
                                                   {"disk_rate", {{"ssd_dir", at("ssd")}}},
                                                   {"ssd_space", {{"ssd_dir", at("ssd")}}},
                                                   {"min_lr_ratio", {{"lr_scheduler_type", "cosine_with_min_lr"}}},
                                                   {"lr_num_cycles", {{"lr_scheduler_type", "cosine_with_restarts"}}},
                                                   {"lr_power", {{"lr_scheduler_type", "polynomial"}}},
                                                   {"lr_decay_ratio", {{"lr_scheduler_type", "warmup_stable_decay"}}},
                                                   {"warmup_ratio", {{"lr_scheduler_type", "constant_with_warmup"}}},
                                                   {"warmup_steps", {{"lr_scheduler_type", "constant_with_warmup"}}},
                                                   {"writeback_steps", {{"policy", "three_tier"}}},
                                                   {"eval_steps", {{"eval_data", eval}}},
                                                   {"eval_samples", {{"eval_data", eval}}},
                                                   {"device_memory", {{"device", "cpu:emulate"}}},
                                                   {"link_rate", {{"device", "cpu:emulate"}}},
                                                   {"loss_watchdog_patience", {{"loss_watchdog_threshold", "1e9"}}}};
    for (const auto& [key, value] : other_values(folder_)) others[key][std::string(key)] = value;
    for (const ConfigKey& key : config_keys()) {
        Settings& settings = others[key.name];
        const std::string name(key.name);
        if (settings.contains(name)) continue;
        const std::string now = config_value_text(key, Config());
        settings[name] = now == "true" ? "false" : now == "false" ? "true" : "3";
        if (!key.choices.empty()) settings[name] = now == key.choices.front() ? key.choices[1] : key.choices.front();
    }
    return others;
}

// With a warning that names it.
void ResumeKeysTest::expect_followed(const ConfigKey& key, const Settings& changes) {
    set_log_level(LogLevel::warning);
    EXPECT_EQ(refusal(is_of_probes(key), changes), "");
    EXPECT_THAT(bytes("again/log.txt"), testing::HasSubstr(std::string(key.name) + " was "));
    set_log_level(LogLevel::error);
}

void ResumeKeysTest::expect_as_promised(const ConfigKey& key, const Settings& changes) {
    const bool probes = is_of_probes(key);
    const std::string name(key.name), was = name + " was ";
    if (key.resume == OnResume::warned) return expect_followed(key, changes);
    const std::string problem = refusal(probes, changes);
    if (key.resume == OnResume::free) {
        EXPECT_EQ(problem, "");
    } else if (key.resume != OnResume::resolved) {
        EXPECT_THAT(problem, testing::HasSubstr(was));
    }
    // What it comes to may be the same, for these rows. After a refusal the run goes on as if it had not been tried.
    if (!problem.empty()) go_on_in_place(probes, {});
    EXPECT_TRUE(has_expected_weights(probes)) << problem;
    if (key.resume != OnResume::by_name) return;
    Settings allowed = changes;
    allowed["allow_changed_settings"] = name;
    expect_followed(key, allowed);
}

TEST_F(ResumeKeysTest, EachIsRefusedOrFollowedWithAWarningOrChangesNoBit) {
    const auto values = others();
    for (const ConfigKey& key : config_keys()) {
        if (kOfTheCommand.contains(key.name)) continue;
        SCOPED_TRACE(key.name);
        expect_as_promised(key, values.at(key.name));
    }
}

}  // namespace
}  // namespace windlass
