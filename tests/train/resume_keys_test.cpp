// Every key of the configuration, given another value where a run goes on.
#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/rng.h"
#include "config/config_keys.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Methods that keep a log have keys of their own, and so have adapters. What the others have is tried without either.
enum Kind { kOfAdamw, kOfProbes, kOfQlora, kOfLsp };
constexpr Kind kKinds[] = {kOfAdamw, kOfProbes, kOfQlora, kOfLsp};

Kind kind_of(std::string_view key) {
    static const std::set<std::string_view> names = {
        "zo_eps",        "directions",     "noise",        "noise_rank",      "noise_window", "noise_kept",
        "merge_updates", "scalar_clip",    "zo_optimizer", "replay_window",   "zo_estimator", "layer_drop",
        "sparse_share",  "weight_storage", "objective",    "writeback_steps", "branch_from"};
    static const std::set<std::string_view> adapters = {
        "lora_r",       "lora_alpha",    "use_rslora",      "use_dora",     "lora_target_modules",
        "rank_pattern", "alpha_pattern", "modules_to_save", "load_in_4bit", "trainable_token_indices"};
    if (key.starts_with("lsp_")) return kOfLsp;
    return names.contains(key) ? kOfProbes : adapters.contains(key) ? kOfQlora : kOfAdamw;
}

// Every other value is refused wherever it stands.
constexpr std::string_view kHasNoOther = "lora_dropout";

// Of a key: other values than the runs were begun with, what they need beside them, and the words of a refusal where
// they are not "KEY was ".
struct Change {
    std::string value;
    Settings beside = {};
    std::string words = {};
};

class ResumeKeysTest : public TrainTest {
  protected:
    ResumeKeysTest() {
        fs::copy(at("model"), at("moved_model"), fs::copy_options::recursive);
        write_rows_of_many_forms();
        write_rows("other.jsonl", 21, 3);
        for (const Kind kind : kKinds) {
            run(begun(kind), settings(kind));
            go_on(kind, {});
            expected_[kind] = bytes("again" + weights(kind));
        }
    }

    // A text, another one, and what a task wants, so that a run under another key of rows could begin.
    void write_rows_of_many_forms() const {
        Random random(1, RandomStream::test);
        std::string text;
        for (int64_t row = 0; row < 12; ++row) {
            std::string words(row % 3 == 0 ? 48 : 8 + random.below(8), 'a');
            for (char& c : words) c = static_cast<char>('a' + random.below(6));
            text +=
                Json({{"text", words}, {"body", words + "b"}, {"sentence", words}, {"label", row % 2}}).dump() + "\n";
        }
        write("train.jsonl", text);
    }

    static std::string begun(Kind kind) { return std::array{"adamw", "probes", "qlora", "lsp"}[kind]; }
    static Settings settings(Kind kind) {
        Settings settings = {{"max_steps", "2"}, {"save_steps", "2"}};
        if (kind == kOfProbes) settings.merge(Settings{{"method", "zeroth_order"}, {"noise", "low_rank"}});
        if (kind == kOfQlora) settings.merge(Settings{{"adapter", "qlora"}, {"lora_r", "4"}});
        if (kind == kOfLsp) settings.merge(Settings{{"adapter", "lsp"}});
        return settings;
    }
    static std::string weights(Kind kind) { return kind == kOfQlora ? kAdapterWeights : kWeights; }

    void copy_begun(Kind kind) const {
        fs::remove_all(at("again"));
        fs::copy(at(begun(kind)), at("again"), fs::copy_options::recursive);
    }
    void go_on_in_place(Kind kind, const Settings& changes) {
        Settings all = changes;
        all.merge(Settings{{"max_steps", "3"}, {"resume", "auto"}});
        all.merge(settings(kind));
        run("again", all);
    }
    // In a copy of the run's folder, "again".
    void go_on(Kind kind, const Settings& changes) {
        copy_begun(kind);
        go_on_in_place(kind, changes);
    }
    std::string problem(const std::function<void()>& body) {
        try {
            body();
        } catch (const std::exception& error) {
            return error.what();
        }
        return "";
    }
    bool has_expected_weights(Kind kind) const { return bytes("again" + weights(kind)) == expected_[kind]; }

    void expect_refused(Kind kind, std::span<const ConfigKey* const> keys);
    void expect_followed(Kind kind, const Settings& changes, const std::vector<std::string>& names);
    void expect_free(Kind kind, const std::map<std::string, Change>& changes);

    void walk_refused();
    void walk_allowed();
    void walk_warned();
    void walk_best();
    void walk_free();
    std::map<std::string, Change> watched_changes() const;

    std::map<std::string, Change> changes() const;

    std::array<std::string, std::size(kKinds)> expected_;
};

