// chats.h: a small tokenizer with a chat model's marks, and what is learned of a sample, for tests of conversations.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "rows/chat_format.h"
#include "rows/rows.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace windlass::fixtures {

// `generation` is its generation_config.json.
inline Tokenizer chat_tokenizer(const Json& generation = {{"eos_token_id", {257, 263}}},
                                const std::vector<std::string>& more_marks = {}) {
    Json json = small_tokenizer_json();
    int32_t id = 262;  // after those of the small tokenizer
    std::vector<std::string> marks = {"<|im_start|>", "<|im_end|>", "<|user|>", "<|assistant|>"};
    marks.insert(marks.end(), more_marks.begin(), more_marks.end());
    for (const std::string& mark : marks)
        json["added_tokens"].push_back({{"id", id++},
                                        {"content", mark},
                                        {"special", true},
                                        {"single_word", false},
                                        {"lstrip", false},
                                        {"rstrip", false},
                                        {"normalized", false}});
    TempFolder folder;
    folder.write("tokenizer.json", json.dump());
    folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
    folder.write("generation_config.json", generation.dump());
    return Tokenizer::load(real_files(), folder.path());
}

inline constexpr const char* kChatMl =
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// The text of a sample, what is learned between [ and ].
inline std::string shown(const Sample& sample, const Tokenizer& tokenizer) {
    std::string text;
    for (size_t i = 0; i < sample.ids.size(); ++i) {
        const bool learned = sample.trained[i] != 0, before = i > 0 && sample.trained[i - 1] != 0;
        if (learned && !before) text += '[';
        if (!learned && before) text += ']';
        text += tokenizer.decode({&sample.ids[i], 1}, false);
    }
    return text + (!sample.trained.empty() && sample.trained.back() ? "]" : "");
}

// ChatML that writes calls, reasoning and tools.
inline constexpr const char* kFullChatMl =
    "{% if tools %}<|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>{{ m.reasoning_content "
    "}}</think>"
    "{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

struct ReadRows {
    std::vector<std::string> texts;
    RowsReport report;
};

inline const Tokenizer& chat_model() {
    static const Tokenizer made = chat_tokenizer();
    return made;
}

// A row that the test writes on several lines is one line of the file.
inline std::string in_lines(std::string_view rows) {
    std::string text;
    for (const char c : rows) {
        if (c == ' ' && text.ends_with('\n')) text.pop_back();
        text += c;
    }
    return text;
}

inline ReadRows read_them(std::string_view rows, const char* chat_template = kChatMl, RowsOptions options = {},
                          const std::string& name = "rows.jsonl") {
    std::optional<ChatFormat> chats;
    if (chat_template)
        chats.emplace(ChatTemplateSource{.place = "t.jinja", .text = chat_template, .tool_use = ""}, chat_model(),
                      "2026-01-31");
    if (chats) options.chats = &*chats;
    TempFolder folder;
    const std::string path = folder.write(name, in_lines(rows));
    ReadRows out;
    out.report = for_each_sample(real_files(), path, options, chat_model(), [&](Sample&& sample) {
        out.texts.push_back(shown(sample, chat_model()));
        return true;
    });
    return out;
}

inline std::string refused_row(std::string_view rows, const char* chat_template = kChatMl,
                               const RowsOptions& options = {}) {
    try {
        read_them(rows, chat_template, options);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::data) << rows;
        EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("rows.jsonl:1"), testing::HasSubstr("Try: ")))
            << rows;
        RowsOptions skipping = options;
        skipping.skip_malformed = true;
        skipping.on_malformed = [](const UserError&) {};
        EXPECT_EQ(read_them(rows, chat_template, skipping).report.malformed, 1) << rows;
        return error.what();
    }
    return "read";
}

inline std::string turn(const std::string& role, const std::string& text) {
    return "<|im_start|>" + role + "\n" + text + "<|im_end|>\n";
}

}  // namespace windlass::fixtures
