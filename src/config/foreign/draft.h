// draft.h: a configuration of ours while it is made from another tool's file: what was taken over, with remarks, and
// what was not, with reasons.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/foreign/translate.h"
#include "config/foreign/value.h"

namespace windlass {

class ForeignDraft {
  public:
    explicit ForeignDraft(std::span<const ForeignKey> keys) : keys_(keys) {}

    // The file's value of a key; an empty one where it has none, or null.
    const ForeignValue& value(std::string_view name) const;
    std::string_view text(std::string_view name) const { return value(name).text; }
    bool is_set(std::string_view key) const { return config_.was_given(key); }
    const Config& config() const { return config_; }

    // A key of ours. What it does not take is dropped, under the name that the file has for it.
    void set(std::string_view key, const ForeignValue& value, std::string_view from, std::string remark = "");
    void set(std::string_view key, const std::string& value, std::string_view from, std::string remark = "");
    void drop(std::string_view from, std::string reason);
    // It is set, but not to be.
    void unset(std::string_view key, std::string_view from, std::string reason);

    // Adds to the remark of a key, if that is set.
    void remark(std::string_view key, std::string_view text);
    // The keys that are set, in the order of the guide, with their remarks.
    std::string yaml() const;
    std::vector<DroppedKey> take_dropped() { return std::move(dropped_); }

  private:
    std::span<const ForeignKey> keys_;
    Config config_;
    std::map<std::string, std::string, std::less<>> remarks_;
    std::vector<DroppedKey> dropped_;
};

// How a key of the other tool is translated: it has another name here, or is skipped for a reason, or runs code.
struct ForeignRule {
    std::string_view name;
    std::string_view ours = "";    // our key; with `take` all that it may set, parted by ", "
    std::string_view remark = "";  // of a key of ours, on its line
    std::string_view reason = "";
    void (*take)(ForeignDraft& draft, const ForeignKey& key) = nullptr;
};

// Settings that a file leaves to its tool, where the tool's are not ours.
struct ForeignDefault {
    std::string_view ours, value;
};

struct ForeignTool {
    std::string_view name;
    std::span<const std::string_view> marks;  // keys that only its files have
    std::span<const ForeignRule> rules;
    std::span<const ForeignDefault> defaults;
    void (*finish)(ForeignDraft& draft);  // what several keys say together
};
const ForeignTool& llama_factory();
const ForeignTool& axolotl();
const ForeignTool& transformers();
std::span<const ForeignTool* const> foreign_tools();
// What the tool's rules, or those of all, say about a key; nullptr: nothing.
const ForeignRule* find_foreign_rule(const ForeignTool& tool, std::string_view name);

inline constexpr std::string_view kEachSteps =
    "evaluations come each eval_steps, and at the end: give a number of steps";

// Rules of keys that both took from transformers.
std::span<const ForeignRule> common_rules();
// Keys that depend on each other (best step, evaluations, saving, warm-up), after all rules have run.
void finish_common(ForeignDraft& draft);

}  // namespace windlass
