#include "state/save_output.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "config/model_place.h"
#include "format/adapter_folder.h"
#include "format/model_folder.h"
#include "model/adapters/adapter.h"
#include "model/adapters/peft.h"
#include "model/adapters/whole.h"
#include "model/gguf.h"
#include "model/load.h"

namespace windlass {
namespace {

constexpr int64_t kGroupElements = int64_t{1} << 14;  // whole groups of every type that weights are kept in

// What the run computes with: numbers as they are kept.
void as_kept(const Param& param, std::span<float> numbers) {
    std::vector<std::byte> kept(static_cast<size_t>(stored_bytes(param.storage.dtype, kGroupElements)));
    while (!numbers.empty()) {
        const std::span<float> some = numbers.first(std::min<size_t>(numbers.size(), kGroupElements));
        const auto bytes = static_cast<size_t>(stored_bytes(param.storage.dtype, std::ssize(some)));
        encode_kept(param, some, std::span(kept).first(bytes));
        decode_kept(param.storage, std::span(kept).first(bytes), 0, some);
        numbers = numbers.subspan(some.size());
    }
}

// Of what is not trained the numbers that the run computes with. References outlive what is returned.
ReadMasters as_computed(const TrainedModel& model, const ReadMasters& masters) {
    return [&](int index, int64_t first, std::span<float> out) {
        masters(index, first, out);
        const Param param = model.param(index);
        if (!param.spec.added && !param.changes()) as_kept(param, out);
    };
}

// Numbers that a reader refuses are not written. References outlive what is returned.
ReadMasters finite(const ModelSpec& model, const ReadMasters& masters) {
    return [&](int index, int64_t first, std::span<float> out) {
        constexpr float kRoundsToInfinity = 0x1.ffp127f;  // as bf16; an f32 hardly holds more
        masters(index, first, out);
        const auto bad = std::ranges::find_if(out, [](float value) { return !(std::abs(value) < kRoundsToInfinity); });
        if (bad == out.end()) return;
        throw UserError(ExitCode::model, model.params[at(index)].name,
                        "is {} at element {} once the adapter is added, expected a finite number", *bad,
                        first + (bad - out.begin()))
            .hint("an earlier checkpoint of the adapter");
    };
}

// A model whose table is tied in the base, and is not any longer. masters: by parameter of source.model.
void save_untied(FileSystem& files, const OutputSource& source, const std::string& target, SaveOptions save,
                 const ReadMasters& masters) {
    const UntiedModel plain = untied(source.model);
    save.unties = true;
    std::vector<uint8_t> unchanged;
    for (size_t param = 0; param < plain.from.size() && !save.unchanged.empty(); ++param) {
        // An end that the base's files have under the other's name is written from its numbers.
        const bool is_renamed = plain.model.params[param].name != source.model.params[at(plain.from[param])].name;
        unchanged.push_back(is_renamed ? 0 : save.unchanged[at(plain.from[param])]);
    }
    save.unchanged = std::move(unchanged);
    save_model(files, source.base_folder, target, plain.model, save,
               [&](int param, int64_t first, std::span<float> out) { masters(plain.from[at(param)], first, out); });
}

void save_merged(FileSystem& files, const OutputSource& source, const std::string& target, const OutputOptions& options,
                 const ReadMasters& masters) {
    require_merged(source.model, source.base_folder, options.save.gguf.has_value());
    const ModelFolder base = ModelFolder::open(files, source.base_folder);
    const TrainedModel& model = source.model;
    const ReadMasters parts = [&](int index, int64_t first, std::span<float> out) {
        const Param param = model.param(index);
        if (param.changes() || param.spec.added || param.spec.is_whole) return masters(index, first, out);
        load_elements(base, param.spec, first, out);
        if (options.form == OutputForm::merged_as_computed) as_kept(param, out);
    };
    SaveOptions save = options.save;
    if (save.chat_template.empty()) save.chat_template = source.chat_template;
    if (save.generation_config.empty()) save.generation_config = source.generation_config;
    // The run may have computed with other numbers for any parameter, with an adapter or not.
    if (options.form != OutputForm::merged_as_computed) save.unchanged = without_adapter(model);
    const ReadMasters sums = fused_masters(model, parts, as_computed(model, masters));
    const ReadMasters fused = finite(model, sums);
    if (has_copies(model)) return save_untied(files, source, target, std::move(save), fused);
    save_model(files, source.base_folder, target, model, save, fused);
}

}  // namespace

std::string_view output_form_name(OutputForm form) {
    static constexpr std::array<std::string_view, 4> kNames = {"usual", "adapter", "merged", "merged_as_computed"};
    return kNames[static_cast<size_t>(form)];
}

std::optional<OutputForm> output_form_from_name(std::string_view name) {
    for (const OutputForm form :
         {OutputForm::usual, OutputForm::adapter, OutputForm::merged, OutputForm::merged_as_computed}) {
        if (output_form_name(form) == name) return form;
    }
    return std::nullopt;
}

void require_no_delta(OutputForm form) {
    if (form != OutputForm::adapter) return;
    throw UserError(ExitCode::usage, "--delta",
                    "this run merged its projectors into the weights: it trained a whole model")
        .hint("windlass export without --delta; a run with lsp_refresh: 0 leaves the weights as they are");
}

void require_merged(const ModelSpec& model, const std::string& base_folder, bool as_gguf) {
    require_fusable(model);
    if (as_gguf && has_copies(model))
        refuse_gguf(base_folder, "its tables are tied, and the adapter trained one end apart from the other");
}

bool ends_as_adapter(const ModelSpec& model) {
    return model.adapter && !find_adapter(model.adapter->kind).tunes_whole_model;
}

void save_output(FileSystem& files, const OutputSource& source, const std::string& target, const OutputOptions& options,
                 const ReadMasters& masters) {
    SaveOptions save = options.save;
    if (save.chat_template.empty()) save.chat_template = source.chat_template;
    if (save.generation_config.empty()) save.generation_config = source.generation_config;
    const bool is_usual = options.form == OutputForm::usual;
    const bool as_adapter = is_usual ? ends_as_adapter(source.model) : options.form == OutputForm::adapter;
    if (as_adapter && save.gguf)
        throw UserError(ExitCode::usage, "export", "llama.cpp loads whole models; this run trained an adapter")
            .hint("--merged, which adds the adapter to the base's numbers");
    if (source.model.adapter && !as_adapter) return save_merged(files, source, target, options, masters);
    if (!refreshed_layers(source.model).empty()) require_no_delta(options.form);
    if (!is_usual && !source.model.adapter)
        throw UserError(ExitCode::usage, as_adapter ? "--delta" : "--merged",
                        "this run trained no adapter: what it trained is a whole model")
            .hint(as_adapter ? "windlass export without --delta" : "windlass export without --merged");
    if (!source.model.adapter) {
        save.unchanged = frozen_params(source.model);
        return save_model(files, source.base_folder, target, source.model, save, masters);
    }
    if (save.dtype || save.shard_bytes_max)
        throw UserError(ExitCode::usage, "export", "an adapter is one file of f32 numbers")
            .hint("--merged, for a whole model in another type or in files of another size");
    std::vector<std::string> never_replaced = save.never_replaced;
    never_replaced.push_back(source.base_folder);
    const ModelName base = name_of_model(source.base_folder);
    save_peft(files, target, source.model,
              {.base_name = base.name,
               .base_revision = base.revision,
               .base_checksum = source.base_checksum,
               .chat_template = save.chat_template,
               .card = save.card,
               .overwrite = save.overwrite,
               .never_replaced = std::move(never_replaced)},
              as_computed(source.model, masters));
}

int64_t output_bytes(FileSystem& files, const std::string& folder) {
    if (const FileStatus status = files.status(folder); !status.is_folder) return status.bytes;
    if (!is_adapter_folder(files, folder)) return ModelFolder::open(files, folder).total_bytes();
    const AdapterFolder adapter = AdapterFolder::open(files, folder);
    int64_t bytes = 0;
    for (const TensorEntry& tensor : adapter.tensors()) bytes += tensor.bytes;
    return bytes;
}

}  // namespace windlass
