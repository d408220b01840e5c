#include "persist/export_request.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/file_error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "persist/run_folder.h"

namespace windlass {
namespace {

constexpr int64_t kTextMax = int64_t{1} << 16;
constexpr auto kPause = std::chrono::milliseconds(50);

std::string request_text(const ExportOptions& options, const std::string& reply) {
    Json json = {{"to", std::filesystem::absolute(options.target).lexically_normal().string()},
                 {"overwrite", options.overwrite},
                 {"reply", reply}};
    if (options.form != OutputForm::usual) json["form"] = output_form_name(options.form);
    if (options.dtype) json["dtype"] = dtype_name(*options.dtype);
    if (options.type) json["type"] = gguf_type_name(*options.type);
    if (options.shard_bytes_max) json["max_shard_bytes"] = *options.shard_bytes_max;
    return json.dump() + "\n";
}

ExportRequest parse_request(std::string_view text, const std::string& run_folder, const std::string& where) {
    ExportRequest request;
    if (text.find_first_not_of(" \t\r\n") == text.npos) return request;
    try {
        const Json json = parse_json(text, where, ExitCode::usage);
        request.options.target = json.at("to").get<std::string>();
        request.options.overwrite = json.value("overwrite", false);
        if (json.contains("dtype")) {
            request.options.dtype = export_type_from_name(json["dtype"].get<std::string>());
            if (!request.options.dtype) throw UserError(ExitCode::usage, where, "names no type of numbers");
        }
        if (json.contains("type")) {
            request.options.type = gguf_type_from_name(json["type"].get<std::string>());
            if (!request.options.type) throw UserError(ExitCode::usage, where, "names no type of a GGUF file");
        }
        if (json.contains("form")) {
            const auto form = output_form_from_name(json["form"].get<std::string>());
            if (!form) throw UserError(ExitCode::usage, where, "names no form of a model");
            request.options.form = *form;
        }
        if (json.contains("max_shard_bytes")) {
            request.options.shard_bytes_max = integer_of(json["max_shard_bytes"]);
            if (!request.options.shard_bytes_max) throw UserError(ExitCode::usage, where, "names no size of files");
        }
        const std::string reply = json.value("reply", std::string());
        if (!reply.empty() && (!reply.starts_with(kExportReplyPrefix) || reply.find('/') != reply.npos))
            throw UserError(ExitCode::usage, where, "expects its answer in {}", reply);
        if (!reply.empty()) request.reply = path_in(run_folder, reply);
    } catch (const nlohmann::json::exception& error) {
        throw UserError(ExitCode::usage, where, "is not a request for an export: {}", excerpt(error.what()));
    }
    return request;
}

// Else it would be skipped each step again.
void remove_if_there(FileSystem& files, const std::string& path) {
    try {
        files.remove_file(path);
    } catch (const Error&) {
        // Gone already, or nobody's to remove.
    }
}

ExportResult parse_answer(std::string_view text, const std::string& where) {
    try {
        const Json json = parse_json(text, where, ExitCode::storage);
        if (json.contains("error"))
            throw Error(static_cast<ExitCode>(json.at("code").get<int>()), json["error"].get<std::string>());
        return {json.at("from").get<std::string>(), json.at("step").get<int64_t>(), json.at("bytes").get<int64_t>()};
    } catch (const nlohmann::json::exception& error) {
        throw UserError(ExitCode::storage, where, "is not an answer: {}", excerpt(error.what()));
    }
}

}  // namespace

std::optional<ExportRequest> read_export_request(FileSystem& files, const std::string& run_folder) {
    const std::string path = path_in(run_folder, kExportRequestName);
    try {
        // Whatever else has that name, a folder of somebody's, asks for nothing.
        if (!files.exists(path) || !files.status(path).is_regular) return std::nullopt;
        const std::string text = read_text(files, path, kTextMax);
        ExportRequest request = parse_request(text, run_folder, path);
        request.is_in_folder = true;
        return request;
    } catch (const Error& error) {
        log_warning("a request for an export is ignored: {}", error.what());
        remove_if_there(files, path);
        return std::nullopt;
    }
}

bool remove_export_request(FileSystem& files, const std::string& run_folder) {
    const std::string path = path_in(run_folder, kExportRequestName);
    try {
        if (files.exists(path)) files.remove_file(path);
        files.sync_folder(run_folder);
        return true;
    } catch (const Error& error) {
        log_warning("the request for an export is not removed: {}", error.what());
        return false;
    }
}

void answer(FileSystem& files, const ExportRequest& request, const ExportResult& result) {
    if (request.reply.empty()) return;
    const Json json = {{"from", result.from}, {"step", *result.step}, {"bytes", result.bytes}};
    write_text_atomic(files, request.reply, json.dump() + "\n");
}

void answer(FileSystem& files, const ExportRequest& request, const Error& refusal) {
    if (request.reply.empty()) return;
    const Json json = {{"error", refusal.what()}, {"code", static_cast<int>(refusal.code())}};
    write_text_atomic(files, request.reply, json.dump() + "\n");
}

std::optional<ExportResult> ask_for_export(FileSystem& files, const std::string& run_folder,
                                           const ExportOptions& options) {
    const std::string request = path_in(run_folder, kExportRequestName);
    if (files.exists(request) && !files.status(request).is_regular)
        throw UserError(ExitCode::usage, request, "lies where the run looks for requests").hint("to move it away");
    if (files.exists(request))
        throw UserError(ExitCode::usage, request, "another export is being asked for already")
            .hint("again when it is done");
    const std::string name = fmt::format("{}{}-{}", kExportReplyPrefix, getpid(), now_ns());
    const std::string reply = path_in(run_folder, name);
    const auto take_answer = [&]() -> std::optional<ExportResult> {
        if (!files.exists(reply)) return std::nullopt;
        const std::string text = read_text(files, reply, kTextMax);
        files.remove_file(reply);
        return parse_answer(text, reply);
    };
    write_text_atomic(files, request, request_text(options, name));
    log_info("{} is training; it writes the export once the step under way is done", run_folder);
    for (bool over = false;;) {
        if (auto result = take_answer()) return result;
        if (over) break;
        std::this_thread::sleep_for(kPause);
        over = lock_idle_run(files, run_folder).has_value();  // looks once more: it may have answered before it ended
    }
    files.remove_tree(request);
    return std::nullopt;
}

}  // namespace windlass
