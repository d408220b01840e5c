// Machines: profiles and kept rates.
#include "base/error.h"
#include "schedule/machine_text.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_machine(std::string_view input) {
    const std::string text = machine_text(parse_machine(input, "machine.txt"));
    try {
        use(machine_text(parse_machine(text, "again.txt")));
    } catch (const Error& error) {
        WINDLASS_CHECK(false, "what was written does not read back: {}", error.what());
    }
}

}  // namespace windlass
