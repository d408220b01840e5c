// Random rows: formats x keys x nulls x templates. Each is refused, or everything trained was given as an answer and
// every given answer is trained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/rng.h"
#include "rows/chat_format.h"
#include "rows/row_keys.h"
#include "tests/place.h"
#include "tests/unit/rows/chats.h"

namespace windlass {
namespace {

using RowJson = nlohmann::ordered_json;

constexpr const char* kOwnTemplates[] = {
    fixtures::kChatMl,
    // Calls, reasoning and tools.
    "{% if tools %}{{ tools | tojson }}\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>\n{% endif %}{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<call>{{ c.function | tojson }}</call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    // Thoughts stay in the last turn alone, white space goes, and it marks what is generated.
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['role'] == 'assistant' %}{% generation %}"
    "{{ m['content'] | trim }}<|im_end|>{% endgeneration %}\n{% else %}{{ m['content'] }}<|im_end|>\n{% endif %}{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    // Reads the first message; no system message.
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system message') }}{% endif %}"
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% if m['role'] == 'assistant' %}</s>{% endif %}\n{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}",
    // Joins the arguments of calls to text, and asks for null content.
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.content is not none %}{{ m.content + '' }}"
    "{% endif %}{% if 'tool_calls' in m %}{% for c in m.tool_calls %}{{ '<call>' + c.function.name + ' ' + "
    "c.function.arguments }}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
};

// Of published models, where they are here.
std::vector<std::string> published_templates() {
    std::vector<std::string> texts;
    for (const char* name : {"Qwen-Qwen2.5-7B-Instruct", "google-gemma-2-2b-it", "meta-llama-Llama-3.1-8B-Instruct",
                             "meta-llama-Llama-3.2-3B-Instruct", "NousResearch-Hermes-3-Llama-3.1-8B-tool_use"})
        if (const std::string path = fixtures::shared(fmt::format("chat-templates/{}.jinja", name)); !path.empty())
            texts.push_back(fixtures::read(path));
    return texts;
}

// Those above, those that the goldens of templates are made of, and those of published models.
const std::vector<std::string>& all_templates() {
    static const std::vector<std::string> made = [] {
        std::vector<std::string> texts(std::begin(kOwnTemplates), std::end(kOwnTemplates));
        const auto own = fixtures::Json::parse(fixtures::read(source_dir() + "/tests/golden/templates/own.json"));
        for (const auto& [name, golden] : own.items()) texts.push_back(golden.at("template").get<std::string>());
        for (std::string& text : published_templates()) texts.push_back(std::move(text));
        return texts;
    }();
    return made;
}

// NaN is no JSON that the tests' own library writes.
constexpr const char* kNaN = "@NaN@";

std::string with_nan(std::string row) {
    const std::string quoted = fmt::format("\"{}\"", kNaN);
    for (size_t at = row.find(quoted); at != row.npos; at = row.find(quoted)) row.replace(at, quoted.size(), "NaN");
    return row;
}

// Makes rows of words that occur once, and remembers which of them are answers.
class Generator {
  public:
    explicit Generator(uint64_t seed) : random_(seed, RandomStream::test) {}

    struct Made {
        std::string row;
        std::set<std::string> answers;   // words that must be trained, if the row is read
        std::set<std::string> optional;  // may be trained: an answer that repeats another, or a call's
        bool is_pair = false;
        bool lost_a_key = false;
    };

    Made make() {
        made_ = {};
        row_ = RowJson::object();
        switch (pick(6)) {
            case 0:
                row_["text"] = answer();
                break;
            case 1:
                row_["prompt"] = question();
                row_["completion"] = answer();
                break;
            case 2:
                row_["instruction"] = question();
                if (flip()) row_["input"] = flip() ? "" : question();
                row_["output"] = answer();
                break;
            case 3:
                row_[flip() ? "messages" : "conversations"] = conversation();
                break;
            case 4:
                pair();
                break;
            case 5:
                row_["prompt"] = flip() ? RowJson(question()) : RowJson::array({message("user", question())});
                row_["completion"] = RowJson::array({message("assistant", answer())});
                break;
        }
        decorate();
        made_.row = with_nan(row_.dump());
        return made_;
    }

  private:
    uint64_t pick(uint64_t count) { return random_.below(count); }
    bool flip() { return pick(2) == 0; }

