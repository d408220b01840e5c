// death_trials.h: something that changes a drive dies at any of its changes, loses power there, or has a call fail;
// what is done about it then ends as if nothing had happened.
//
// The process that dies is this one: from the chosen change on every further one fails, which a drive cannot tell from
// a kill.
#pragma once

#include <memory>

#include "tests/train/image_runs.h"

namespace windlass {

class DeathTrials : public ImageRunTest {
  protected:
    // The drive on which it begins.
    virtual std::unique_ptr<FaultFiles> begin() const = 0;
    // Does it, and returns its exit status. `place`: settings that change no bit.
    virtual int act(FileSystem& files, const Settings& place) = 0;
    // What a user does about it if it did not end well. Returns the exit status.
    virtual int act_again(FileSystem& files, const Settings& place) = 0;
    virtual RunFiles left(FileSystem& files) const { return left_in(files); }
    // What must be true of the drive after any death.
    virtual void expect_after_death(FileSystem& /*files*/) const {}
    // What must be left if a call failed and the exit status was 0 all the same.
    virtual RunFiles learnt(RunFiles files, int /*error_number*/) const { return files; }
    // Placements by which trials differ; none: the number of threads alone.
    virtual std::vector<Settings> places() const { return {}; }

    // What is left, and how many changes and calls there are, if nothing disturbs it.
    void know_whole();
    void die_at(int64_t change, int64_t bytes_first);
    void lose_power_at(int64_t change, uint64_t seed);
    void fail_call(int64_t call, int error_number, int64_t bytes_first);

    // Of each sort this many, drawn by a seed that is printed (WINDLASS_SEED=N: the same again).
    void try_some(const char* name, int count);
    void try_all_changes();
    void try_all_calls();

    RunFiles whole_;
    int64_t changes_ = 0, calls_ = 0;

  private:
    Settings another_place(uint64_t index) const;
    void expect_whole(FileSystem& files, uint64_t index);
};

}  // namespace windlass
