// exporter.h: model folders from a run that is still training.
//
// Where the plan has a working store and memory for it, an export runs during one step: it reads the version of each
// chunk that is committed, through a file handle of its own, while the step writes the other one. The step after that
// would write over what is read, so it waits. Elsewhere the engine is read between two steps. Failing to export is a
// warning, and never ends the run.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "format/store.h"
#include "model/save.h"
#include "persist/export_request.h"
#include "persist/run_folder.h"
#include "run/engine.h"
#include "session/session.h"

namespace windlass {

class Exporter {
  public:
    // Everything outlives it.
    Exporter(FileSystem& files, const Session& session, const RunFolder& folder, Engine& engine);
    // Gives up an export that is under way, and removes what it wrote.
    ~Exporter();

    // Whether this step, which was just done, is to be exported: due to export_steps, or to a request.
    bool is_due(int64_t step);
    // Whether a process that was killed after this step left it to be exported.
    bool is_missing(int64_t step);
    // Exports this step, which is committed, and is the last one: the run's state after it.
    void begin(int64_t step, const RunState& state);
    // A step is about to be trained.
    void before_step();
    // Waits for what is under way.
    void finish();

  private:
    struct Job {
        ExportRequest request;
        int64_t step = 0;
        std::string card;
        std::optional<Store> store;
        std::unique_ptr<Error> failure;
        std::atomic<bool> is_done{false};
        bool had_a_step = false;  // trained during it
        std::jthread thread;
    };
    std::optional<ExportRequest> find_request();
    void start(ExportRequest request, int64_t step, const RunState& state);
    void save(const Job& job, const ReadMasters& masters) const;
    void save_beside(Job& job, const std::stop_token& stop) const;
    void report(const Job& job);

    FileSystem& files_;
    const Session& session_;
    const RunFolder& folder_;
    Engine& engine_;
    bool goes_beside_;
    std::vector<ExportRequest> due_;
    bool is_answered_ = false;  // the request in the folder, which could not be removed
    std::unique_ptr<Job> job_;  // under way during a step
};

}  // namespace windlass