    std::string word() {
        std::string made = fmt::format("w{}z", next_word_++);
        return made;
    }
    std::string question() { return word() + " " + word(); }
    std::string answer() {
        const std::string one = word(), two = word();
        made_.answers.insert({one, two});
        return one + (flip() ? "\n" : " ") + two;
    }

    RowJson content_of(const std::string& text) {
        if (pick(4) > 0) return text;
        const size_t half = text.size() / 2;
        if (flip())
            return RowJson::array(
                {{{"type", "text"}, {"text", text.substr(0, half)}}, {{"type", "text"}, {"text", text.substr(half)}}});
        return RowJson::array({{{"type", "text"}, {"text", text}, {"image", nullptr}}});
    }
    RowJson message(const char* role, const std::string& text) {
        RowJson made = {{"role", role}, {"content", content_of(text)}};
        if (pick(4) == 0) made["tool_calls"] = nullptr;
        if (pick(8) == 0) made["name"] = nullptr;
        if (pick(12) == 0) made["mood"] = flip() ? RowJson(kNaN) : RowJson(word());
        return made;
    }
    RowJson conversation() {
        RowJson list = RowJson::array();
        if (pick(4) == 0) list.push_back(message("system", question()));
        if (pick(6) == 0) list.push_back(message("assistant", answer()));
        const uint64_t turns = 1 + pick(3);
        for (uint64_t i = 0; i < turns; ++i) {
            list.push_back(message("user", question()));
            if (pick(3) == 0) call(list);
            if (pick(6) == 0) {
                list.push_back({{"role", "assistant"}, {"content", question()}, {"train", false}});
            } else {
                list.push_back(message("assistant", answer()));
                if (pick(6) == 0) list.back()["reasoning_content"] = reasoning();
            }
        }
        if (pick(6) == 0) list.push_back(message("user", question()));
        return list;
    }
    // What a template may leave out, with a word to the user.
    std::string reasoning() {
        const std::string made = word();
        made_.optional.insert(made);
        return made;
    }
    void call(RowJson& list) {
        const std::string name = word(), value = word();
        made_.answers.insert({name, value});
        RowJson arguments = {{"a", value}, {"b", nullptr}};
        if (flip()) arguments = RowJson(arguments.dump());
        RowJson made = {{"role", "assistant"}};
        if (pick(3) > 0) made["content"] = flip() ? RowJson("") : RowJson(nullptr);
        made["tool_calls"] = {{{"id", flip() ? RowJson(nullptr) : RowJson("call00001")},
                               {"type", "function"},
                               {"function", {{"name", name}, {"arguments", arguments}}}}};
        list.push_back(made);
        list.push_back(message("tool", question()));
    }
    void pair() {
        made_.is_pair = true;
        const std::string asked = question(), good = answer(), bad = answer();
        const RowJson q = RowJson::array({{{"role", "user"}, {"content", asked}}});
        const auto answered = [&](const std::string& text) {
            RowJson list = q;
            list.push_back({{"role", "assistant"}, {"content", text}});
            return list;
        };
        switch (pick(4)) {
            case 0:
                row_["chosen"] = answered(good), row_["rejected"] = answered(bad);
                if (flip()) row_["prompt"] = asked;
                if (flip()) row_["messages"] = answered(good);
                break;
            case 1:
                row_["prompt"] = asked, row_["chosen"] = good, row_["rejected"] = bad;
                break;
            case 2:
                row_["prompt"] = q, row_["chosen"] = good, row_["rejected"] = bad;
                break;
            case 3:
                row_["messages"] = q;
                row_["chosen"] = {{"role", "assistant"}, {"content", good}};
                row_["rejected"] = {{"role", "assistant"}, {"content", bad}};
                break;
        }
    }
    // Keys of the table, and some that nobody knows, with null, empty and other values.
    void decorate() {
        const std::span<const RowKey> keys = row_keys();
        for (uint64_t i = pick(4); i > 0; --i) {
            const std::string key = pick(5) == 0 ? word() : std::string(keys[pick(keys.size())].key);
            if (row_.contains(key)) continue;
            const RowJson values[] = {nullptr,
                                      "",
                                      RowJson::array(),
                                      true,
                                      false,
                                      0,
                                      1,
                                      question(),
                                      kNaN,
                                      RowJson::array({question()}),
                                      RowJson{{"k", nullptr}}};
            row_[key] = values[pick(std::size(values))];
        }
        if (pick(10) == 0) row_["chat_template_kwargs"] = {{"enable_thinking", flip()}, {"mood", nullptr}};
        // Such a row may be one of another format.
        if (pick(20) == 0) row_.erase(row_.begin()), made_.lost_a_key = true;
    }

