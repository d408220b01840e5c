// Tasks, and rows that are put into words by them.
#include "task/task.h"

#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_task(std::string_view input) {
    const std::vector<InputFile> parts = split_input(input, "task.json");
    const TaskSpec task = parse_task(parts.front().bytes, "task.json");
    const std::string_view given = part_of(parts, "row.json");
    const TaskRow row =
        read_task_row(task, given.empty() ? R"({"sentence": "It is good", "label": 1})" : given, "row.json");
    use(judged_part(task, row.prompt));
}

}  // namespace windlass
