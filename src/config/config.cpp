#include "config/config.h"

#include <exception>

#include "base/error.h"
#include "base/printable.h"
#include "config/config_best.h"
#include "config/config_keys.h"
#include "config/config_layers.h"
#include "config/config_values.h"
#include "config/module_pattern.h"
#include "config/param_group_text.h"
#include "device/device.h"
#include "method/recipe.h"
#include "model/adapters/adapter.h"

namespace windlass {
namespace {

using Problems = std::vector<std::string>;

constexpr double kAdapterRate = 2e-4;  // ten times that of all parameters (QLoRA, arXiv 2305.14314, section 4)
constexpr std::string_view kProjectors = "lsp";
constexpr double kProjectorRate = 1e-4;  // of the language models in arXiv 2406.10181's code

// The value differs from the default: run.yaml, which contains every key, contradicts nothing.
bool is_changed(const Config& config, std::string_view name) {
    const ConfigKey* key = find_config_key(name);
    return config.was_given(name) && config_value_text(*key, config) != config_value_text(*key, Config());
}

void check_schedule(const Config& c, Problems& problems) {
    const std::string& type = c.lr_scheduler_type;
    if (type == "reduce_lr_on_plateau")
        problems.emplace_back(
            "lr_scheduler_type: reduce_lr_on_plateau is not implemented: its learning rate depends on "
            "evaluations. Try: cosine");
    if (is_changed(c, "warmup_steps") && is_changed(c, "warmup_ratio"))
        problems.emplace_back("warmup_steps and warmup_ratio are both set. Try: one of them");
    if (is_changed(c, "min_lr_ratio") && type != "cosine_with_min_lr" && type != "warmup_stable_decay" &&
        type != "polynomial")
        problems.push_back(
            fmt::format("min_lr_ratio has no meaning with lr_scheduler_type {}. Try: cosine_with_min_lr", type));
    if (is_changed(c, "lr_num_cycles") && type != "cosine_with_restarts")
        problems.push_back(fmt::format("lr_num_cycles has no meaning with lr_scheduler_type {}", type));
    if (is_changed(c, "lr_power") && type != "polynomial")
        problems.push_back(fmt::format("lr_power has no meaning with lr_scheduler_type {}", type));
    if (is_changed(c, "lr_decay_ratio") && type != "warmup_stable_decay")
        problems.push_back(fmt::format("lr_decay_ratio has no meaning with lr_scheduler_type {}", type));
    if (type == "warmup_stable_decay" && c.warmup_ratio + c.lr_decay_ratio > 1)
        problems.emplace_back("warmup_ratio and lr_decay_ratio together exceed 1");
    if (type == "constant" && (c.warmup_steps > 0 || c.warmup_ratio > 0))
        problems.emplace_back("lr_scheduler_type constant has no warmup. Try: constant_with_warmup");
    if (c.max_steps && c.warmup_steps > *c.max_steps)
        problems.push_back(fmt::format("warmup_steps {} exceeds max_steps {}", c.warmup_steps, *c.max_steps));
}

// Year-month-day.
bool is_date(const std::string& text) {
    int year = 0, month = 0, day = 0, end = 0;
    const bool is_whole = std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &end) == 3 && end == 10;
    const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                           std::chrono::day(static_cast<unsigned>(day))};
    return is_whole && text.size() == 10 && date.ok();
}

void check_data(const Config& c, Problems& problems) {
    if (!c.eval_data.empty() && c.val_split > 0)
        problems.emplace_back("eval_data and val_split are both set. Try: one of them");
    if (c.val_split > 1 && c.val_split != std::floor(c.val_split))
        problems.push_back(fmt::format("val_split {} is neither a share nor a number of rows", c.val_split));
    if (c.eval_steps && c.eval_data.empty() && c.val_split == 0)
        problems.emplace_back("eval_steps is set, but there is nothing to evaluate on. Try: eval_data or val_split");
    if (c.train_on_prompt && c.objective != "orpo" && c.was_given("train_turns") && c.train_turns != "all")
        problems.push_back(
            fmt::format("train_on_prompt and train_turns {} contradict. Try: train_turns: all", c.train_turns));
    if (!c.template_date.empty() && !is_date(c.template_date))
        problems.push_back(fmt::format("template_date: \"{}\" is no date. Try: 2026-01-31", c.template_date));
    if (!c.max_steps && c.num_train_epochs <= 0)
        problems.emplace_back("num_train_epochs is 0 and max_steps is not set");
}

