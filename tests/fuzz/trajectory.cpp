// The log of a forward-only run, trajectory.wlt, and the state next to it, trajectory.json.
#include "format/trajectory.h"

#include "persist/trajectory_log.h"
#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/sealed.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_trajectory(std::string_view input) {
    InputFiles folder(input, kTrajectoryName);
    const std::string_view raw = part_of(split_input(input, kTrajectoryName), kTrajectoryName);
    folder.put(kTrajectoryName, sealed_log(raw));
    TrajectoryReader log = TrajectoryReader::open(folder.files(), folder.path(kTrajectoryName), OnDamage::stop);
    if (log.count() > 0) use(log.read(log.last_step()));
    use(log.history_sum(log.last_step()));
    use(noise_of(log.header(), "log"));
    use(logged_state(folder.files(), folder.folder()));
    TrajectoryWriter::open(folder.files(), folder.path(kTrajectoryName)).sync();
}

}  // namespace windlass
