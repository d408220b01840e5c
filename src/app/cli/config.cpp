#include "app/cli/outline.h"
#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/log.h"
#include "config/config_schema.h"
#include "config/foreign/translate.h"

namespace windlass {

ExitCode run_config(const ConfigArgs& args, VerbOutput& out) {
    const Translation translation = translate_config(real_files(), args.file);
    if (!out.is_text()) {
        Json dropped = Json::array();
        for (const DroppedKey& each : translation.dropped)
            dropped.push_back({{"key", each.key}, {"reason", each.reason}});
        out.result({{"from", translation.tool}, {"yaml", translation.yaml}, {"dropped", dropped}});
        return ExitCode::ok;
    }
    print_result(translation.yaml);
    for (const DroppedKey& each : translation.dropped) log_info("not taken over: {}: {}", each.key, each.reason);
    return ExitCode::ok;
}

ExitCode run_config_schema(VerbOutput& out) {
    const Json schema = config_schema(suggested_values);
    if (out.is_text())
        print_result(schema.dump(2) + "\n");
    else
        out.result({{"schema", schema}});
    return ExitCode::ok;
}

}  // namespace windlass