bool uses_gradients_at_once(const Config& c) {
    return find_method(c.method).recipe({}).uses_gradients_at_once();
}

double usual_rate(const Config& c) {
    if (const double published = find_method(c.method).usual_rate; published > 0) return published;
    if (c.method != "adamw" || c.adapter.empty()) return Config().learning_rate;
    return c.adapter == kProjectors || c.adapter_kind == kProjectors ? kProjectorRate : kAdapterRate;
}

// Gradients that are used at once are clipped only if the user asks for it: their norm costs a second backward pass.
void resolve_method(Config& c) {
    if (!c.was_given("learning_rate")) c.learning_rate = usual_rate(c);
    if (!c.was_given("max_grad_norm")) c.max_grad_norm = uses_gradients_at_once(c) ? 0 : Config().max_grad_norm;
}

void check_gradients_at_once(const Config& c, Problems& problems) {
    const bool at_once = uses_gradients_at_once(c);
    if (at_once && c.update_time != "auto" && c.update_time != "in_backward")
        problems.push_back(
            fmt::format("update_time is {}, but method {} keeps no gradients that an update could wait for: it is "
                        "done in_backward, after each block's. Try: update_time: auto",
                        c.update_time, c.method));
    if (!at_once && c.weight_storage == "split")
        problems.push_back(
            fmt::format("weight_storage split is for methods that may do with the files' type, method is {}. Try: "
                        "weight_storage: as_file",
                        c.method));
}

// Methods that sum gradients, and keep them until the update reads them.
bool rounds_gradients(const Config& c) {
    return !uses_gradients_at_once(c) && find_method(c.method).recipe({}).runs(PassKind::backward);
}

void check_gradient_format(const Config& c, Problems& problems) {
    if (c.gradient_format == "f32") return;
    if (rounds_gradients(c)) return;
    problems.push_back(fmt::format(
        "gradient_format is {}, but method {} {}. Try: gradient_format: f32", c.gradient_format, c.method,
        uses_gradients_at_once(c) ? "uses each gradient up at once, in f32" : "finds no gradients to round"));
}

void check_method(const Config& c, Problems& problems) {
    check_gradient_format(c, problems);
    check_gradients_at_once(c, problems);
    for (const Problem& each : windlass::problems(c.method, method_options(c)))
        problems.push_back(fmt::format("{}. Try: {}", each.what, each.hint));
    if (c.sparse_share < 1 && c.weight_storage == "nf4")
        problems.emplace_back(
            "sparse_share goes by the weights of the base, weight_storage nf4 rounds them. Try: sparse_share: 1");
    if (c.merge_updates == "per_window" && c.writeback_steps)
        problems.emplace_back(
            "writeback_steps has no meaning with merge_updates per_window: weights are written after each "
            "noise_window. Try: writeback_steps: auto");
}

