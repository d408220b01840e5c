#include "data/chat_template.h"

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "text/row_reader.h"
#include "text/tokenizer.h"

namespace windlass {
namespace {

bool is_alpaca(FileSystem& files, const std::string& path, const FieldNames& fields) {
    try {
        RowReader reader(files, path, "");
        const std::optional<RawRow> row = reader.is_text() ? std::nullopt : reader.next();
        return row && read_row(row->text, fields, std::nullopt, path).format == RowFormat::alpaca;
    } catch (const UserError&) {
        return false;
    }
}

}  // namespace

std::string chat_template_file(FileSystem& files, const std::string& folder) {
    for (const char* name : {"chat_template.jinja", "chat_template.json"})
        if (files.exists(folder + "/" + name)) return name;
    const std::string name = "tokenizer_config.json", path = folder + "/" + name;
    if (!files.exists(path)) return "";
    const SortedJson json = parse_sorted_json(read_text(files, path, kTokenizerConfigBytesMax), path, ExitCode::model);
    const bool has = json.is_object() && json.contains("chat_template") && !json["chat_template"].is_null();
    return has ? name : "";
}

void warn_of_unused_template(FileSystem& files, const std::string& folder, const std::vector<std::string>& paths,
                             const FieldNames& fields) {
    const std::string file = chat_template_file(files, folder);
    if (file.empty()) return;
    for (const std::string& path : paths) {
        if (!is_alpaca(files, path, fields)) continue;
        log_warning(
            "{}: the model's chat template ({}) is not used: rows are written with the classic \"### Instruction\" "
            "prompt, which a chat model has not seen. Try: rows of \"prompt\" and \"completion\", the prompt as the "
            "template writes it",
            path, file);
        return;
    }
}

}  // namespace windlass
