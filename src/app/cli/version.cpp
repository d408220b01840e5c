#include "app/cli/libraries.h"
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

namespace {

Json libraries_json() {
    Json all = Json::array();
    for (const Library& each : libraries()) {
        Json library = {{"name", each.name}, {"licence", each.licence}};
        if (!each.version.empty()) library["version"] = each.version;
        all.push_back(library);
    }
    return all;
}

// "fmt 9.1.0, ...".
std::string libraries_line() {
    std::vector<std::string> names;
    for (const Library& each : libraries())
        if (!each.version.empty()) names.push_back(fmt::format("{} {}", each.name, each.version));
    return fmt::format("{}", fmt::join(names, ", "));
}

std::string licences_text() {
    std::string text = fmt::format("{:<32}{}\n", fmt::format("windlass {}", WINDLASS_VERSION), "Apache-2.0");
    for (const Library& each : libraries())
        text += fmt::format(
            "{:<32}{}\n", each.version.empty() ? std::string(each.name) : fmt::format("{} {}", each.name, each.version),
            each.licence);
    return text +
           "\nTheir texts are in share/doc/windlass/libraries of the archive and the wheel, and on Debian in "
           "/usr/share/doc/PACKAGE/copyright.\n";
}

}  // namespace

ExitCode run_version(const VersionArgs& args, VerbOutput& out) {
    if (args.licences && out.is_text()) return print_result(licences_text()), ExitCode::ok;

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
                    {"build_type", WINDLASS_BUILD_TYPE},
                    {"kernels", kernels},
                    {"products", products},
                    {"devices", has_cuda ? Json::array({"cpu", "cuda"}) : Json::array({"cpu"})},
                    {"cuda", {{"built", has_cuda}, {"text", cuda_build()}}},
                    {"libraries", libraries_json()},
                    {"presets", presets},
                    {"tasks", tasks}});
    } else {
        print_result(fmt::format(
            "windlass {}\ncommit {}\ncompiler {}\nbuild {}\ndevices {}\nkernels {}\nproducts {}\ncuda {}{}\n"
            "libraries {}\npresets {}\ntasks {}\n",
            WINDLASS_VERSION, commit.empty() ? "unknown" : commit, __VERSION__, WINDLASS_BUILD_TYPE,
            has_cuda ? "cpu, cuda" : "cpu", kernels, products, has_cuda ? "" : "not built: ", cuda_build(),
            libraries_line(), fmt::join(presets, ", "), fmt::join(tasks, ", ")));
    }
    return ExitCode::ok;
}

}  // namespace windlass
