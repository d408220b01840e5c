// docs/guide/coming-from.md: its tables are what `windlass config from` does, and its keys exist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "config/config_keys.h"
#include "config/foreign/draft.h"
#include "tests/place.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

std::string page_path() {
    return source_dir() + "/docs/guide/coming-from.md";
}

std::string page_text() {
    std::ifstream file(page_path());
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::vector<std::string> parted(std::string_view list) {
    std::vector<std::string> parts;
    for (size_t at = 0; at < list.size();) {
        const size_t end = std::min(list.find(", ", at), list.size());
        parts.emplace_back(list.substr(at, end - at));
        at = end + 2;
    }
    return parts;
}

std::string quoted(const std::vector<std::string>& names) {
    std::vector<std::string> each;
    for (const std::string& name : names) each.push_back(fmt::format("`{}`", name));
    return fmt::format("{}", fmt::join(each, ", "));
}

// Keys with our name, then those with another, then those without any, by the reason.
std::string table_of(std::span<const ForeignRule> rules) {
    std::vector<std::string> same;
    std::string renamed, why;
    std::vector<std::pair<std::string_view, std::vector<std::string>>> by_reason;
    for (const ForeignRule& rule : rules) {
        if (rule.name == rule.ours && rule.remark.empty()) {
            same.emplace_back(rule.name);
        } else if (rule.reason.empty()) {
            const std::string ours = rule.ours.empty() ? "-" : quoted(parted(rule.ours));
            renamed += fmt::format("| `{}` | {} | {} |\n", rule.name, ours, rule.remark);
        } else {
            const auto found = std::ranges::find(by_reason, rule.reason, [](const auto& each) { return each.first; });
            if (found == by_reason.end())
                by_reason.push_back({rule.reason, {std::string(rule.name)}});
            else
                found->second.emplace_back(rule.name);
        }
    }
    for (const auto& [reason, names] : by_reason) why += fmt::format("| {} | {} |\n", quoted(names), reason);
    const std::string kept = same.empty() ? "" : fmt::format("The same name: {}.\n\n", quoted(same));
    return fmt::format(
        "{}| theirs | ours | |\n| --- | --- | --- |\n{}\n| not needed, or not there | why |\n| --- | --- |\n{}", kept,
        renamed, why);
}

std::string expected(std::string page) {
    std::vector<std::pair<std::string, std::span<const ForeignRule>>> tables = {{"common", common_rules()}};
    for (const ForeignTool* const tool : foreign_tools()) tables.emplace_back(tool->name, tool->rules);
    for (const auto& [name, rules] : tables) {
        const std::string head = fmt::format("<!-- keys: {} -->\n", name), tail = "<!-- end -->";
        const size_t at = page.find(head);
        if (at == page.npos) return fmt::format("no line {}", head);
        const size_t begin = at + head.size();
        page.replace(begin, page.find(tail, begin) - begin, "\n" + table_of(rules) + "\n");
    }
    return page;
}

TEST(ComingFrom, ThePageHasTheTablesOfConfigFrom) {
    const std::string page = page_text();
    if (std::getenv("WINDLASS_WRITE_DOCS") != nullptr) std::ofstream(page_path()) << expected(page);
    EXPECT_EQ(page_text(), expected(page)) << "WINDLASS_WRITE_DOCS=1 unit_train writes it anew";
}

// The second column of each row names keys of ours, in rows that were written by hand too.
TEST(ComingFrom, ItsKeysExist) {
    std::istringstream lines(page_text());
    int rows = 0;
    const std::regex name("`([a-z_0-9]+)[^`]*`");
    for (std::string line; std::getline(lines, line);) {
        if (std::ranges::count(line, '|') != 4 || !line.starts_with("| `")) continue;
        const size_t begin = line.find('|', 2), end = line.find('|', begin + 1);
        const std::string ours = line.substr(begin, end - begin);
        for (std::sregex_iterator at(ours.begin(), ours.end(), name), last; at != last; ++at, ++rows)
            EXPECT_NE(find_config_key((*at)[1].str()), nullptr) << line;
    }
    EXPECT_GT(rows, 60);
}

// Lines of the configuration that a training file becomes.
std::set<std::string> translated(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
    std::istringstream lines(translate_config(real_files(), path).yaml);
    std::set<std::string> all;
    for (std::string line; std::getline(lines, line);) all.insert(line);
    return all;
}

// The keys that differ if the file also has `name` with any of the values.
std::set<std::string> keys_set_by(std::string_view name, const std::string& file,
                                  const std::vector<std::string>& values) {
    const TempFolder folder;
    const std::set<std::string> before = translated(folder / "a.yaml", file);
    std::set<std::string> keys;
    for (const std::string& value : values)
        for (const std::string& line : translated(folder / "a.yaml", fmt::format("{}{}: {}\n", file, name, value)))
            if (!before.contains(line)) keys.insert(line.substr(0, line.find(':')));
    return keys;
}

// A rule with code of its own sets the keys that it names, and no others.
TEST(ComingFrom, RulesWithCodeSetTheKeysThatTheyName) {
    const std::map<std::string_view, std::string> files = {
        {"LLaMA-Factory", "model_name_or_path: m\ncutoff_len: 64\nval_size: 0.1\n"},
        {"axolotl", "base_model: m\nsequence_len: 512\nmicro_batch_size: 1\nval_set_size: 0.1\n"},
        {"transformers", "dataset_train_split: train\nper_device_train_batch_size: 8\n"}};
    const std::map<std::string_view, std::string> adapters = {
        {"LLaMA-Factory", "finetuning_type: lora"}, {"axolotl", "adapter: lora"}, {"transformers", "use_peft: true"}};
    const std::vector<std::string> values = {"true",
                                             "4",
                                             "0.1",
                                             "dpo",
                                             "lora",
                                             "qlora",
                                             "all",
                                             "loss",
                                             "no",
                                             "x",
                                             "[a, b]",
                                             "{min_lr_rate: 0.1}",
                                             "adamw_8bit",
                                             "adalomo",
                                             "[{path: a.jsonl, type: {field_input: x}}]",
                                             "[{path: a.jsonl, type: completion, field: x}]"};
    for (const ForeignTool* const tool : foreign_tools()) {
        const std::string& file = files.at(tool->name);
        const std::string& adapter = adapters.at(tool->name);
        for (const std::span<const ForeignRule> rules : {tool->rules, common_rules()}) {
            for (const ForeignRule& rule : rules) {
                if (rule.take == nullptr) continue;
                SCOPED_TRACE(fmt::format("{} {}", tool->name, rule.name));
                std::set<std::string> seen = keys_set_by(rule.name, file, values);
                if (!adapter.starts_with(rule.name)) seen.merge(keys_set_by(rule.name, file + adapter + "\n", values));
                const std::vector<std::string> named = parted(rule.ours);
                for (const std::string& key : seen) EXPECT_THAT(named, testing::Contains(key));
                // Some are kept only next to others: a metric of the best step, steps between evaluations of rows.
                const bool needs_others = rule.name == "metric_for_best_model" || rule.name == "eval_steps";
                EXPECT_TRUE(needs_others || seen.empty() == named.empty());
            }
        }
    }
}

}  // namespace
}  // namespace windlass
