#include "train/run_yaml.h"

#include "persist/run_identity.h"

namespace windlass {
namespace {

Config resolved_config(const Session& session) {
    Config config = session.config;
    config.per_device_train_batch_size = session.numerics().micro_batch_size / session.rows_per_example();
    config.gradient_accumulation_steps = session.numerics().micro_batches;
    config.directions = session.method_options.directions;
    config.dtype = dtype_name(session.numerics().compute);
    config.state_format = state_format_name(session.numerics().state_format);
    if (!session.data->template_date().empty()) config.template_date = session.data->template_date();
    config.resume.clear();
    config.branch_from.clear();
    config.allow_changed_settings.clear();
    config.overwrite = false;
    return config;
}

}  // namespace

void write_run_yaml(FileSystem& files, const Session& session, const RunFolder& folder,
                    const std::vector<RunPart>& parts) {
    write_text_atomic(files, folder.file("run.yaml"),
                      with_identity(session.identity, parts, config_to_yaml(resolved_config(session))));
}

std::vector<RunPart> parts_from(FileSystem& files, const RunFolder& folder, const StartPoint& start, bool continues) {
    if (!continues) return with_next_part({}, {}, 0);
    const RunState& last = start.last();
    return with_next_part(parts_in_run(files, folder.path()), last, start.log_to.value_or(last.progress.step));
}

}  // namespace windlass
