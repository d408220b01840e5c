#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "train/run_text.h"
#include "train/session.h"

namespace windlass {

ExitCode run_plan(const PlanArgs& args) {
    const Config config = config_from_words(args.words, ConfigUse::plan);
    const Session session = prepare_session(real_files(), config, std::nullopt);
    print_result(args.json ? plan_json(session) : plan_text(session));
    return ExitCode::ok;
}

}  // namespace windlass
