#include "data/chats.h"

#include <algorithm>
#include <ctime>

#include "base/error.h"
#include "base/file_error.h"
#include "base/log.h"
#include "config/choices.h"
#include "data/data.h"
#include "data/generation_config.h"
#include "format/side_files.h"
#include "rows/row_reader.h"

namespace windlass {
namespace {

// A file's first row; nothing if it has none. Faults are left for the reader of the rows to report.
std::optional<Row> first_row(FileSystem& files, const std::string& path, const FieldNames& fields) {
    try {
        RowReader reader(files, path, "");
        const std::optional<RawRow> row = reader.is_text() ? std::nullopt : reader.next();
        if (!row) return std::nullopt;
        RowNotes notes;
        return read_row(row->text, fields, std::nullopt, path, notes, /*alpaca_is_chat=*/true);
    } catch (const UserError&) {
        return std::nullopt;
    }
}

std::optional<ChatTemplateSource> models_template(FileSystem& files, const Config& config) {
    if (std::string own = adapters_template(files, config); !own.empty())
        return ChatTemplateSource{.place = path_in(config.adapter, kChatTemplateName), .text = std::move(own)};
    return copyable_template(files, config.model);
}

// Year-month-day.
std::string date_of(const Config& config) {
    if (!config.template_date.empty()) return config.template_date;
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    return fmt::format("{:04}-{:02}-{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
}

void say_format(FileSystem& files, const Config& config, const ChatFormat& format) {
    std::vector<std::string> ends;
    for (const int32_t id : format.turn_ends()) ends.push_back(format.tokenizer().id_to_token(id));
    log_info("chat template: {}; a turn ends with {}", format.place(), fmt::join(ends, " or "));
    const std::optional<int32_t> end = format.answer_end();
    if (!end || generation_config_with_stop(files, config.model, *end).empty()) return;
    log_info("note: {} ends turns and is not among the model's eos_token_id: what serves it must stop there",
             format.tokenizer().id_to_token(*end));
}

}  // namespace

std::optional<ChatTemplateSource> copyable_template(FileSystem& files, const std::string& folder) {
    std::optional<ChatTemplateSource> found = find_chat_template(files, folder);
    if (!found) return found;
    require_copyable(files, folder, found->place);
    if (!found->tool_use.empty() && found->place == kChatTemplateName)
        require_copyable(files, folder, path_in(kTemplatesName, "tool_use.jinja"));
    return found;
}

std::string adapters_template(FileSystem& files, const Config& config) {
    return is_adapter_name(config.adapter) ? "" : template_beside(files, config.adapter);
}

std::string template_beside(FileSystem& files, const std::string& folder) {
    const std::string path = path_in(folder, kChatTemplateName);
    if (folder.empty() || !files.exists(path)) return "";
    require_copyable(files, folder, kChatTemplateName);
    return read_text(files, path, kChatTemplateBytesMax);
}

std::optional<ChatFormat> open_chat_format(FileSystem& files, const Config& config, const Tokenizer& tokenizer) {
    if (config.chat_template == "none") return std::nullopt;
    const std::optional<ChatTemplateSource> source = is_open(config.chat_template)
                                                         ? models_template(files, config)
                                                         : read_chat_template(files, config.chat_template);
    if (!source) return std::nullopt;
    return ChatFormat(*source, tokenizer, date_of(config));
}

std::optional<ChatFormat> open_chats_of(FileSystem& files, const Config& config, const Tokenizer& tokenizer,
                                        const std::vector<std::string>& paths) {
    const FieldNames fields = rows_options(config).fields;
    bool has_chats = false, has_alpaca = false;
    for (const std::string& path : paths) {
        const std::optional<Row> row = first_row(files, path, fields);
        has_chats |= row && row->is_chat;  // pairs of answers may be, too
        has_alpaca |= row && row->format == RowFormat::alpaca;
    }
    if (!has_chats) return std::nullopt;
    std::optional<ChatFormat> format = open_chat_format(files, config, tokenizer);
    if (format) say_format(files, config, *format);
    if (!format && has_alpaca)
        log_info("no chat template: instructions are written with the classic \"### Instruction\" prompt");
    return format;
}

}  // namespace windlass
