#include "rows/chat_format.h"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/json.h"

namespace windlass {
namespace {

std::string text_of_template(const SortedJson& value, const std::string& where) {
    if (!value.is_string())
        throw UserError(ExitCode::model, where, "the chat template is {} and no text", value.type_name())
            .hint("chat_template: FILE, or none");
    return value.get<std::string>();
}

// "chat_template" of a tokenizer_config.json: one text, or a list of named ones.
std::optional<ChatTemplateSource> source_in(const SortedJson& json, const std::string& name, const std::string& where) {
    if (!json.is_object() || !json.contains("chat_template") || json["chat_template"].is_null()) return std::nullopt;
    const SortedJson& value = json["chat_template"];
    ChatTemplateSource source{.place = name};
    if (!value.is_array()) {
        source.text = text_of_template(value, where);
        return source;
    }
    for (const SortedJson& entry : value) {
        if (!entry.is_object() || !entry.contains("name") || !entry.contains("template"))
            throw UserError(ExitCode::model, where, "\"chat_template\" is not a list of names and templates")
                .hint("chat_template: FILE, or none");
        if (entry["name"] == "default") source.text = text_of_template(entry["template"], where);
        if (entry["name"] == "tool_use") source.tool_use = text_of_template(entry["template"], where);
    }
    if (source.text.empty())
        throw UserError(ExitCode::model, where, "none of the chat templates is called \"default\"")
            .hint("chat_template: FILE");
    return source;
}

// The beginning of the day, in seconds from 1970.
int64_t seconds_of(const std::string& date) {
    int year = 1970, month = 1, day = 1;
    std::sscanf(date.c_str(), "%d-%d-%d", &year, &month, &day);
    const std::chrono::sys_days days{std::chrono::year(year) / month / day};
    return std::chrono::duration_cast<std::chrono::seconds>(days.time_since_epoch()).count();
}

TemplateSettings settings_of(const Tokenizer& tokenizer, const std::string& date) {
    TemplateSettings settings{.now_seconds = seconds_of(date)};
    for (const auto& [name, id] : {std::pair("bos_token", tokenizer.bos()), std::pair("eos_token", tokenizer.eos()),
                                   std::pair("pad_token", tokenizer.pad()), std::pair("unk_token", tokenizer.unk())})
        if (id) settings.special_tokens[name] = tokenizer.id_to_token(*id);
    return settings;
}

// Words that no template writes by itself.
constexpr const char* kQuestion = "QqWordOneqQ";
constexpr const char* kAnswer = "AaWordTwoaA";

// Of a trial, which has two or three messages, and of its template: published ones have 20 KB at most. A longer one
// gets no more, as it is tried some twenty times.
constexpr int64_t kTrialBytes = int64_t{48} << 10;

[[noreturn]] void refuse_hostile(const std::string& place, const TemplateBound& bound) {
    throw UserError(ExitCode::model, place, "the template breaks its bounds with a chat of few words ({})",
                    bound.what());
}

Json probe(bool in_parts, bool asks_again) {
    const auto content = [&](const char* text) {
        return in_parts ? Json::array({{{"type", "text"}, {"text", text}}}) : Json(text);
    };
    Json turns = Json::array(
        {{{"role", "user"}, {"content", content(kQuestion)}}, {{"role", "assistant"}, {"content", content(kAnswer)}}});
    if (asks_again) turns.push_back({{"role", "user"}, {"content", content(kQuestion)}});
    return turns;
}

}  // namespace

std::optional<ChatTemplateSource> find_chat_template(FileSystem& files, const std::string& folder) {
    if (const std::string path = folder + "/chat_template.jinja"; files.exists(path)) {
        ChatTemplateSource source{.place = "chat_template.jinja",
                                  .text = read_text(files, path, kChatTemplateBytesMax)};
        const std::string tools = folder + "/additional_chat_templates/tool_use.jinja";
        if (files.exists(tools)) source.tool_use = read_text(files, tools, kChatTemplateBytesMax);
        return source;
    }
    for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
        const std::string path = folder + "/" + name;
        if (!files.exists(path)) continue;
        const SortedJson json =
            parse_sorted_json(read_text(files, path, kTokenizerConfigBytesMax), path, ExitCode::model);
        if (auto source = source_in(json, name, path)) return source;
    }
    return std::nullopt;
}

ChatTemplateSource read_chat_template(FileSystem& files, const std::string& path) {
    if (!files.exists(path))
        throw UserError(ExitCode::usage, "chat_template", "there is no file \"{}\"", path)
            .hint("auto (the model's own), none, or the path of a .jinja file");
    return {.place = path, .text = read_text(files, path, kChatTemplateBytesMax), .tool_use = ""};
}