// Rates over the steps.
std::map<std::string, Change> rate_changes() {
    const auto rate = [](std::string value, const char* type) { return Change{value, {{"lr_scheduler_type", type}}}; };
    return {{"lr_scheduler_type", {"cosine"}},
            {"min_lr_ratio", rate("0.1", "cosine_with_min_lr")},
            {"lr_num_cycles", rate("3", "cosine_with_restarts")},
            {"lr_power", rate("2", "polynomial")},
            {"lr_decay_ratio", rate("0.2", "warmup_stable_decay")},
            {"warmup_ratio", rate("0.5", "constant_with_warmup")},
            {"warmup_steps", rate("3", "constant_with_warmup")}};
}

std::map<std::string, Change> adapter_changes() {
    return {{"adapter", {"lora", {{"lora_r", "4"}}}},
            {"lora_r", {"8"}},
            {"lora_alpha", {"8"}},
            {"use_rslora", {"true"}},
            {"use_dora", {"true"}},
            {"lora_target_modules", {"[q_proj]"}},
            {"rank_pattern", {"[q_proj=2]"}},
            {"alpha_pattern", {"[q_proj=2]"}},
            {"trainable_token_indices", {"[5]"}},
            {"modules_to_save", {"[lm_head]"}},
            {"lsp_d", {"16"}},
            {"lsp_r", {"4"}},
            {"lsp_host_bytes", {"1GiB"}},
            {"lsp_link_bytes", {"1GiB"}},
            {"lsp_refresh", {"2"}},
            {"lsp_samples", {"4"}},
            {"lsp_learn", {"3"}}};
}

std::map<std::string, Change> ResumeKeysTest::changes() const {
    const std::string rows = "training rows was ", groups = "param_groups was ";
    std::map<std::string, Change> changes = {{"train_data", {"[" + at("other.jsonl") + "]", {}, rows}},
                                             {"preference_beta", {"0.3"}},
                                             {"method", {"forward_gradient"}},
                                             {"seed", {"3"}},
                                             {"per_device_train_batch_size", {"1"}},
                                             {"gradient_accumulation_steps", {"1"}},
                                             {"dtype", {"bf16"}},
                                             {"state_format", {"bf16"}},
                                             {"gradient_format", {"bf16"}},
                                             {"freeze", {"[\"*norm*\"]", {}, groups}},
                                             {"param_groups", {"[\"*norm* weight_decay=0.5\"]", {}, groups}},
                                             {"weight_storage", {"f8"}},
                                             {"directions", {"3"}},
                                             {"merge_updates", {"per_window"}},
                                             {"ignore_config_keys", {"[attention_dropout]"}},
                                             {"val_split", {"0.2"}},
                                             {"packing", {"true"}},
                                             {"zo_eps", {"0.01"}},
                                             {"noise", {"gaussian"}},
                                             {"noise_rank", {"3"}},
                                             {"noise_window", {"3"}},
                                             {"noise_kept", {"both"}},
                                             {"zo_optimizer", {"momentum"}},
                                             {"replay_window", {"3", {{"zo_optimizer", "momentum"}}}},
                                             {"zo_estimator", {"one_sided"}},
                                             {"layer_drop", {"0.5"}},
                                             {"sparse_share", {"0.5"}},
                                             {"weight_decay", {"0.3"}},
                                             {"adam_beta1", {"0.8"}},
                                             {"adam_beta2", {"0.95"}},
                                             {"adam_epsilon", {"1e-6"}},
                                             {"max_grad_norm", {"0.5"}},
                                             {"num_train_epochs", {"5"}},
                                             {"max_steps", {"4"}},
                                             {"learning_rate", {"0.005"}},
                                             {"scalar_clip", {"0.5"}}};
    const Settings of_rows = {{"max_length", "32"},       {"truncation", "drop"},     {"train_on_prompt", "true"},
                              {"add_eos", "false"},       {"skip_malformed", "true"}, {"document_separator", "x"},
                              {"text_field", "body"},     {"prompt_field", "x"},      {"completion_field", "x"},
                              {"instruction_field", "x"}, {"input_field", "x"},       {"output_field", "x"},
                              {"messages_field", "x"},    {"chat_template", "none"},  {"train_turns", "last"},
                              {"task", "sst2"},           {"train_samples", "3"},     {"objective", "exact_match"}};
    for (const auto& [key, value] : of_rows) changes[key] = {value, {}, rows};
    for (const auto& group : {rate_changes(), adapter_changes()}) changes.insert(group.begin(), group.end());
    return changes;
}

