// The state of a run, as checkpoints and stores keep it.
#include "state/run_state.h"

#include "base/error.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_run_state(std::string_view input) {
    const std::string text = run_state_text(parse_run_state(input, "run state"));
    try {
        use(parse_run_state(text, "again"));
    } catch (const Error& error) {
        WINDLASS_CHECK(false, "what was written does not read back: {}", error.what());
    }
}

}  // namespace windlass
