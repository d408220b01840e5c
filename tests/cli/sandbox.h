// sandbox.h: a folder for one test, with a model and rows that it may break, and the real programs to run in it.
//
// The models are tiny: "llama_tiny" is made by make_model (bf16, byte tokenizer); any other name is a golden model
// (f32, 96 ids), which gets a tokenizer here, one printable character to an id.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tests/cli/process.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass::cli {

// Exit codes of what a user may do wrong.
inline constexpr int kUsage = static_cast<int>(ExitCode::usage), kModel = static_cast<int>(ExitCode::model),
                     kData = static_cast<int>(ExitCode::data), kNoFit = static_cast<int>(ExitCode::no_fit),
                     kStorage = static_cast<int>(ExitCode::storage), kNoDevice = static_cast<int>(ExitCode::gpu);

// Configuration as key -> value; becomes words key=value.
using Settings = std::map<std::string, std::string>;
std::vector<std::string> words_of(const Settings& settings);

// What follows `head` in its line; empty if the text does not have it.
std::string said_after(const std::string& text, const std::string& head);

// Files as texts.
std::string read_bytes(const std::string& path);
void write_bytes(const std::string& path, std::string_view bytes);
Json read_json(const std::string& path);
void edit_json(const std::string& path, const std::function<void(Json&)>& edit);
// A safetensors file: its header, parsed, and the bytes behind it.
struct Tensors {
    Json header;
    std::string data;
    bool operator==(const Tensors&) const = default;
};
Tensors read_safetensors(const std::string& path);
void edit_safetensors(const std::string& path, const std::function<void(Json& header, std::string& data)>& edit);
// Turns all bits of one byte around; `at` counts from the end where negative.
void flip_byte(const std::string& path, int64_t at);

class Sandbox {
  public:
    Sandbox() = default;
    ~Sandbox();  // what was measured of the machine meanwhile is kept for the next ones
    Sandbox(const Sandbox&) = delete;
    Sandbox& operator=(const Sandbox&) = delete;

    std::string operator/(std::string_view name) const { return folder_ / name; }
    const std::string& path() const { return folder_.path(); }

    // A model of this name in the sandbox, made on the first call. Returns its path.
    std::string model(const std::string& name = "llama_tiny");
    // A file of rows in the sandbox. Returns its path.
    std::string rows(const std::string& name, const std::vector<std::string>& lines);
    // 10 rows that any of the models can learn, of different lengths: ids of a vocabulary of 96.
    std::string token_rows();

    // A short training run into "out": 2 steps of 2 rows, one thread, no checkpoint but the last.
    Settings training(const std::string& model_name = "llama_tiny");
    // The same with the state on disk.
    Settings training_on_disk(const std::string& model_name = "llama_tiny");
    std::string out() const { return *this / "out"; }

    // windlass with these words. Its cache folder is the sandbox's own, and begins with the rates of the machine that
    // earlier sandboxes measured, and with nothing else: neither plans nor rows.
    Command windlass(const std::vector<std::string>& words) const;
    std::string cache() const;  // of windlass in this sandbox; made on the first call
    Command train(const Settings& settings, const std::vector<std::string>& more = {}) const;

  private:
    TempFolder folder_;
};

// Runs it; anything but exit code 0 fails the test.
Finished must_succeed(const Command& command);
// The same for a verb that prints one JSON object with a schema_version.
Json json_of(const Command& command);

// Lines of metrics.jsonl without what is measured: step, epoch, loss, rewards, lr, grad_norm, clipped, tokens.
std::vector<Json> metrics_of(const std::string& run_folder);
// The least device memory that these settings can do with: what the refusal of nearly none advises.
int64_t least_device_memory(const Sandbox& sandbox, Settings settings);
// Files below a folder whose names say that they are unfinished.
std::vector<std::string> unfinished_in(const std::string& folder);

}  // namespace windlass::cli
