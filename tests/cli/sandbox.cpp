#include "tests/cli/sandbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/error.h"
#include "base/units.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kGoldenVocab = 96;

// The folder that all sandboxes of this program share: models to copy, the rates of the machine.
const std::string& shared_folder() {
    static const TempFolder folder;
    return folder.path();
}

std::string shared_rates() {
    return shared_folder() + "/rates";
}

// What was measured is in texts of the cache folder itself.
void copy_rates(const std::string& from, const fs::path& to) {
    std::error_code ignored;
    fs::create_directories(to, ignored);
    for (const auto& entry : fs::directory_iterator(from, ignored)) {
        if (!entry.is_regular_file(ignored) || entry.path().extension() != ".txt") continue;
        fs::copy_file(entry.path(), to / entry.path().filename(), fs::copy_options::overwrite_existing, ignored);
    }
}

// One printable character to an id; the last id is the end of text.
Json golden_tokenizer() {
    Json vocab = Json::object();
    for (int id = 0; id < kGoldenVocab - 1; ++id) vocab[std::string(1, static_cast<char>(' ' + id))] = id;
    const Json end = {{"id", kGoldenVocab - 1}, {"content", "<end>"},  {"single_word", false}, {"lstrip", false},
                      {"rstrip", false},        {"normalized", false}, {"special", true}};
    return {{"version", "1.0"},
            {"added_tokens", {end}},
            {"normalizer", nullptr},
            {"pre_tokenizer", nullptr},
            {"post_processor", nullptr},
            {"decoder", {{"type", "Fuse"}}},
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
}

std::string make_model(const std::string& name) {
    const std::string folder = fmt::format("{}/{}", shared_folder(), name);
    if (fs::exists(folder)) return folder;
    if (name == "llama_tiny") {
        const std::string program = binary_dir() + "/make_model";
        const Finished made = run({.words = {program, "--shape", "llama-tiny", "--seed", "1", "--out", folder}});
        WINDLASS_CHECK(made.code == 0, "make_model: {}", describe(made));
        return folder;
    }
    fs::copy(fmt::format("{}/tests/golden/{}/model", source_dir(), name), folder, fs::copy_options::recursive);
    write_bytes(folder + "/tokenizer.json", golden_tokenizer().dump());
    write_bytes(folder + "/tokenizer_config.json", R"({"eos_token": "<end>"})");
    return folder;
}

}  // namespace

std::vector<std::string> words_of(const Settings& settings) {
    std::vector<std::string> words;
    for (const auto& [key, value] : settings) words.push_back(fmt::format("{}={}", key, value));
    return words;
}

std::string said_after(const std::string& text, const std::string& head) {
    const size_t at = text.find(head);
    if (at == std::string::npos) return "";
    const size_t begin = at + head.size();
    return text.substr(begin, text.find('\n', begin) - begin);
}

std::string read_bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    WINDLASS_CHECK(file.good(), "cannot read {}", path);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
}

void write_bytes(const std::string& path, std::string_view bytes) {
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    WINDLASS_CHECK(file.good(), "cannot write {}", path);
}

Json read_json(const std::string& path) {
    return parse_json(read_bytes(path), path, ExitCode::internal);
}

void edit_json(const std::string& path, const std::function<void(Json&)>& edit) {
    Json json = read_json(path);
    edit(json);
    write_bytes(path, json.dump(2));
}

Tensors read_safetensors(const std::string& path) {
    const std::string file = read_bytes(path);
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    return {parse_json(std::string_view(file).substr(8, length), path, ExitCode::internal), file.substr(8 + length)};
}

void edit_safetensors(const std::string& path, const std::function<void(Json&, std::string&)>& edit) {
    Tensors tensors = read_safetensors(path);
    edit(tensors.header, tensors.data);
    const std::string text = tensors.header.dump();
    const uint64_t length = text.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    write_bytes(path, bytes + text + tensors.data);
}

void flip_byte(const std::string& path, int64_t at) {
    std::string bytes = read_bytes(path);
    char& byte = bytes.at(static_cast<size_t>(at < 0 ? std::ssize(bytes) + at : at));
    byte = static_cast<char>(~byte);
    write_bytes(path, bytes);
}

// Rates that a run doubted, and forgot, serve later sandboxes all the same: a busy machine would have them measured
// again and again, for seconds each time, and no test depends on how good they are.
Sandbox::~Sandbox() {
    copy_rates(*this / "own-cache/windlass", shared_rates());
}