// Which methods can learn from what.
void check_objective(const Config& c, Problems& problems) {
    if (c.objective == "loss") return;
    if (c.objective == "dpo" || c.objective == "orpo") {
        if (c.train_on_prompt && c.objective != "orpo")
            problems.push_back(fmt::format(
                "objective {} compares answers, and train_on_prompt adds their prompt, which only orpo's first "
                "term can have. Try: train_on_prompt: false",
                c.objective));
        if (!c.task.empty())
            problems.push_back(
                fmt::format("objective {} compares answers, and a task has its own. Try: task: null", c.objective));
        if (c.packing)
            problems.push_back("objective " + c.objective + " compares rows; packing mixes them. Try: packing: false");
        if (c.objective == "dpo" && c.preference_beta == 0)
            problems.emplace_back("objective dpo learns nothing with preference_beta 0. Try: preference_beta: 0.1");
        if (c.lsp_refresh.value_or(0) > 0)
            problems.push_back(fmt::format(
                "lsp_refresh fits projectors to the loss of tokens, which objective {} has not. Try: lsp_refresh: 0",
                c.objective));
        return;
    }
    if (c.method != "zeroth_order" && !(c.method == "forward_gradient" && c.objective == "choice_loss"))
        problems.push_back(
            fmt::format("objective {} has no gradient that method {} could find. Try: method: zeroth_order",
                        c.objective, c.method));
    if (c.packing) problems.push_back(fmt::format("objective {} judges rows; packing mixes them", c.objective));
    if (c.objective == "f1" && c.task.empty())
        problems.emplace_back(
            "objective f1 judges answers to the rows of a task, but task is not set. Try: task: squad");
    else if (c.objective != "exact_match" && c.task.empty())
        problems.push_back(fmt::format("objective {} compares candidates, but task is not set", c.objective));
}

// Tasks make samples in their own way: the candidate at the end is whole, and only it is trained.
void resolve_rows(Config& c, Problems& problems) {
    if (c.train_on_prompt && c.objective != "orpo" && !c.was_given("train_turns")) c.train_turns = "all";
    if (c.task.empty()) return;
    if (!c.was_given("add_eos")) c.add_eos = false;
    if (!c.was_given("truncation")) c.truncation = "left";
    if (c.truncation != "left")
        problems.push_back(
            fmt::format("truncation {} has no meaning with a task: prompts lose their beginning", c.truncation));
    if (c.train_on_prompt) problems.emplace_back("train_on_prompt has no meaning with a task");
}

// Keys of an adapter when there is none, when it exists already, or when it is of another kind.
void check_adapter_keys(const Config& c, Problems& problems) {
    const bool is_new = is_adapter_name(c.adapter), projects = c.adapter == kProjectors;
    const auto check = [&](std::string_view key, bool is_meant, std::string_view kind) {
        if (!is_changed(c, key) || (is_new && is_meant)) return;
        if (c.adapter.empty())
            problems.push_back(fmt::format("{} has no meaning without an adapter. Try: adapter: {}", key, kind));
        else if (is_new)
            problems.push_back(fmt::format("{} has no meaning for adapter {}. Try: adapter: {}", key, c.adapter, kind));
        else
            problems.push_back(fmt::format("{} is what the adapter in {} says. Try: leave it out", key, c.adapter));
    };
    const bool is_of_tokens = is_new && find_adapter(c.adapter).is_of_tokens;
    check("lora_target_modules", !is_of_tokens, "lora");
    for (const char* const key : {"lora_r", "lora_alpha", "use_rslora", "modules_to_save"})
        check(key, !projects && !is_of_tokens, "lora");
    check("trainable_token_indices", is_of_tokens || c.adapter == "lora", "lora");
    if (is_of_tokens && c.trainable_token_indices.empty())
        problems.push_back(
            fmt::format("adapter {} trains no token. Try: trainable_token_indices: [ID, ...]", c.adapter));
    for (const char* const key : {"use_dora", "rank_pattern", "alpha_pattern"}) check(key, c.adapter == "lora", "lora");
    for (const char* const key : {"lsp_d", "lsp_r", "lsp_host_bytes", "lsp_link_bytes"})
        check(key, projects, kProjectors);
    for (const char* const key : {"lsp_refresh", "lsp_samples", "lsp_learn"}) {
        if (is_new || c.adapter.empty()) check(key, projects, kProjectors);  // else the folder may hold such a one
    }
    check_module_patterns(c, problems);
    for (const ByteLimit* const limit : {&c.lsp_host_bytes, &c.lsp_link_bytes}) {
        if (limit->text.ends_with('%'))
            problems.push_back(fmt::format("{}: a share of nothing. Try: a size, such as 4GiB",
                                           limit == &c.lsp_host_bytes ? "lsp_host_bytes" : "lsp_link_bytes"));
    }
}

