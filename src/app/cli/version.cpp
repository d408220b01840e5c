#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "config/preset.h"
#include "device/cpu/isa.h"
#include "text/task.h"

namespace windlass {

ExitCode run_version(const VersionArgs& args) {
    const std::string kernels(isa_name(cpu_isa()));
    std::vector<std::string_view> presets;
    for (const EmbeddedText& preset : preset_texts()) presets.push_back(preset.name);
    std::vector<std::string_view> tasks;
    for (const EmbeddedText& task : task_texts()) tasks.push_back(task.name);
    if (args.json) {
        print_result(Json({{"schema_version", kSchemaVersion},
                           {"version", WINDLASS_VERSION},
                           {"compiler", __VERSION__},
                           {"kernels", kernels},
                           {"devices", {"cpu"}},
                           {"presets", presets},
                           {"tasks", tasks}})
                         .dump(2) +
                     "\n");
    } else {
        print_result(fmt::format("windlass {}\ncompiler {}\nkernels {}\npresets {}\ntasks {}\n", WINDLASS_VERSION,
                                 __VERSION__, kernels, fmt::join(presets, ", "), fmt::join(tasks, ", ")));
    }
    return ExitCode::ok;
}

}  // namespace windlass
