#include "tests/train/image_runs.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "format/store.h"
#include "train/train.h"

namespace windlass {
namespace {

constexpr int64_t kImageFileBytesMax = int64_t{64} << 20;
constexpr const char* kImageSteps = "5";

// Steps are saved in pairs, and old ones removed; the last step is none of a checkpoint's.
Settings settings_of_all() {
    return {{"max_steps", kImageSteps},
            {"save_steps", "2"},
            {"save_total_limit", "1"},
            {"report_to", "[jsonl]"},
            {"gradient_accumulation_steps", "1"},
            {"gradient_checkpointing", "false"}};
}

const Settings kPlacedInMemory = {{"policy", "in_memory"}}, kPlacedOnDisk = {{"policy", "three_tier"}},
               kPlacedDeferred = {{"policy", "three_tier"}, {"update_time", "next_forward"}},
               kStreamed = {{"policy", "host_stream"}, {"device", "cpu:emulate"}};
const std::vector<Settings> kBoth = {kPlacedInMemory, kPlacedOnDisk};
constexpr int kFew = ImageRun::kFew;

Settings joined(Settings settings, const Settings& more) {
    for (const auto& [key, value] : more) settings[key] = value;
    return settings;
}

// What a line has of the clock, of memory and of the placement, and the checksum of it all.
constexpr std::string_view kOfAProcess[] = {
    "time", "seconds",   "step_seconds",    "eval_seconds",     "eta_seconds", "predicted_seconds", "tokens_per_second",
    "mfu",  "ram_bytes", "disk_read_bytes", "disk_write_bytes", "redone",      "checksum"};

std::string of_the_run(const std::string& line) {
    Json json = Json::parse(line);
    for (auto each = json.begin(); json.is_object() && each != json.end();)
        each = std::ranges::count(kOfAProcess, each.key()) > 0 ? json.erase(each) : std::next(each);
    return json.dump();
}

std::string lines_of_the_run(const std::string& text) {
    std::string kept;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) kept += of_the_run(line) + '\n';
    return kept;
}

// Weights, masters and state, chunk by chunk: where one is follows from what happened.
std::string chunks_of(FileSystem& files, const std::string& path) {
    const Store store = Store::open(files, path, OpenMode::read);
    const std::unique_ptr<File> file = files.open(path, {});
    std::string all, part;
    for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {
        const int version = store.current_version(chunk);
        for (const Extent& extent : {store.weight_extent(chunk, version), store.state_extent(chunk, version)}) {
            part.resize(static_cast<size_t>(extent.bytes));
            file->read_at(std::as_writable_bytes(std::span(part)), extent.offset);
            all += part;
        }
    }
    return all;
}

// What of a file must be the same.
std::string content_of(FileSystem& files, const std::string& path) {
    const std::filesystem::path name = std::filesystem::path(path).filename();
    if (name == "state.wls") return chunks_of(files, path);
    if (name.extension() == ".jsonl") return lines_of_the_run(read_text(files, path, kImageFileBytesMax));
    if (name.string().starts_with("refresh-")) return of_the_run(read_text(files, path, kImageFileBytesMax));
    const bool is_compared = name.extension() == ".safetensors" || name.extension() == ".wlt" ||
                             name.extension() == ".gguf" || name == "references.json" || name == "adapter_config.json";
    return is_compared ? read_text(files, path, kImageFileBytesMax) : "";
}

void add_files(FileSystem& files, const std::string& folder, const std::string& prefix, RunFiles& found) {
    for (const std::string& name : files.list(folder)) {
        const std::string path = folder + "/" + name;
        if (files.status(path).is_folder)
            add_files(files, path, prefix + name + "/", found);
        else if (!name.ends_with(".lock"))
            found[prefix + name] = content_of(files, path);
    }
}

}  // namespace

void PrintTo(const ImageRun& run, std::ostream* out) {
    *out << run.name;
}

