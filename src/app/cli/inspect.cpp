#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/units.h"
#include "format/model_folder.h"
#include "model/families.h"
#include "rows/chat_format.h"
#include "session/run_text.h"
#include "tokenizer/tokenizer.h"

namespace windlass {
namespace {

// What a folder holds, and whether Windlass can work with it.
struct Inspection {
    ModelFolder folder;
    std::optional<ModelSpec> model;
    std::string problem;  // why there is no model
    std::optional<Tokenizer> tokenizer;
    std::string tokenizer_problem;
    std::string chat_template;  // the file that holds it, and what ends a turn; or why it cannot be used
};

std::string describe_template(const std::string& path, const Tokenizer& tokenizer) {
    try {
        const std::optional<ChatTemplateSource> source = find_chat_template(real_files(), path);
        if (!source) return "";
        const ChatFormat format(*source, tokenizer, "2026-01-31");
        std::vector<std::string> ends;
        for (const int32_t id : format.turn_ends()) ends.push_back(tokenizer.id_to_token(id));
        return fmt::format("{}; a turn ends with {}", source->place, fmt::join(ends, " or "));
    } catch (const Error& error) {
        return fmt::format("not usable: {}", error.what());
    }
}

Inspection inspect(const std::string& path, const std::vector<std::string>& ignored_keys) {
    Inspection found{
        .folder = ModelFolder::open(real_files(), path, {.weights_may_be_absent = true, .ignored_keys = ignored_keys})};
    try {
        HfConfig config = found.folder.config();
        found.model = build_model(config, found.folder.tensors());
    } catch (const UserError& error) {
        found.problem = error.what();
    }
    try {
        found.tokenizer = Tokenizer::load(real_files(), path);
        found.chat_template = describe_template(path, *found.tokenizer);
    } catch (const Error& error) {
        found.tokenizer_problem = error.what();
    }
    return found;
}

std::string dtypes_text(const ModelFolder& folder) {
    std::map<std::string, int64_t> bytes;
    for (const TensorPlace& tensor : folder.tensors()) bytes[tensor.dtype_name] += tensor.bytes;
    std::vector<std::string> parts;
    for (const auto& [name, size] : bytes) parts.push_back(fmt::format("{} {}", name, format_bytes(size)));
    return fmt::format("{}", fmt::join(parts, ", "));
}

// What the folder holds, or what config.json alone says of weights that are not there.
std::string weights_text(const Inspection& found) {
    if (!found.folder.tensors().empty())
        return fmt::format("{} in {}: {}", format_bytes(found.folder.total_bytes()),
                           counted(std::ssize(found.folder.shard_files()), "file"), dtypes_text(found.folder));
    if (!found.model) return "not in the folder";
    const DType type = files_type(*found.model);
    const bool is_said = found.folder.config().has({"dtype", "torch_dtype"});
    return fmt::format("not in the folder; {} as {}, {}", format_bytes(found.model->param_count() * dtype_bytes(type)),
                       dtype_name(type), is_said ? "which config.json names" : "since config.json names no type");
}

std::string text_of(const Inspection& found, const InspectArgs& args) {
    std::vector<std::pair<std::string, std::string>> lines = {{"folder", found.folder.path()},
                                                              {"model type", found.folder.config().model_type()}};
    if (found.model) {
        const ModelSpec& m = *found.model;
        lines.emplace_back("parameters", fmt::format("{} ({})", m.param_count(), format_count(m.param_count())));
        lines.emplace_back("blocks", fmt::format("{}, hidden {}, vocabulary {}, positions {}", m.blocks.size(),
                                                 m.hidden, m.vocab, m.context_length));
    }
    lines.emplace_back("weights", weights_text(found));
    lines.emplace_back("tokenizer", found.tokenizer
                                        ? fmt::format("{} ids, {} of them end a text", found.tokenizer->vocab_size(),
                                                      found.tokenizer->eos_ids().size())
                                        : "not usable: " + found.tokenizer_problem);
    lines.emplace_back("template", found.chat_template.empty() ? "none" : found.chat_template);
    if (found.model) {
        for (const std::string& note : found.model->notes) lines.emplace_back("note", note);
        lines.emplace_back("training", fmt::format("AdamW state {}, see windlass plan",
                                                   format_bytes(found.model->param_count() * 12)));
    }
    lines.emplace_back("supported", found.model ? "yes" : "no: " + found.problem);
    std::string text;
    for (const auto& [name, value] : lines) text += fmt::format("{:<11} {}\n", name, value);
    if (!args.tensors) return text;
    std::vector<std::vector<std::string>> rows = {{"tensor", "dtype", "shape", "bytes", "file"}};
    for (const TensorPlace& t : found.folder.tensors())
        rows.push_back({t.name, t.dtype_name, t.shape.to_string(), std::to_string(t.bytes),
                        found.folder.shard_files()[static_cast<size_t>(t.shard)]});
    return text + "\n" + aligned_table(rows);
}

Json json_of(const Inspection& found, const InspectArgs& args) {
    Json json = {{"folder", found.folder.path()},
                 {"model_type", found.folder.config().model_type()},
                 {"supported", found.model.has_value()},
                 {"bytes", found.folder.total_bytes()},
                 {"files", found.folder.shard_files()}};
    if (found.model) {
        const ModelSpec& m = *found.model;
        json.update({{"family", m.family},
                     {"parameters", m.param_count()},
                     {"blocks", m.blocks.size()},
                     {"hidden", m.hidden},
                     {"vocab", m.vocab},
                     {"context_length", m.context_length},
                     {"notes", m.notes}});
    } else {
        json["problem"] = found.problem;
    }
    if (found.tokenizer)
        json["tokenizer"] = {{"ids", found.tokenizer->vocab_size()}, {"eos_ids", found.tokenizer->eos_ids()}};
    else
        json["tokenizer_problem"] = found.tokenizer_problem;
    json["chat_template"] = !found.chat_template.empty();
    for (const TensorPlace& t : found.folder.tensors()) {
        if (!args.tensors) break;
        const auto dims = t.shape.dims();
        json["tensors"].push_back({{"name", t.name},
                                   {"dtype", t.dtype_name},
                                   {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                                   {"bytes", t.bytes}});
    }
    return json;
}

}  // namespace

ExitCode run_inspect(const InspectArgs& args, VerbOutput& out) {
    const Inspection found =
        inspect(model_folder(args.model,
                             download_of(args.download, args.tensors ? HubFiles::weights : HubFiles::configuration)),
                args.ignored_keys);
    const ExitCode code = found.model ? ExitCode::ok : ExitCode::model;
    if (out.is_text())
        print_result(text_of(found, args));
    else
        out.result(json_of(found, args), code);
    return code;
}

}  // namespace windlass
