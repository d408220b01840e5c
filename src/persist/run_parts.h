// run_parts.h: the parts of a run. One begins with the run, and one each time it is resumed (docs/format/run_id.md).
//
// run.yaml lists them, and each state names the part that wrote it. So a working store that a resumed run did not
// continue from is known when it turns up again: its step may be later than any other, but it is of a history that the
// run has left.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "state/run_state.h"

namespace windlass {

struct RunPart {
    std::string id;     // 16 hexadecimal digits
    int64_t after = 0;  // the step that it continues from
    bool operator==(const RunPart&) const = default;
};

// Those that a folder's run.yaml lists, in order; none where it lists none. UserError(storage) if the line is damaged.
std::vector<RunPart> parts_in_run(FileSystem& files, const std::string& run_folder);
// The line of run.yaml that lists them.
std::string parts_line(const std::vector<RunPart>& parts);

// With a new part, of a run that continues from `last` at `step`, to which its log may lead from there: parts that
// began later are of a history that is left with this.
std::vector<RunPart> with_next_part(std::vector<RunPart> parts, const RunState& last, int64_t step);

// UserError(storage) naming the state if the run has left the history that it is of. A state without a part, and a run
// without a list, are of an older build, or were moved: nothing is known of them.
void require_own_part(const std::vector<RunPart>& parts, const RunState& state, const std::string& path,
                      std::string_view remedy);

}  // namespace windlass
