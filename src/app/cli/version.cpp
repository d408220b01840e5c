#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "config/preset.h"
#include "device/cpu/isa.h"
#include "device/cuda/runtime.h"
#include "op/gemm.h"
#include "task/task.h"

namespace windlass {

const char* commit_text();  // cmake/commit.cmake

ExitCode run_version(VerbOutput& out) {
    const std::string kernels(isa_name(cpu_isa())), products = product_library(), commit = commit_text();
    const bool has_cuda = find_cuda_runtime() != nullptr;
    std::vector<std::string_view> presets;
    for (const EmbeddedText& preset : preset_texts()) presets.push_back(preset.name);
    std::vector<std::string_view> tasks;
    for (const EmbeddedText& task : task_texts()) tasks.push_back(task.name);
    if (!out.is_text()) {
        out.result({{"version", WINDLASS_VERSION},
                    {"commit", commit.empty() ? Json() : Json(commit)},
                    {"compiler", __VERSION__},
                    {"kernels", kernels},
                    {"products", products},
                    {"devices", has_cuda ? Json::array({"cpu", "cuda"}) : Json::array({"cpu"})},
                    {"cuda", {{"built", has_cuda}, {"text", cuda_build()}}},
                    {"presets", presets},
                    {"tasks", tasks}});
    } else {
        print_result(fmt::format(
            "windlass {}\ncommit {}\ncompiler {}\nkernels {}\nproducts {}\ncuda {}{}\npresets {}\ntasks {}\n",
            WINDLASS_VERSION, commit.empty() ? "unknown" : commit, __VERSION__, kernels, products,
            has_cuda ? "" : "not built: ", cuda_build(), fmt::join(presets, ", "), fmt::join(tasks, ", ")));
    }
    return ExitCode::ok;
}

}  // namespace windlass