// None of them changes anything: the run goes on afterwards as if it had not been tried.
void ResumeKeysTest::expect_refused(Kind kind, std::span<const ConfigKey* const> keys) {
    const auto values = changes();
    copy_begun(kind);
    for (const ConfigKey* key : keys) {
        SCOPED_TRACE(key->name);
        const std::string name(key->name);
        ASSERT_TRUE(values.contains(name)) << "another value is wanted";
        const Change& change = values.at(name);
        Settings changed = change.beside;
        changed[name] = change.value;
        const std::string refusal = problem([&] { go_on_in_place(kind, changed); });
        EXPECT_THAT(refusal, HasSubstr("this would not be the same run: "));
        EXPECT_THAT(refusal, HasSubstr(change.words.empty() ? name + " was " : change.words));
        if (refusal.empty()) copy_begun(kind);
    }
    go_on_in_place(kind, {});
    EXPECT_TRUE(has_expected_weights(kind));
}

// With a warning that names each.
void ResumeKeysTest::expect_followed(Kind kind, const Settings& changes, const std::vector<std::string>& names) {
    set_log_level(LogLevel::warning);
    EXPECT_EQ(problem([&] { go_on(kind, changes); }), "");
    set_log_level(LogLevel::error);
    const std::string log = bytes("again/log.txt");
    for (const std::string& name : names) EXPECT_THAT(log, HasSubstr(name + " was "));
}

// All at once; each by itself only where that fails, to find which it is.
void ResumeKeysTest::expect_free(Kind kind, const std::map<std::string, Change>& changes) {
    Settings all;
    for (const auto& [name, change] : changes) all[name] = change.value;
    const std::string refusal = problem([&] { go_on(kind, all); });
    if (refusal.empty() && has_expected_weights(kind)) return;
    ADD_FAILURE() << "together: " << refusal;
    for (const auto& [name, change] : changes) {
        Settings one = change.beside;
        one[name] = change.value;
        EXPECT_EQ(problem([&] { go_on(kind, one); }), "") << name;
        EXPECT_TRUE(has_expected_weights(kind)) << name;
    }
}

std::vector<const ConfigKey*> keys_of(std::initializer_list<OnResume> rules, Kind kind) {
    std::vector<const ConfigKey*> keys;
    for (const ConfigKey& key : config_keys()) {
        const bool is_of_rule = std::ranges::find(rules, OnResume(key.resume)) != rules.end();
        if (is_of_rule && kind_of(key.name) == kind && key.name != kHasNoOther) keys.push_back(&key);
    }
    return keys;
}

void ResumeKeysTest::walk_refused() {
    for (const Kind kind : kKinds)
        expect_refused(kind, keys_of({OnResume::refused, OnResume::resolved, OnResume::by_name}, kind));
    EXPECT_THAT(problem([&] {
                    go_on(kOfQlora, {{std::string(kHasNoOther), "0.1"}});
                }),
                HasSubstr("dropout is not implemented"));
}

void ResumeKeysTest::walk_allowed() {
    const auto values = changes();
    std::vector<std::string> names;
    Settings allowed;
    for (const ConfigKey* key : keys_of({OnResume::by_name}, kOfAdamw)) {
        names.emplace_back(key->name);
        allowed[names.back()] = values.at(names.back()).value;
    }
    EXPECT_EQ(names.size(), 5u);
    allowed["allow_changed_settings"] = fmt::format("[{}]", fmt::join(names, ", "));
    expect_followed(kOfAdamw, allowed, names);
    EXPECT_FALSE(has_expected_weights(kOfAdamw));
}

void ResumeKeysTest::walk_warned() {
    const auto values = changes();
    for (const Kind kind : kKinds) {
        Settings together;
        std::vector<std::string> names;
        for (const ConfigKey* key : keys_of({OnResume::warned}, kind)) {
            const std::string name(key->name);
            SCOPED_TRACE(name);
            ASSERT_TRUE(values.contains(name)) << "another value is wanted";
            const Change& change = values.at(name);
            if (change.beside.empty()) {
                together[name] = change.value;
                names.push_back(name);
                continue;
            }
            Settings one = change.beside;
            one[name] = change.value;
            expect_followed(kind, one, {name});
        }
        if (names.empty()) continue;
        expect_followed(kind, together, names);
        EXPECT_FALSE(has_expected_weights(kind));
    }
}

// What looks at a run beside its steps.
std::map<std::string, Change> ResumeKeysTest::watched_changes() const {
    const Settings compared = {{"eval_steps", "1"}, {"eval_data", "[" + at("eval.jsonl") + "]"}};
    Settings patient = {{"early_stopping_patience", "9"}};
    patient.insert(compared.begin(), compared.end());
    return {{"metric_for_best_model", {"eval_loss", patient}},
            {"greater_is_better", {"false", patient}},
            {"early_stopping_patience", {"9", compared}},
            {"early_stopping_threshold", {"0.5", patient}},
            {"sample_prompts", {"[abc]", {{"sample_steps", "1"}}}},
            {"sample_steps", {"1", {{"sample_prompts", "[abc]"}}}},
            {"sample_max_new_tokens", {"3"}}};
}

