#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "device/cpu/isa.h"

namespace windlass {

ExitCode run_version(const VersionArgs& args) {
    const std::string kernels(isa_name(cpu_isa()));
    if (args.json) {
        print_result(Json({{"schema_version", kSchemaVersion},
                           {"version", WINDLASS_VERSION},
                           {"compiler", __VERSION__},
                           {"kernels", kernels},
                           {"devices", {"cpu"}}})
                         .dump(2) +
                     "\n");
    } else {
        print_result(fmt::format("windlass {}\ncompiler {}\nkernels {}\n", WINDLASS_VERSION, __VERSION__, kernels));
    }
    return ExitCode::ok;
}

}  // namespace windlass
