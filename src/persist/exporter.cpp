#include "persist/exporter.h"

#include "base/log.h"
#include "base/units.h"
#include "persist/model_card.h"
#include "state/store_masters.h"

namespace windlass {

Exporter::Exporter(FileSystem& files, const Session& session, const RunFolder& folder, Engine& engine)
    : files_(files), session_(session), folder_(folder), engine_(engine) {
    // Without export_steps the plan holds no memory for it; there may be some left all the same.
    const int64_t left = session.request.budgets.ram - session.planned.memory_bytes;
    goes_beside_ = session.planned.plan.store && session.recipe.merge == Merge::each_step &&
                   (session.request.budgets.exporter > 0 || left >= export_memory_bytes(session.model));
}

Exporter::~Exporter() {
    if (job_ == nullptr) return;
    job_->thread.request_stop();
    job_->thread.join();
}

// The request in the folder, unless it is under way.
std::optional<ExportRequest> Exporter::find_request() {
    if (job_ != nullptr && job_->request.is_in_folder) return std::nullopt;
    if (is_answered_) is_answered_ = !remove_export_request(files_, folder_.path());
    return is_answered_ ? std::nullopt : read_export_request(files_, folder_.path());
}

bool Exporter::is_due(int64_t step) {
    if (session_.config.export_steps && step % *session_.config.export_steps == 0) due_.emplace_back();
    if (std::optional<ExportRequest> request = find_request()) due_.push_back(std::move(*request));
    return !due_.empty();
}

bool Exporter::is_missing(int64_t step) {
    const bool has_folder = files_.exists(folder_.file(fmt::format("export-{}", step)));
    if (session_.config.export_steps && step % *session_.config.export_steps == 0 && !has_folder) due_.emplace_back();
    if (std::optional<ExportRequest> request = find_request()) {
        request->reply.clear();  // its asker saw the run end, and took what it left
        due_.push_back(std::move(*request));
    }
    return !due_.empty();
}

void Exporter::begin(int64_t step, const RunState& state) {
    for (ExportRequest& request : std::exchange(due_, {})) {
        if (request.options.target.empty()) {
            request.options.target = folder_.file(fmt::format("export-{}", step));
            request.options.overwrite = true;
        }
        finish();
        start(std::move(request), step, state);
    }
}

void Exporter::start(ExportRequest request, int64_t step, const RunState& state) {
    job_ = std::make_unique<Job>();
    job_->request = std::move(request);
    job_->step = step;
    try {
        job_->card = card_of_run(files_, folder_.path(), state, output_of(session_), job_->request.options.form);
        if (goes_beside_) {
            job_->store = Store::open(files_, session_.store_path, OpenMode::read);
            WINDLASS_CHECK(job_->store->committed_step() == step, "step {} is exported, but {} is committed", step,
                           job_->store->committed_step());
            job_->thread = std::jthread([this, job = job_.get()](std::stop_token stop) { save_beside(*job, stop); });
            return;
        }
        save(*job_, [&](int param, int64_t first, std::span<float> out) { engine_.read_masters(param, first, out); });
    } catch (const Error& error) {
        job_->failure = std::make_unique<Error>(error);
    }
    finish();
}

void Exporter::save(const Job& job, const ReadMasters& masters) const {
    const ExportOptions& options = job.request.options;
    const OutputSource source = output_of(session_);
    save_output(files_, source, options.target,
                {.save = {.dtype = options.dtype,
                          .shard_bytes_max = options.shard_bytes_max,
                          .overwrite = options.overwrite,
                          .card = job.card,
                          .gguf = gguf_output(files_, options, source.base_folder, source.model, source.chat_template)},
                 .form = options.form},
                masters);
}

void Exporter::save_beside(Job& job, const std::stop_token& stop) const {
    try {
        StoreMasters masters(*job.store, session_.model, session_.first_weights());
        save(job, [&](int param, int64_t first, std::span<float> out) {
            if (stop.stop_requested()) throw Error(ExitCode::interrupted, "the run was stopped");
            masters.read(param, first, out);
        });
    } catch (const Error& error) {
        job.failure = std::make_unique<Error>(error);
    } catch (const std::bad_alloc&) {
        job.failure = std::make_unique<Error>(ExitCode::no_fit, "there was no memory for it");
    }
    job.is_done.store(true);
}

void Exporter::before_step() {
    if (job_ == nullptr) return;
    if (job_->had_a_step || job_->is_done.load()) return finish();
    job_->had_a_step = true;
}

void Exporter::finish() {
    if (job_ == nullptr) return;
    if (job_->thread.joinable()) job_->thread.join();
    const std::unique_ptr<Job> job = std::move(job_);
    try {
        report(*job);
    } catch (const Error& error) {
        log_warning("could not report the export of step {}: {}", job->step, error.what());
    }
}

void Exporter::report(const Job& job) {
    const std::string& target = job.request.options.target;
    if (job.request.is_in_folder) is_answered_ = !remove_export_request(files_, folder_.path());
    if (job.failure != nullptr) {
        log_warning("step {} is not exported to {}: {}", job.step, target, job.failure->what());
        return answer(files_, job.request, *job.failure);
    }
    const int64_t bytes = output_bytes(files_, target);
    log_info("exported step {} to {}, {}", job.step, target, format_bytes(bytes));
    answer(files_, job.request, ExportResult{folder_.path(), job.step, bytes});
}

}  // namespace windlass
