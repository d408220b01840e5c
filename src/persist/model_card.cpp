#include "persist/model_card.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/file_error.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/printable.h"
#include "config/model_place.h"
#include "format/replaceable_folder.h"
#include "format/side_files.h"
#include "persist/run_folder.h"
#include "persist/run_identity.h"

namespace windlass {
namespace {

constexpr int64_t kReadmeBytesMax = int64_t{1} << 20;
constexpr size_t kLicenceMax = 256;  // an id, or a link
constexpr size_t kDataNamesShown = 10;
constexpr std::array kLicenceKeys = {"license", "license_name", "license_link"};

// A JSON text is a YAML text, whatever it holds.
std::string yaml_text(std::string_view text) {
    return Json(text).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

constexpr std::string_view kMarks = "\\`*_{}[]<>#|~&!$:@";  // what Markdown, HTML and links are made of

// As Markdown shows it, letter by letter, in one line of a table.
std::string plain(std::string_view text) {
    std::string made;
    for (const char c : printable(excerpt(text))) {
        if (kMarks.find(c) != kMarks.npos) made += '\\';
        made += c == '\n' || c == '\t' ? ' ' : c;
    }
    return made;
}

std::string_view unquoted(std::string_view text) {
    const bool is_quoted = text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
    return is_quoted ? text.substr(1, text.size() - 2) : text;
}

std::string_view trimmed_line(std::string_view line) {
    constexpr std::string_view kBlanks = " \t\r";
    const size_t begin = line.find_first_not_of(kBlanks);
    return begin == line.npos ? "" : line.substr(begin, line.find_last_not_of(kBlanks) - begin + 1);
}

bool is_licence(std::string_view text) {
    constexpr std::string_view kAllowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+:/ ?=&%#~()";
    return !text.empty() && text.size() <= kLicenceMax && text.find_first_not_of(kAllowed) == text.npos;
}

// The lines about the licence between the first two lines "---" of a card. Anything but a plain word or link is left
// out, so hostile YAML is never read as such.
std::string licence_lines(std::string_view readme) {
    std::array<std::string_view, kLicenceKeys.size()> values;
    for (bool is_first = true; !readme.empty(); is_first = false) {
        const size_t end = std::min(readme.find('\n'), readme.size());
        const std::string_view line = readme.substr(0, end);
        readme.remove_prefix(std::min(end + 1, readme.size()));
        const bool is_fence = trimmed_line(line) == "---";
        if (is_first != is_fence) break;  // no front matter, or its end
        for (size_t i = 0; i < kLicenceKeys.size(); ++i) {
            const std::string_view key = kLicenceKeys[i];
            if (line.starts_with(key) && line.substr(key.size()).starts_with(':'))
                values[i] = unquoted(trimmed_line(line.substr(key.size() + 1)));
        }
    }
    std::string made;
    if (!is_licence(values[0])) return made;  // the others mean nothing without it
    for (size_t i = 0; i < kLicenceKeys.size(); ++i)
        if (is_licence(values[i])) made += fmt::format("{}: {}\n", kLicenceKeys[i], yaml_text(values[i]));
    return made;
}

std::string setting(const RunState& state, const std::string& key) {
    const auto found = state.identity.settings.find(key);
    return found == state.identity.settings.end() || found->second == "null" ? "" : found->second;
}

std::string front_matter(const CardSource& source, const RunState& state) {
    std::string made = "---\n";
    if (!source.base_id.empty()) made += fmt::format("base_model: {}\n", yaml_text(source.base_id));
    made += fmt::format("library_name: {}\n", source.is_adapter ? "peft" : "transformers");
    made += licence_lines(source.base_readme);
    made += fmt::format("tags:\n- windlass\n- {}\n", yaml_text(state.identity.method));
    if (const std::string adapter = setting(state, "adapter"); !adapter.empty() && adapter.find('/') == adapter.npos)
        made += fmt::format("- {}\n", yaml_text(adapter));
    if (!source.objective.empty()) made += fmt::format("- {}\n", yaml_text(source.objective));
    return made + "---\n\n";
}

// A table, a row for each value that is known.
class CardTable {
  public:
    void add(std::string_view name, const std::string& value) {
        if (!value.empty()) text_ += fmt::format("| {} | {} |\n", name, value);
    }
    std::string text() const { return "| | |\n| --- | --- |\n" + text_; }

  private:
    std::string text_;
};

std::string file_names(const std::vector<std::string>& paths) {
    std::string made;
    for (size_t i = 0; i < std::min(paths.size(), kDataNamesShown); ++i)
        made += fmt::format("{}{}", made.empty() ? "" : ", ", plain(paths[i].substr(paths[i].rfind('/') + 1)));
    const auto more = std::ssize(paths) - static_cast<std::ptrdiff_t>(kDataNamesShown);
    return more > 0 ? fmt::format("{} and {} more", made, more) : made;
}

std::string adapter_text(const RunState& state) {
    const std::string adapter = setting(state, "adapter");
    if (adapter.empty()) return "";
    if (adapter.find('/') != adapter.npos) return "continued from another adapter";
    if (adapter != "lora") return plain(adapter);
    return fmt::format("lora, rank {}, alpha {}", plain(setting(state, "lora_r")), plain(setting(state, "lora_alpha")));
}

std::string optimizer_text(const RunState& state) {
    std::string made;
    for (const char* key : {"weight_decay", "max_grad_norm"})
        made += fmt::format("{}{} {}", made.empty() ? "" : ", ", key, setting(state, key));
    if (state.identity.method.find("adam") == std::string::npos) return plain(made);
    for (const char* key : {"adam_beta1", "adam_beta2", "adam_epsilon"})
        made += fmt::format(", {} {}", key, setting(state, key));
    return plain(made);
}

std::string trained_text(const CardSource& source, const RunState& state) {
    const RunProgress& progress = state.progress;
    const Identity& identity = state.identity;
    const LrSchedule& schedule = identity.schedule;
    CardTable rows;
    rows.add("base", source.base_revision.empty()
                         ? plain(source.base_id)
                         : fmt::format("{}, revision {}", plain(source.base_id), plain(source.base_revision)));
    rows.add("method", plain(identity.method));
    rows.add("adapter", adapter_text(state));
    rows.add("objective", plain(source.objective));
    rows.add("data", file_names(source.data));
    rows.add("steps", schedule.total_steps > 0 ? fmt::format("{} of {}", progress.step, schedule.total_steps)
                                               : fmt::format("{}", progress.step));
    rows.add("rows in a step", fmt::format("{}", identity.numerics.micro_batch_size * identity.numerics.micro_batches));
    rows.add("tokens", fmt::format("{}", progress.tokens_total));
    if (!identity.numerics.sequence_lengths.empty())
        rows.add("sequence length", fmt::format("{}", std::ranges::max(identity.numerics.sequence_lengths)));
    rows.add("training loss of the last step", fmt::format("{:.4f}", progress.last_loss));
    if (progress.best.step == progress.step && progress.step > 0)
        rows.add(fmt::format("evaluation ({})", plain(progress.best.metric)),
                 fmt::format("{:.4f}", progress.best.value));
    rows.add("learning rate", fmt::format("{}, {}, {}", schedule.peak, plain(schedule.type),
                                          counted(schedule.warmup_steps, "warmup step")));
    rows.add("optimizer", optimizer_text(state));
    rows.add("compute type", std::string(dtype_name(identity.numerics.compute)));
    rows.add("seed", fmt::format("{}", identity.seed));
    return rows.text();
}

// FOLDER is for the reader to replace.
std::string loading_text(const CardSource& source) {
    const std::string python = source.is_adapter ? "from peft import AutoPeftModelForCausalLM\n\n"
                                                   "model = AutoPeftModelForCausalLM.from_pretrained(\"FOLDER\")\n"
                                                 : "from transformers import AutoModelForCausalLM\n\n"
                                                   "model = AutoModelForCausalLM.from_pretrained(\"FOLDER\")\n";
    const std::string command =
        source.has_chat_template ? "windlass chat FOLDER" : "windlass generate FOLDER --prompt \"Once upon a time\"";
    return fmt::format("## Use\n\n```\n{}\n```\n\n```python\n{}```\n", command, python);
}

std::string text_or_none(FileSystem& files, const std::string& folder, const std::string& name) {
    try {
        if (!files.exists(path_in(folder, name)) || !why_not_copied(files, folder, name).empty()) return "";
        return read_text(files, path_in(folder, name), kReadmeBytesMax);
    } catch (const Error&) {
        return "";
    }
}

}  // namespace

std::string model_card(const CardSource& source, const RunState& state) {
    const std::string what = source.is_adapter ? "Adapter" : "Fine-tuned model";
    const std::string title = source.base_id.empty() ? what : fmt::format("{} of {}", what, plain(source.base_id));
    return fmt::format("{}# {}\n\nTrained with Windlass {}.\n\n## Training\n\n{}\n{}\n{}\n",
                       front_matter(source, state), title, WINDLASS_VERSION, trained_text(source, state),
                       loading_text(source), kCardMark);
}

std::string card_of_run(FileSystem& files, const std::string& run_folder, const RunState& state,
                        const OutputSource& source, OutputForm form) {
    CardSource card{
        .base_readme = text_or_none(files, source.base_folder, kCardName),
        .is_adapter = form == OutputForm::usual ? ends_as_adapter(source.model) : form == OutputForm::adapter,
        .has_chat_template =
            !source.chat_template.empty() || files.exists(path_in(source.base_folder, kChatTemplateName))};
    if (run_id_of(files, run_folder) != state.identity.run_id) return model_card(card, state);
    const auto value = [&](const char* key) {
        const std::vector<std::string> values = values_in_run(files, run_folder, key);
        return values.empty() ? "" : values.front();
    };
    const ModelName base = name_of_model(value("model"));
    if (!base.revision.empty()) card.base_id = base.name, card.base_revision = base.revision;
    card.data = values_in_run(files, run_folder, "train_data");
    if (const std::string objective = value("objective"); objective != Config().objective) card.objective = objective;
    return model_card(card, state);
}

}  // namespace windlass