    Random random_;
    RowJson row_;
    Made made_;
    uint64_t next_word_ = 0;
};

std::set<std::string> words_in(std::string_view text) {
    std::set<std::string> words;
    for (size_t at = text.find('w'); at != text.npos; at = text.find('w', at + 1)) {
        size_t end = at + 1;
        while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
        if (end > at + 1 && end < text.size() && text[end] == 'z') words.emplace(text.substr(at, end + 1 - at));
    }
    return words;
}

// The words of a sample's trained tokens.
std::set<std::string> trained_words(const Sample& sample, const Tokenizer& tokenizer) {
    std::string text;
    for (size_t i = 0; i < sample.ids.size(); ++i)
        text += sample.trained[i] ? tokenizer.decode({&sample.ids[i], 1}, false) : "|";
    return words_in(text);
}

struct Counts {
    int read = 0, refused = 0;
};

const Tokenizer& tokenizer_of_all() {
    static const Tokenizer made = fixtures::chat_tokenizer(
        {{"eos_token_id", {257, 263}}}, {"<|eot_id|>", "<|eom_id|>", "<|start_header_id|>", "<|end_header_id|>",
                                         "<|begin_of_text|>", "<|python_tag|>", "<start_of_turn>", "<end_of_turn>"});
    return made;
}

// The formats of all templates.
const std::vector<ChatFormat>& all_formats() {
    static const std::vector<ChatFormat> made = [] {
        std::vector<ChatFormat> formats;
        for (const std::string& text : all_templates())
            formats.emplace_back(ChatTemplateSource{.place = "t.jinja", .text = text, .tool_use = ""},
                                 tokenizer_of_all(), "2026-01-31");
        return formats;
    }();
    return made;
}

void try_row(const Generator::Made& made, const ChatFormat* format, Counts& counts) {
    const Tokenizer& tokenizer = tokenizer_of_all();
    const RowsOptions options{.chats = format, .pairs = made.is_pair};
    static const fixtures::TempFolder folder;
    const std::string path = folder.path() + "/rows.jsonl";
    folder.write("rows.jsonl", made.row + "\n");
    std::set<std::string> trained;
    try {
        for_each_sample(real_files(), path, options, tokenizer, [&](Sample&& sample) {
            trained.merge(trained_words(sample, tokenizer));
            return true;
        });
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("rows.jsonl:1"), testing::HasSubstr("Try: ")))
            << made.row;
        ++counts.refused;
        return;
    }
    ++counts.read;
    if (made.lost_a_key) return;
    for (const std::string& word : trained)
        EXPECT_TRUE(made.answers.contains(word) || made.optional.contains(word)) << word << " is no answer\n"
                                                                                 << made.row;
    for (const std::string& word : made.answers)
        EXPECT_TRUE(trained.contains(word)) << word << " is not trained\n"
                                            << made.row << "\n"
                                            << (format ? format->text() : "");
}

Counts try_rows(int count, uint64_t seed) {
    Generator generator(seed);
    Counts counts;
    for (int i = 0; i < count; ++i) {
        const Generator::Made made = generator.make();
        const size_t which = static_cast<size_t>(i) % (all_formats().size() + 1);
        try_row(made, which < all_formats().size() ? &all_formats()[which] : nullptr, counts);
    }
    return counts;
}

TEST(RowGenerator, EveryRowIsRefusedOrTrainedAsItWasGiven) {
    const Counts counts = try_rows(1000, 1);
    EXPECT_GT(counts.read, 300);
    EXPECT_GT(counts.refused, 100);
}

TEST(SlowRowGenerator, TenThousandRowsAreRefusedOrTrainedAsTheyWereGiven) {
    const Counts counts = try_rows(10000, 2);
    EXPECT_GT(counts.read, 3000);
    EXPECT_GT(counts.refused, 1000);
}

}  // namespace
}  // namespace windlass