// "none", and LLaMA-Factory's word for it, are no adapter; qlora is two settings.
void resolve_adapter_word(Config& c, Problems& problems) {
    if (c.adapter == "none" || c.adapter == "full") c.adapter.clear();
    const bool in_4_bits = c.adapter == "qlora" || c.load_in_4bit;
    if (c.adapter == "qlora") c.adapter = "lora";
    if (in_4_bits && is_changed(c, "weight_storage") && c.weight_storage != "nf4")
        problems.push_back(
            fmt::format("weight_storage is {}, but 4 bits are asked for. Try: weight_storage: nf4", c.weight_storage));
    if (in_4_bits) c.weight_storage = "nf4";
    c.load_in_4bit = false;
    if (c.lora_dropout > 0) problems.emplace_back("lora_dropout: dropout is not implemented. Try: lora_dropout: 0");
}

void check_run(const Config& c, Problems& problems) {
    const std::optional<DeviceId> device = device_from_name(c.device);
    if (!device || device->kind == DeviceKind::fake)
        problems.push_back(
            fmt::format("device: \"{}\" is not one of: cpu, cpu:emulate, cuda, cuda:N. Try: cpu", excerpt(c.device)));
    const bool has_disk = !c.ssd_dir.empty() || !c.machine.empty();
    if (c.policy == "three_tier" && !has_disk)
        problems.emplace_back(
            "policy three_tier keeps its state on disk, but ssd_dir is not set. Try: ssd_dir: FOLDER");
    if (c.policy == "in_memory" && !c.ssd_dir.empty())
        problems.emplace_back("policy in_memory uses no disk, but ssd_dir is set. Try: policy auto");
    if (is_changed(c, "ssd_space") && !has_disk) problems.emplace_back("ssd_space is set, but ssd_dir is not");
    if (is_changed(c, "disk_rate") && !has_disk) problems.emplace_back("disk_rate is set, but ssd_dir is not");
    if (is_changed(c, "link_rate") && c.device == "cpu" && c.machine.empty())
        problems.emplace_back("link_rate is set, but device cpu has no link. Try: device: cpu:emulate");
    if (is_changed(c, "device_memory") && c.device == "cpu" && c.machine.empty())
        problems.emplace_back("device_memory is set, but the memory of device cpu is ram. Try: device: cpu:emulate");
    if (!c.resume.empty() && c.overwrite) problems.emplace_back("resume and overwrite are both set. Try: one of them");
    if (!c.resume.empty() && c.resume != "auto" && c.resume.find_first_not_of("0123456789") != std::string::npos)
        problems.push_back(fmt::format("resume: \"{}\" is neither auto nor a step", c.resume));
    if (!c.resume.empty() && !c.branch_from.empty())
        problems.emplace_back(
            "resume and branch_from are both set: a branch that was begun is resumed. Try: one of them");
    if (c.report_to.size() > 1 && std::count(c.report_to.begin(), c.report_to.end(), "none") > 0)
        problems.emplace_back("report_to: none is given with others");
}

// A key that was set, though wrongly, is not said to be absent too.
void check_present(const Config& c, ConfigUse use, const std::set<std::string_view>& meant, Problems& problems) {
    const auto want = [&](bool present, std::string_view key, std::string_view example) {
        if (!present && !meant.contains(key))
            problems.push_back(fmt::format("{} is not set. Try: {} {}", key, config_flag(key), example));
    };
    want(!c.model.empty(), "model", "path/to/model-folder");
    if (use == ConfigUse::evaluate && c.eval_data.empty() && !meant.contains("eval_data"))
        problems.emplace_back("there is nothing to evaluate on. Try: --data rows.jsonl");
    if (use != ConfigUse::plan && !c.machine.empty())
        problems.emplace_back("machine names a machine to plan for. Try: windlass plan, or no machine");
    if (use != ConfigUse::train) return;
    want(!c.train_data.empty(), "train_data", "rows.jsonl");
    want(!c.output_dir.empty(), "output_dir", "runs/first");
}

