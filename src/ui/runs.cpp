#include "ui/runs.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "ui/json_line.h"

namespace windlass {
namespace {

constexpr int64_t kPartBytesMax = 1 << 20;
constexpr std::chrono::milliseconds kSharePause(10);

struct RunFile {
    std::string_view name, file;
    bool has_lines;
};
constexpr std::array kRunFiles = {RunFile{"metrics", "metrics.jsonl", true}, RunFile{"events", "events.jsonl", true},
                                  RunFile{"samples", "samples.jsonl", true}, RunFile{"log", "log.txt", false}};

const RunFile& run_file_of(std::string_view name) {
    for (const RunFile& each : kRunFiles)
        if (each.name == name) return each;
    throw HttpRefusal(404, "file", "a run has no \"{}\" here", name);
}

int64_t byte_of(const std::string& text) {
    int64_t byte = 0;
    const char* const end = text.data() + text.size();
    if (const auto [at, error] = std::from_chars(text.data(), end, byte);
        !text.empty() && (error != std::errc() || at != end))
        throw HttpRefusal(400, "from", "\"{}\" is no number of a byte", text);
    return byte;
}

// A line that is being written is left for the next time; one that is longer than a part is cut.
void keep_whole_lines(PartOfFile& part) {
    const size_t last = part.bytes.rfind('\n');
    if (last != std::string::npos)
        part.bytes.resize(last + 1);
    else if (std::ssize(part.bytes) < kPartBytesMax)
        part.bytes.clear();
}

// A run's status and its settings, which the verb prints as one object, and its run.yaml.
std::string description(const std::string& printed, PartOfFile yaml) {
    Json status = parse_json(printed, "status", ExitCode::internal);
    Json settings = status.contains("settings") ? status["settings"] : Json::object();
    status.erase("settings");
    const Json body = {
        {"status", std::move(status)}, {"settings", std::move(settings)}, {"yaml", std::move(yaml.bytes)}};
    return json_line(body) + "\n";
}

HttpReply part_reply(const RunFile& file, PartOfFile part) {
    const int64_t end = part.begin + std::ssize(part.bytes);
    return {.type = file.has_lines ? "application/x-ndjson" : "text/plain; charset=utf-8",
            .body = std::move(part.bytes),
            .headers = {{"X-Start-Byte", std::to_string(part.begin)}, {"X-Next-Byte", std::to_string(end)}}};
}

HttpReply taken() {
    return {.status = 202, .body = "{}\n"};
}

}  // namespace

Task<VerbResult> Runs::list() {
    const bool shares = is_listing_;
    while (is_listing_) co_await pause(kSharePause);
    if (shares && !listed_.text.empty()) co_return listed_;  // else that one failed
    is_listing_ = true;
    listed_ = {};
    try {
        listed_ = co_await verbs_.result(words_of("runs", "."));
        const Json json = parse_json(listed_.text, "runs", ExitCode::internal);
        if (const auto runs = json.find("runs"); runs != json.end()) {
            places_.clear();
            for (const Json& run : *runs)
                places_.emplace(run.value("run_id", ""),
                                Place{run.value("folder", ""), run.value("state", "") == "training"});
        }
    } catch (...) {
        is_listing_ = false;
        throw;
    }
    is_listing_ = false;
    co_return listed_;
}

std::string Runs::checked(const std::string& id, const Place& place) const {
    if (id.empty()) throw HttpRefusal(404, "run", "has no id");
    return "./" + root_.checked(place.folder, "run");
}

Task<std::string> Runs::folder_of(std::string id) {
    if (!places_.contains(id)) co_await list();
    const auto [begin, end] = places_.equal_range(id);
    if (begin == end) throw HttpRefusal(404, "run", "there is no run {} beneath {}", id, root_.folder());
    const auto trains = std::find_if(begin, end, [](const auto& each) { return each.second.trains; });
    co_return checked(id, (trains == end ? begin : trains)->second);
}

Task<std::string> Runs::folder_to_change(std::string id) {
    co_await list();
    const std::string folder = co_await folder_of(id);
    const auto [begin, end] = places_.equal_range(id);
    const bool trains = std::any_of(begin, end, [](const auto& each) { return each.second.trains; });
    if (std::distance(begin, end) > 1 && !trains)
        throw HttpRefusal(409, "run", "{} folders are of run {}: {} and others", std::distance(begin, end), id, folder);
    co_return folder;
}

Task<HttpReply> Runs::describe(std::string id) {
    const std::string folder = co_await folder_of(std::move(id));
    VerbResult printed = co_await verbs_.result(words_of("status", folder));
    if (printed.status == 200)
        printed.text = description(printed.text, root_.read(folder + "/run.yaml", 0, kPartBytesMax));
    HttpReply reply;
    reply.status = printed.status;
    reply.body = std::move(printed.text);
    co_return reply;
}

Task<HttpReply> Runs::read(std::string id, std::string_view name, std::string from) {
    const RunFile& file = run_file_of(name);
    const int64_t begin = byte_of(from);
    const std::string folder = co_await folder_of(std::move(id));
    PartOfFile part = root_.read(folder + "/" + std::string(file.file), begin, kPartBytesMax);
    if (file.has_lines) keep_whole_lines(part);
    co_return part_reply(file, std::move(part));
}

Task<HttpReply> Runs::ask(std::string id, std::string_view what) {
    const std::string folder = co_await folder_to_change(std::move(id));
    root_.touch(folder + "/" + std::string(what));
    co_return taken();
}

}  // namespace windlass
