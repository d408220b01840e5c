#include "persist/export.h"

#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/units.h"

namespace windlass {

ExitCode run_export(const ExportArgs& args, VerbOutput& out) {
    if (args.download && !args.model.empty()) download_model(real_files(), args.model, HubFiles::weights);
    ExportOptions options{
        .source = args.source, .model = args.model, .target = args.target, .overwrite = args.overwrite};
    if (!args.dtype.empty()) {
        options.dtype = export_type_from_name(args.dtype);
        if (!options.dtype)
            throw UserError(ExitCode::usage, "--dtype", "weights are not written as \"{}\"", args.dtype)
                .hint("bf16, f16 or f32");
    }
    options.type = gguf_type_of_flag(args.type);
    if (args.merged == "base") options.form = OutputForm::merged;
    if (args.delta) options.form = OutputForm::adapter;
    if (args.merged == "computed") options.form = OutputForm::merged_as_computed;
    if (!args.max_shard_size.empty()) options.shard_bytes_max = parse_bytes(args.max_shard_size, "--max-shard-size");
    const ExportResult result = export_model(real_files(), options);
    print_folder(out, args.target, result.from, result.step, result.bytes);
    return ExitCode::ok;
}

}  // namespace windlass