std::vector<ImageRun> image_runs() {
    const Settings log = {{"method", "zeroth_order"}, {"learning_rate", "0.003"}};
    const Settings pairs = {{"objective", "dpo"}, {"train_data", "pairs"}, {"preference_beta", "0.5"}};
    const Settings lsp = {{"adapter", "lsp"}, {"lsp_d", "16"}, {"lsp_refresh", "2"}, {"lsp_samples", "4"}};
    const Settings lora = {{"adapter", "lora"}, {"lora_r", "4"}};
    return {
        {"adamw", {}, {kPlacedInMemory, kPlacedOnDisk, kStreamed, kPlacedDeferred}},
        {"on_disk", kPlacedOnDisk},
        {"deferred", kPlacedDeferred, {}, kFew},
        {"bf16", {{"dtype", "bf16"}, {"gradient_format", "bf16"}}, kBoth, kFew},
        {"int8_state", {{"state_format", "int8"}}, kBoth, kFew},
        {"accumulated", {{"gradient_accumulation_steps", "3"}, {"max_grad_norm", "0.5"}}, kBoth, kFew},
        {"lomo", {{"method", "lomo"}}},
        {"lomo_clipped", {{"method", "lomo"}, {"max_grad_norm", "0.5"}}, {}, kFew},
        {"adalomo_on_disk", joined({{"method", "adalomo"}}, kPlacedOnDisk)},
        {"forward_gradient", {{"method", "forward_gradient"}, {"learning_rate", "0.003"}}},
        {"zeroth_order", log},
        {"zeroth_order_on_disk", joined(log, kPlacedOnDisk)},
        {"zeroth_order_adam", joined(log, {{"zo_optimizer", "adam"}}), {}, kFew},
        {"lora", lora, kBoth},
        {"qlora", {{"adapter", "qlora"}, {"lora_r", "4"}}, {}, kFew},
        {"dora", joined(lora, {{"use_dora", "true"}}), {}, kFew},
        {"ia3", {{"adapter", "ia3"}}, {}, kFew},
        {"tokens", {{"adapter", "trainable_tokens"}, {"trainable_token_indices", "[5, 7]"}}, {}, kFew},
        {"lsp", lsp, kBoth},
        {"lsp_on_disk", joined(lsp, kPlacedOnDisk)},
        {"dpo", pairs},
        {"dpo_lora", joined(pairs, lora), {}, kFew},
        {"orpo", joined(pairs, {{"objective", "orpo"}}), {}, kFew},
        {"best_step",
         {{"eval_data", "eval"},
          {"eval_steps", "1"},
          {"load_best_model_at_end", "true"},
          {"early_stopping_patience", "2"},
          {"sample_prompts", "[abc]"},
          {"sample_max_new_tokens", "3"}},
         kBoth},
        {"exports", {{"export_steps", "2"}}, kBoth},
    };
}

ImageRunTest::ImageRunTest() {
    std::string rows;
    for (const char* const words : {"abc", "fade", "bead cafe", "a face", "dab", "ebb"})
        rows += Json({{"prompt", words}, {"chosen", " deaf"}, {"rejected", " cab cab"}}).dump() + "\n";
    write("pairs.jsonl", rows);
    // The log is written past the file system that tests give a run.
    for (const char* const folder : {"drive/run", "drive/branch"}) std::filesystem::create_directories(at(folder));
    std::filesystem::create_directories(at("drive/ssd"));
    for (const int threads : {1, 2, 3}) {
        for (const std::string& drive : {std::string(), at("drive/ssd")}) know_machine(drive, threads);
    }
}

std::unique_ptr<FaultFiles> ImageRunTest::drive() const {
    auto files = std::make_unique<FaultFiles>(at("drive"));
    files->make_folders(at("drive/ssd"));
    files->sync_folder(at("drive"));
    return files;
}

int ImageRunTest::run_in(FileSystem& files, const ImageRun& kind, const Settings& changes) {
    Settings settings = joined(joined(settings_of_all(), kind.settings), changes);
    for (const char* const key : {"train_data", "eval_data"}) {
        if (settings.contains(key)) settings[key] = "[" + at(settings[key] + ".jsonl") + "]";
    }
    Config config = this->config("drive/run", settings);
    // A run whose store is there finds it again, wherever it is placed then.
    if (!config.ssd_dir.empty() || !kind.places.empty()) config.ssd_dir = at("drive/ssd");
    try {
        const TrainResult result = train(files, config);
        return static_cast<int>(result.code);
    } catch (const Error& error) {
        message_ = error.what();
        return static_cast<int>(error.code());
    }
}

int ImageRunTest::finish_in(FileSystem& files, const ImageRun& kind, const Settings& changes) {
    const int code = run_in(files, kind, joined(changes, {{"resume", "auto"}}));
    // Nothing was saved yet, which is said as any wrong request is.
    return code == static_cast<int>(ExitCode::usage) ? run_in(files, kind, joined(changes, {{"overwrite", "true"}}))
                                                     : code;
}

RunFiles ImageRunTest::left_in(FileSystem& files, std::initializer_list<const char*> folders) const {
    RunFiles found;
    for (const char* const folder : folders) {
        if (files.exists(at(std::string("drive/") + folder)))
            add_files(files, at(std::string("drive/") + folder), std::string(folder) + "/", found);
    }
    return found;
}

namespace {

// The first line that differs of two texts, as each has it.
std::string first_difference(const std::string& found, const std::string& expected) {
    const auto differs = std::ranges::mismatch(found, expected);
    const auto line_of = [](const std::string& text, size_t place) {
        const size_t begin = place == 0 ? 0 : text.rfind('\n', place - 1) + 1;
        return testing::PrintToString(text.substr(begin, std::min(text.find('\n', place), begin + 400) - begin));
    };
    const auto place = static_cast<size_t>(differs.in1 - found.begin());
    return fmt::format("  at byte {} of {}: {}\n  expected, of {}: {}\n", place, found.size(), line_of(found, place),
                       expected.size(), line_of(expected, place));
}

}  // namespace

std::string difference(const RunFiles& found, const RunFiles& expected) {
    std::string text;
    for (const auto& [name, content] : expected) {
        if (!found.contains(name))
            text += name + " is missing\n";
        else if (found.at(name) != content)
            text += name + " is another\n" + first_difference(found.at(name), content);
    }
    for (const auto& [name, content] : found) {
        if (!expected.contains(name)) text += name + " is left over\n";
    }
    return text;
}

}  // namespace windlass