[[noreturn]] void throw_problems(const Problems& problems) {
    if (problems.size() == 1) throw UserError(ExitCode::usage, "configuration", "{}", problems.front());
    // A file chooses how many there are.
    constexpr size_t kProblemsMax = 20;
    const std::span shown(problems.begin(), std::min(problems.size(), kProblemsMax));
    throw UserError(ExitCode::usage, "configuration", "{} problems{}:\n  {}", problems.size(),
                    shown.size() < problems.size() ? fmt::format(", the first {}", shown.size()) : "",
                    fmt::join(shown, "\n  "));
}

// What is wrong with the model's place is said after what is wrong with the keys.
std::exception_ptr place_model(const PlaceModel& place, Config& config) {
    try {
        if (place) place(config);
    } catch (const UserError&) {
        return std::current_exception();
    }
    return nullptr;
}

}  // namespace

bool is_adapter_name(std::string_view adapter) {
    return std::ranges::any_of(all_adapters(), [&](const AdapterKind* kind) { return kind->name == adapter; });
}

MethodOptions method_options(const Config& c) {
    MethodOptions options{.beta1 = c.adam_beta1,
                          .beta2 = c.adam_beta2,
                          .epsilon = c.adam_epsilon,
                          .weight_decay = c.weight_decay,
                          .max_grad_norm = c.max_grad_norm,
                          .split_masters = c.weight_storage == "split",
                          .zo_eps = c.zo_eps,
                          .scalar_clip = c.scalar_clip,
                          .noise = *noise_kind_from_name(c.noise),
                          .noise_rank = static_cast<int>(c.noise_rank),
                          .noise_window = c.noise_window,
                          .noise_keeps_left = c.noise_kept == "both",
                          .estimator = *estimator_from_name(c.zo_estimator),
                          .layer_drop = c.layer_drop,
                          .sparse_share = c.sparse_share,
                          .moments = *moments_from_name(c.zo_optimizer),
                          .replay_window = static_cast<int>(c.replay_window),
                          .merge = *merge_from_name(c.merge_updates)};
    options.directions = c.directions ? static_cast<int>(*c.directions) : least_directions(options.estimator);
    if (const auto format = state_format_from_name(c.state_format)) options.state_format = *format;
    return options;
}

Config config_of_texts(const std::map<std::string, std::string>& settings, std::string_view where) {
    Config config;
    for (const auto& [name, text] : settings) {
        const ConfigKey* const key = find_config_key(name);
        const ConfigEntry entry{.key = name, .values = {text}, .where = std::string(where)};
        const std::string problem = key == nullptr ? "there is no such key" : assign_config_value(*key, entry, config);
        if (!problem.empty()) throw UserError(ExitCode::storage, where, "settings.{}: {}", name, problem);
    }
    return config;
}

Config with_method(Config config, std::string_view method) {
    if (config.method == method) return config;
    config.method = method;
    if (config.weight_storage == "split") config.weight_storage = Config().weight_storage;
    if (!rounds_gradients(config)) config.gradient_format = Config().gradient_format;
    resolve_method(config);
    return config;
}

ReadConfig make_config(const ConfigSources& sources, ConfigUse use, const PlaceModel& place) {
    ReadConfig read;
    read.config.written_in = sources.file_path;
    Problems problems;
    std::set<std::string_view> meant;
    for (const auto* layer :
         {&sources.preset, &sources.environment, &sources.file, &sources.overrides, &sources.flags}) {
        apply_layer(*layer, read, problems, meant);
    }
    resolve_adapter_word(read.config, problems);
    const std::exception_ptr misplaced = place_model(place, read.config);
    check_adapter_keys(read.config, problems);
    resolve_rows(read.config, problems);
    resolve_method(read.config);
    check_data(read.config, problems);
    check_objective(read.config, problems);
    check_schedule(read.config, problems);
    check_method(read.config, problems);
    check_param_groups(read.config, problems);
    check_run(read.config, problems);
    check_best(read.config, problems);
    check_samples(read.config, problems);
    check_present(read.config, use, meant, problems);
    if (!problems.empty()) throw_problems(problems);
    if (misplaced) std::rethrow_exception(misplaced);
    return read;
}

}  // namespace windlass