ChatFormat::ChatFormat(const ChatTemplateSource& source, const Tokenizer& tokenizer, const std::string& date)
    : tokenizer_(tokenizer),
      place_(source.place),
      text_(source.text),
      date_(date),
      prints_date_((source.text + source.tool_use).find("strftime_now") != std::string::npos),
      default_{.chat_template = ChatTemplate::parse(source.text, source.place)},
      settings_(settings_of(tokenizer, date_)) {
    if (!source.tool_use.empty())
        tool_use_.emplace(Known{.chat_template = ChatTemplate::parse(source.tool_use, source.place + " (tool_use)")});
    const auto hash = [](const std::string& text) { return XXH3_64bits(text.data(), text.size()); };
    description_ = fmt::format("template={:016x},{:016x}", hash(source.text), hash(source.tool_use));
    if (prints_date()) description_ += " date=" + date;
    settings_.limits = limits_for(kTrialBytes);
    try {
        find_turn_ends();
        describe_special_tokens();
        find_out(default_);
        if (tool_use_) find_out(*tool_use_);
    } catch (const TemplateBound& bound) {
        refuse_hostile(place_, bound);
    }
    settings_.limits.reset();
}

// Those that the template may write, and those that end turns.
void ChatFormat::describe_special_tokens() {
    for (const auto& [name, text] : settings_.special_tokens) {
        if (default_.chat_template.names(name) || (tool_use_ && tool_use_->chat_template.names(name)))
            description_ += fmt::format(" {}={}:{}", name, text.size(), text);
    }
    description_ += fmt::format(" ends={}", fmt::join(turn_ends_, ","));
    if (last_end_) description_ += fmt::format(" last_end={}", *last_end_);
}

RenderedChat ChatFormat::render(const ChatToRender& chat, std::string_view where) const {
    static const Json kNone;
    return render_by(known_for(chat.tools ? *chat.tools : kNone).chat_template, chat, where);
}

RenderedChat ChatFormat::render_by(const ChatTemplate& chat_template, ChatToRender chat, std::string_view where) const {
    if (chat.tools && chat.tools->is_null()) chat.tools = nullptr;
    if (!wants_parts_) return chat_template.render(chat, settings_, where);
    Json in_parts = *chat.messages;
    for (Json& message : in_parts)
        if (message.contains("content") && message["content"].is_string())
            message["content"] = Json::array({{{"type", "text"}, {"text", message["content"]}}});
    chat.messages = &in_parts;
    return chat_template.render(chat, settings_, where);
}

void ChatFormat::find_out(Known& known) const {
    const TryTemplate write = [&](const Json& messages, const Json* tools) -> std::optional<std::string> {
        try {
            return render_by(known.chat_template, {.messages = &messages, .tools = tools}, place_).text;
        } catch (const TemplateBound&) {
            throw;
        } catch (const UserError&) {
            return std::nullopt;  // its rows will say why
        }
    };
    known.calls = find_call_style(write);
    known.writes_whole_messages = writes_whole_messages(write);
}

void ChatFormat::adapt(Json& messages, const std::vector<MessageForm>& forms, const Json& tools) const {
    adapt_calls(messages, forms, known_for(tools).calls);
}

const ChatFormat::Known& ChatFormat::known_for(const Json& tools) const {
    return tool_use_ && !tools.is_null() ? *tool_use_ : default_;
}

bool ChatFormat::marks_generation(const Json& tools) const {
    return known_for(tools).chat_template.marks_generation();
}

bool ChatFormat::reads_variable(std::string_view name, const Json& tools) const {
    return known_for(tools).chat_template.names(name);
}

bool ChatFormat::reads_member(std::string_view name, const Json& tools) const {
    return known_for(tools).writes_whole_messages || known_for(tools).chat_template.names(name);
}

bool ChatFormat::ends_turn(int32_t id) const {
    return std::ranges::find(turn_ends_, id) != turn_ends_.end();
}

ChatFormat::Probe ChatFormat::try_template(bool in_parts, bool asks_again) const {
    const Json messages = probe(in_parts, asks_again);
    std::string text;
    try {
        text = default_.chat_template.render({.messages = &messages}, settings_, place_).text;
    } catch (const TemplateBound&) {
        throw;
    } catch (const UserError&) {
        return {};  // a template that refuses plain turns; its rows will say why
    }
    const size_t answer = text.find(kAnswer);
    if (answer == std::string::npos) return {};
    Probe found{.shows_answer = true};
    for (const int32_t id : tokenizer_.encode(text, false))
        if (tokenizer_.is_special(id)) found.specials.push_back(id);
    std::ranges::sort(found.specials);
    found.specials.erase(std::ranges::unique(found.specials).begin(), found.specials.end());
    for (const int32_t id : tokenizer_.encode(text.substr(answer + std::string_view(kAnswer).size()), false)) {
        if (!tokenizer_.is_special(id)) continue;
        found.behind = id;
        break;
    }
    return found;
}

void ChatFormat::find_turn_ends() {
    turn_ends_ = tokenizer_.eos_ids();
    last_end_ = tokenizer_.eos();
    Probe found = try_template(/*in_parts=*/false, /*asks_again=*/false);
    if (!found.shows_answer) {
        found = try_template(/*in_parts=*/true, /*asks_again=*/false);
        wants_parts_ = found.shows_answer;
    }
    special_ids_ = found.specials;
    written_end_ = found.behind;
    if (!found.behind) {
        const Probe again = try_template(wants_parts_, /*asks_again=*/true);
        if (again.behind && ends_turn(*again.behind)) last_end_ = again.behind;
    } else if (!ends_turn(*found.behind)) {
        turn_ends_.push_back(*found.behind);
    }
}

}  // namespace windlass