std::string Sandbox::cache() const {
    const std::string folder = *this / "own-cache";
    if (!fs::exists(folder)) copy_rates(shared_rates(), folder + "/windlass");
    return folder;
}

std::string Sandbox::model(const std::string& name) {
    const std::string folder = *this / name;
    if (!fs::exists(folder)) fs::copy(make_model(name), folder, fs::copy_options::recursive);
    return folder;
}

std::string Sandbox::rows(const std::string& name, const std::vector<std::string>& lines) {
    const std::string path = *this / name;
    write_bytes(path, lines.empty() ? "" : fmt::format("{}\n", fmt::join(lines, "\n")));
    return path;
}

std::string Sandbox::token_rows() {
    std::vector<std::string> lines;
    for (int row = 0; row < 10; ++row) {
        std::vector<int> ids;
        for (int i = 0; i < 8 + (row * 5) % 16; ++i) ids.push_back(3 + (row * 31 + i * (7 + row)) % 90);
        lines.push_back(Json({{"input_ids", ids}}).dump());
    }
    return rows("rows.jsonl", lines);
}

Settings Sandbox::training(const std::string& model_name) {
    return {{"model", model(model_name)},
            {"train_data", token_rows()},
            {"output_dir", out()},
            {"max_steps", "2"},
            {"max_length", "32"},
            {"per_device_train_batch_size", "1"},
            {"gradient_accumulation_steps", "2"},
            {"learning_rate", "1e-3"},
            {"threads", "1"},
            {"report_to", "jsonl"}};
}

Settings Sandbox::training_on_disk(const std::string& model_name) {
    Settings settings = training(model_name);
    settings["policy"] = "three_tier";
    settings["ssd_dir"] = *this / "ssd";
    return settings;
}

Command Sandbox::windlass(const std::vector<std::string>& words) const {
    Command command{
        .words = {binary_dir() + "/windlass"},
        .environment = {{"HOME", shared_folder()}, {"XDG_CACHE_HOME", cache()}, {"OMP_WAIT_POLICY", "PASSIVE"}}};
    command.words.insert(command.words.end(), words.begin(), words.end());
    return command;
}

Command Sandbox::train(const Settings& settings, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train"};
    for (std::string& word : words_of(settings)) words.push_back(std::move(word));
    words.insert(words.end(), more.begin(), more.end());
    return windlass(words);
}

Finished must_succeed(const Command& command) {
    Finished finished = run(command);
    EXPECT_EQ(finished.code, 0) << fmt::format("{}", fmt::join(command.words, " ")) << "\n" << describe(finished);
    return finished;
}

Json json_of(const Command& command) {
    const Finished finished = must_succeed(command);
    if (finished.code != 0) return Json::object();
    Json json = parse_json(finished.out, "stdout", ExitCode::internal);
    EXPECT_EQ(json.value("schema_version", 0), 1);
    return json;
}

std::vector<Json> metrics_of(const std::string& run_folder) {
    const std::string path = run_folder + "/metrics.jsonl";
    std::vector<Json> lines;
    std::string bytes = fs::exists(path) ? read_bytes(path) : "";
    bytes.resize(bytes.rfind('\n') + 1);  // a run that goes on may be in the middle of a line
    std::istringstream text(bytes);
    for (std::string line; std::getline(text, line);) {
        const Json all = parse_json(line, path, ExitCode::internal);
        Json kept;
        for (const char* key : {"step", "epoch", "loss", "lr", "grad_norm", "clipped", "tokens", "tokens_total"})
            kept[key] = all.at(key);
        for (const char* key : {"rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies"})
            if (all.contains(key)) kept[key] = all.at(key);
        lines.push_back(std::move(kept));
    }
    return lines;
}

int64_t least_device_memory(const Sandbox& sandbox, Settings settings) {
    settings["device_memory"] = "10KiB";
    const Finished refused = run(sandbox.train(settings));
    EXPECT_EQ(refused.code, static_cast<int>(ExitCode::no_fit)) << describe(refused);
    EXPECT_NE(refused.err.find("does not fit"), std::string::npos) << describe(refused);
    EXPECT_FALSE(fs::exists(sandbox.out() + "/final"));
    std::smatch found;
    if (std::regex_search(refused.err, found, std::regex("--device-memory ([0-9.]+\\w+)")))
        return parse_bytes(found[1].str(), "--device-memory");
    ADD_FAILURE() << describe(refused);
    return 0;
}

std::vector<std::string> unfinished_in(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.path().filename().string().find(".tmp") != std::string::npos) names.push_back(entry.path().string());
    return names;
}

}  // namespace windlass::cli