// It ends with the weights of another step, perhaps: those of the last one are what they were.
void ResumeKeysTest::walk_best() {
    const Settings best = {
        {"load_best_model_at_end", "true"}, {"eval_steps", "1"}, {"eval_data", "[" + at("eval.jsonl") + "]"}};
    EXPECT_EQ(problem([&] { go_on(kOfAdamw, best); }), "");
    EXPECT_TRUE(bytes("again/checkpoint-3/model/model.safetensors") == expected_[kOfAdamw]);
}

void ResumeKeysTest::walk_free() {
    const Settings eval = {{"eval_data", "[" + at("eval.jsonl") + "]"}}, disk = {{"ssd_dir", at("ssd")}};
    const Settings link = {{"device", "cpu:emulate"}};
    std::map<std::string, Change> in_memory = {{"model", {at("moved_model")}},
                                               {"cache_dir", {at("elsewhere")}},
                                               {"template_date", {"2026-01-31"}},
                                               {"eval_data", {"[" + at("eval.jsonl") + "]"}},
                                               {"eval_steps", {"1", eval}},
                                               {"eval_samples", {"3", eval}},
                                               {"logging_steps", {"3"}},
                                               {"save_steps", {"1"}},
                                               {"save_total_limit", {"1"}},
                                               {"save_first_step", {"true"}},
                                               {"export_steps", {"3"}},
                                               {"loss_watchdog_threshold", {"1e9"}},
                                               {"loss_watchdog_patience", {"7"}},
                                               {"report_to", {"[none]"}},
                                               {"gradient_checkpointing", {"true"}},
                                               {"allow_changed_settings", {"[weight_decay]"}},
                                               {"resume", {"2"}},
                                               {"ram", {"2GiB"}},
                                               {"threads", {"1"}}};
    const std::map<std::string, Change> on_disk = {{"preset", {"fuyou", disk}},       {"policy", {"three_tier", disk}},
                                                   {"update_time", {"in_backward"}},  {"device", {"cpu:emulate"}},
                                                   {"device_memory", {"1GiB", link}}, {"link_rate", {"1GiB", link}},
                                                   {"disk_rate", {"1GiB", disk}},     {"ssd_dir", {at("ssd")}},
                                                   {"ssd_space", {"1GiB", disk}},     {"ssd_writes", {"1TiB"}}};
    const std::map<std::string, Change> streamed = {{"writeback_steps", {"3"}}, {"policy", {"three_tier", disk}}};
    in_memory.merge(watched_changes());
    expect_free(kOfAdamw, in_memory);
    expect_free(kOfAdamw, on_disk);
    expect_free(kOfProbes, streamed);
    // The other way to say qlora.
    EXPECT_EQ(problem([&] { go_on(kOfQlora, {{"adapter", "lora"}, {"load_in_4bit", "true"}}); }), "");
    EXPECT_TRUE(has_expected_weights(kOfQlora));
    walk_best();
    // Another folder, which takes the run up where it is.
    fs::remove_all(at("again"));
    Settings branch = {{"branch_from", at("probes") + "@2"}, {"max_steps", "3"}};
    branch.merge(settings(kOfProbes));
    run("again", branch);
    EXPECT_TRUE(has_expected_weights(kOfProbes));
    // They contradict a run that goes on, or belong to plans alone.
    copy_begun(kOfAdamw);
    EXPECT_THAT(problem([&] { go_on_in_place(kOfAdamw, {{"overwrite", "true"}}); }), HasSubstr("resume and overwrite"));
    EXPECT_THAT(problem([&] {
                    go_on_in_place(kOfAdamw, {{"machine", "laptop"}});
                }),
                HasSubstr("a machine to plan for"));
    std::set<std::string> walked = {"output_dir", "branch_from",  "overwrite",
                                    "machine",    "load_in_4bit", "load_best_model_at_end"};
    for (const auto& group : {in_memory, on_disk, streamed})
        for (const auto& [name, change] : group) walked.insert(name);
    std::set<std::string> free;
    for (const ConfigKey& key : config_keys())
        if (key.resume == OnResume::free) free.emplace(key.name);
    EXPECT_EQ(walked, free);
}

// One test, since all compare with the same two runs.
TEST_F(ResumeKeysTest, EachIsRefusedOrFollowedWithAWarningOrChangesNoBit) {
    walk_refused();
    walk_allowed();
    walk_warned();
    walk_free();
}

}  // namespace
}  // namespace windlass
