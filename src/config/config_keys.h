// config_keys.h: the one table of configuration keys.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace windlass {

// The member that a key fills; its type is the key's type.
using ConfigField =
    std::variant<std::string Config::*, std::vector<std::string> Config::*, ByteLimit Config::*, int64_t Config::*,
                 double Config::*, bool Config::*, std::optional<int64_t> Config::*, std::optional<double> Config::*>;

// Groups of keys, as help and the guide head them.
inline constexpr std::string_view kData = "Model and data";
inline constexpr std::string_view kMethod = "Method";
inline constexpr std::string_view kMemory = "Numbers, memory and disk";
inline constexpr std::string_view kIntervals = "Intervals and output";

inline constexpr double kCountMax = 1e12;  // of rows, steps, tokens: beyond any run, within any integer

// What happens if a run resumes with another value of a key. Another value of the first two is refused, one of the
// next two is used with a warning that names it: the run's history then has two parts.
enum class OnResume {
    refused,   // by its name: the run state holds its text
    resolved,  // the run state holds what came of it: numerics, rows, groups of parameters
    by_name,   // but where allow_changed_settings names it
    warned,    // rates and lengths of a run, and what a log's records say step by step
    free,      // changes no bit: places, budgets, what is written besides
};

// In allow_changed_settings, the rows that steps are compared on.
inline constexpr std::string_view kEvalRowsSetting = "eval_data";

// No key can leave it out: there is no default.
class ResumeRule {
  public:
    constexpr ResumeRule(OnResume rule) : rule_(rule) {}
    constexpr operator OnResume() const { return rule_; }

  private:
    OnResume rule_;
};

// What a list may be instead: names with a value, or each with several. {q_proj: 8} is [q_proj=8].
enum class Pairs { none, one_value, values };

struct ConfigKey {
    std::string_view name;
    ResumeRule resume;
    ConfigField field;
    std::string_view group;
    std::string_view help;
    std::string_view unit = "";
    std::vector<std::string_view> aliases = {};
    std::vector<std::string_view> choices = {};  // of a text or of the members of a list
    double min = -std::numeric_limits<double>::infinity();
    double max = std::numeric_limits<double>::infinity();
    std::string_view empty = "null";  // how an optional without a value is written: "auto", "null"
    Pairs pairs = Pairs::none;
    bool names_files = false;  // files or folders; some of them may have another meaning too, such as a preset's name
};

std::span<const ConfigKey> config_keys();
// Parts of it (config_keys_memory.cpp).
std::vector<ConfigKey> memory_keys();
std::vector<ConfigKey> tier_keys();
std::vector<ConfigKey> disk_keys();
// config_keys_zeroth_order.cpp
std::vector<ConfigKey> probe_keys();
std::vector<ConfigKey> moment_keys();
std::vector<ConfigKey> estimator_keys();
// And config_keys_task.cpp.
std::vector<ConfigKey> task_keys();
std::vector<ConfigKey> objective_keys();
// config_keys_update.cpp
std::vector<ConfigKey> schedule_keys();
std::vector<ConfigKey> adam_keys();
// And config_keys_groups.cpp.
std::vector<ConfigKey> group_keys();
// config_keys_adapter.cpp
std::vector<ConfigKey> adapter_keys();
std::vector<ConfigKey> adapted_module_keys();
std::vector<ConfigKey> projector_keys();
// config_keys_best.cpp
std::vector<ConfigKey> best_keys();
std::vector<ConfigKey> sample_keys();

// The key of this name or alias, '-' read as '_'; nullptr when there is none.
const ConfigKey* find_config_key(std::string_view name);
// The name or alias that is nearest to what was written; empty when nothing is near.
std::string_view nearest_config_key(std::string_view name);

// "learning_rate" -> "--learning-rate"
std::string config_flag(std::string_view name);
// "text", "list", "bytes", "integer", ... as the reference says it.
std::string config_type_name(const ConfigKey& key);
// The value as YAML writes it: 2e-05, [a, b], "80%", null.
std::string config_value_text(const ConfigKey& key, const Config& config);

}  // namespace windlass
