#include "persist/run_parts.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_error.h"
#include "base/json.h"
#include "config/config.h"
#include "persist/run_identity.h"

namespace windlass {
namespace {

constexpr std::string_view kPartsLine = "# parts ";
constexpr size_t kPartIdDigits = 16;

std::vector<RunPart> parse_parts(std::string_view text, const std::string& path) {
    try {
        std::vector<RunPart> parts;
        for (const Json& part : parse_json(text, path, ExitCode::storage))
            parts.push_back({part.at(0).get<std::string>(), integer_of(part.at(1)).value()});
        return parts;
    } catch (const nlohmann::json::exception&) {
    } catch (const std::bad_optional_access&) {
    }
    throw UserError(ExitCode::storage, path, "the line \"{}...\" is damaged: it is no list of ids and steps",
                    kPartsLine)
        .hint("remove that line, if you know that all checkpoints are of this run");
}

}  // namespace

std::vector<RunPart> parts_in_run(FileSystem& files, const std::string& run_folder) {
    const std::string path = path_in(run_folder, "run.yaml");
    if (!files.exists(path)) return {};
    const std::string yaml = read_text(files, path, kConfigBytesMax);
    const std::vector<std::string_view> found = lines_that_begin(yaml, kPartsLine);
    return found.empty() ? std::vector<RunPart>() : parse_parts(found.front(), path);
}

std::string parts_line(const std::vector<RunPart>& parts) {
    Json list = Json::array();
    for (const RunPart& part : parts) list.push_back({part.id, part.after});
    return fmt::format("{}{}\n", kPartsLine, list.dump());
}

std::vector<RunPart> with_next_part(std::vector<RunPart> parts, const RunState& last, int64_t step) {
    if (parts.empty() && !last.identity.part_id.empty()) parts.push_back({last.identity.part_id, 0});
    std::erase_if(parts, [&](const RunPart& part) { return part.after > step; });
    parts.push_back({new_run_id().substr(0, kPartIdDigits), step});
    return parts;
}

void require_own_part(const std::vector<RunPart>& parts, const RunState& state, const std::string& path,
                      std::string_view remedy) {
    const std::string& id = state.identity.part_id;
    if (parts.empty() || id.empty()) return;
    const int64_t step = state.progress.step;
    const auto part = std::ranges::find(parts, id, &RunPart::id);
    if (part == parts.end())
        throw UserError(ExitCode::storage, path,
                        "is of step {} of a history that this run has left: part {} wrote it, which run.yaml does not "
                        "list",
                        step, id)
            .hint(remedy);
    if (part + 1 == parts.end() || step <= (part + 1)->after) return;
    throw UserError(ExitCode::storage, path,
                    "is of step {} of a history that this run has left: the run was resumed after step {} without it",
                    step, (part + 1)->after)
        .hint(remedy);
}

}  // namespace windlass
