// image_runs.h: whole runs whose folder and working store are in the image of a drive in memory, and what they leave.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tests/fault_files.h"
#include "tests/train/train_fixture.h"

namespace windlass {

// A kind of run.
struct ImageRun {
    const char* name;
    Settings settings;
    // Others that give the same bits: where everything lives. Empty: nothing but the number of threads may differ.
    std::vector<Settings> places = {};
    int sample = kSample;  // deaths that CI tries; fewer of a kind whose files are those of another

    static constexpr int kSample = 4, kFew = 2;
};
void PrintTo(const ImageRun& run, std::ostream* out);

// The kinds of runs that differ in what they keep on a drive.
std::vector<ImageRun> image_runs();

// Everything in a run's folder that does not depend on time or place, by file name: bytes, or of metrics, states and
// reports what a run without a disturbance has as well. Files that hold nothing else are there with an empty text.
using RunFiles = std::map<std::string, std::string>;

class ImageRunTest : public TrainTest {
  protected:
    ImageRunTest();

    std::unique_ptr<FaultFiles> drive() const;
    // A run of this kind in `files`, its changes applied last. Returns how it ended: the exit status.
    int run_in(FileSystem& files, const ImageRun& kind, const Settings& changes);
    // The same until the run is over: it is resumed, or begun anew where nothing was saved yet.
    int finish_in(FileSystem& files, const ImageRun& kind, const Settings& changes);
    // What is in the folders of runs and stores, or in those that are named.
    RunFiles left_in(FileSystem& files, std::initializer_list<const char*> folders = {"run", "ssd"}) const;

    std::string message_;  // of the last run that failed
};

// What differs, a line each; empty where nothing does.
std::string difference(const RunFiles& found, const RunFiles& expected);

}  // namespace windlass
