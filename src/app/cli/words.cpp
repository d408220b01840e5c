#include "app/cli/words.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "app/cli/output.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/standard_streams.h"
#include "base/status_line.h"
#include "base/units.h"
#include "config/adapter_place.h"
#include "config/config_keys.h"
#include "config/model_place.h"
#include "rows/data_files.h"
#include "ui/root.h"

namespace windlass {

namespace {

ModelPlace named_place(const std::string& name) {
    ModelPlace place = name.empty() ? ModelPlace() : find_model(real_files(), name);
    if (!place.note.empty()) log_info("note: {}", place.note);
    return place;
}

// A run's own file names the folder of its model, never the id that it was found by: opening it says that it is gone.
bool is_lost_folder(const ConfigSources& sources, const std::string& model) {
    const auto names_it = [&](const ConfigEntry& entry) {
        return entry.of_run && entry.key == "model" && entry.values == std::vector{model};
    };
    return std::ranges::any_of(sources.file, names_it) && !real_files().exists(model);
}

// The model's folder, and the adapter's where one was given as the model.
void take_place(const ConfigSources& sources, Download download, Config& config) {
    ModelPlace place;
    if (download && !config.model.empty()) download_model(real_files(), config.model, *download);
    if (!is_lost_folder(sources, config.model)) {
        place = named_place(config.model);
        config.model = std::move(place.folder);
    }
    if (!place.adapter.empty() && !config.adapter.empty())
        throw UserError(ExitCode::usage, "adapter", "the model is an adapter, {}; {} would be a second", place.adapter,
                        config.adapter)
            .hint("a model without one, which windlass export RUN --merged --to DIR writes");
    if (!place.adapter.empty()) config.adapter = std::move(place.adapter);
    if (!config.adapter.empty() && !is_adapter_name(config.adapter))
        config.adapter_kind = adapter_kind_of(real_files(), config.adapter);
}

}  // namespace

namespace {

std::vector<std::string> kept_within;

// "RUN@3" is a run's folder too.
void check_name(const Root& root, const std::string& name, std::string_view key) {
    if (name.empty()) return;
    root.checked(name, key);
    if (const size_t at = name.rfind('@'); at != name.npos && at > 0) root.checked(name.substr(0, at), key);
}

void check_names(const Config& config) {
    if (kept_within.empty()) return;
    const Root root(kept_within.front(), {kept_within.begin() + 1, kept_within.end()});
    for (const ConfigKey& key : config_keys()) {
        if (!key.names_files) continue;
        if (const auto* text = std::get_if<std::string Config::*>(&key.field))
            check_name(root, config.**text, key.name);
        if (const auto* list = std::get_if<std::vector<std::string> Config::*>(&key.field))
            for (const std::string& each : config.**list) check_name(root, each, key.name);
    }
}

}  // namespace

void keep_within(const std::vector<std::string>& folders) {
    kept_within = folders;
}

Config config_from_words(const std::vector<std::string>& words, ConfigUse use, Download download) {
    const ConfigSources sources = read_config_sources(real_files(), words);
    for (const std::string& warning : sources.warnings) log_warning("{}", warning);
    const ReadConfig read = make_config(sources, use, [&](Config& config) { take_place(sources, download, config); });
    for (const std::string& note : read.notes) log_info("note: {}", note);
    Config config = read.config;
    check_names(config);
    config.train_data = find_data_files(real_files(), config.train_data, RowsUse::train);
    config.eval_data = find_data_files(real_files(), config.eval_data, RowsUse::evaluate);
    check_names(config);  // files that a folder holds may be links
    return config;
}

Download download_of(bool is_given, HubFiles which) {
    return is_given ? Download(which) : std::nullopt;
}

std::string model_folder(const std::string& name, Download download) {
    if (download && !name.empty()) download_model(real_files(), name, *download);
    return named_place(name).folder;
}

std::vector<std::string> name_model(std::vector<std::string> words) {
    if (!words.empty() && !words[0].starts_with("-") && words[0].find('=') == std::string::npos)
        words[0] = "model=" + words[0];
    return words;
}

namespace {

constexpr auto kPatience = std::chrono::seconds(5);  // of a run's result, with a reader that takes nothing

void write_whole(const std::string& text) {
    clear_status();  // a terminal shows both streams
    if (outlives_readers()) {
        const int error_number = BoundedOutput(STDOUT_FILENO).write(text, kPatience).error_number;
        if (error_number != 0) throw MachineError("write", "stdout", error_number);
        return;
    }
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        throw MachineError("write", "stdout", errno);
}

}  // namespace

void print_result(const std::string& text) {
    write_whole(printable(text));
}

void print_prose(const std::string& text) {
    static const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
    write_whole(is_terminal ? printable_prose(text) : text);
}

void print_colored(const std::string& text) {
    write_whole(text);
}

std::optional<GgufType> gguf_type_of_flag(const std::string& name) {
    if (name.empty()) return std::nullopt;
    const std::optional<GgufType> type = gguf_type_from_name(name);
    if (!type)
        throw UserError(ExitCode::usage, "--type", "GGUF files are not written as \"{}\"", name)
            .hint("f32, f16, bf16 or q8_0");
    return type;
}

void print_folder(VerbOutput& out, const std::string& folder, const std::string& from, std::optional<int64_t> step,
                  int64_t bytes) {
    const std::string of = step ? fmt::format("step {} of ", *step) : "";
    if (out.is_text()) return print_result(fmt::format("{}: {}{}, {}\n", folder, of, from, format_bytes(bytes)));
    Json result = {{"folder", folder}, {"from", from}, {"bytes", bytes}};
    if (step) result["step"] = *step;
    out.result(result);
}

}  // namespace windlass
