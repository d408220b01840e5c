// What the keys of a row mean: each is honoured, refused, or named; what is said twice is used once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rows/row_keys.h"
#include "tests/unit/rows/chats.h"

namespace windlass {
namespace {

using fixtures::kChatMl;
using fixtures::read_them;
using fixtures::ReadRows;
using fixtures::refused_row;
using fixtures::turn;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

const std::string kQuestion = turn("user", "2+2?");
const std::string kFour = "<|im_start|>assistant\n[Four.<|im_end|>]\n",
                  kFive = "<|im_start|>assistant\n[Five.<|im_end|>]\n";

std::string messages(const char* answer) {
    return std::string(R"([{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": ")") + answer + "\"}]";
}
std::string answers(const char* answer) {
    return std::string(R"([{"role": "assistant", "content": ")") + answer + "\"}]";
}

// The same pair, in every way that data sets write it.
TEST(RowMeaning, APairIsTheSameHoweverItIsWritten) {
    const std::string q = R"([{"role": "user", "content": "2+2?"}])";
    const std::string whole = R"("chosen": )" + messages("Four.") + R"(, "rejected": )" + messages("Five.");
    const std::string lists = R"("chosen": )" + answers("Four.") + R"(, "rejected": )" + answers("Five.");
    const std::string texts = R"("chosen": "Four.", "rejected": "Five.")";
    const std::string rows[] = {
        "{" + whole + "}",
        R"({"prompt": "2+2?", )" + whole + "}",
        R"({"prompt": "2+2?", "messages": )" + messages("Four.") + ", " + whole + "}",  // UltraFeedback
        R"({"prompt": )" + q + ", " + whole + "}",
        R"({"messages": )" + q + ", " + whole + "}",
        R"({"instruction": "2+2?", )" + whole + "}",
        R"({"prompt": "2+2?", )" + lists + "}",
        R"({"prompt": )" + q + ", " + lists + "}",
        R"({"prompt": )" + q + ", " + texts + "}",
        R"({"messages": )" + q + ", " + texts + "}",
        R"({"messages": )" + messages("Four.") + ", " + lists + "}",
        R"({"messages": )" + q + R"(, "prompt": "2+2?", )" + texts + "}",
        R"({"instruction": "2+2?", "input": "", )" + texts + "}",
        R"({"conversations": [{"from": "human", "value": "2+2?"}], "chosen": {"from": "gpt", "value": "Four."},
            "rejected": {"from": "gpt", "value": "Five."}, "messages": null})",
    };
    for (const std::string& row : rows)
        EXPECT_THAT(read_them(row, kChatMl, {.pairs = true}).texts, ElementsAre(kQuestion + kFour, kQuestion + kFive))
            << row;
}

TEST(RowMeaning, APairWhoseKeysContradictIsRefused) {
    const std::string whole = R"("chosen": )" + messages("Four.") + R"(, "rejected": )" + messages("Five.");
    const RowsOptions pairs{.pairs = true};
    EXPECT_THAT(refused_row(R"({"prompt": "3+3?", )" + whole + "}", kChatMl, pairs),
                HasSubstr("\"prompt\" is not among the"));
    EXPECT_THAT(refused_row(R"({"messages": [{"role": "user", "content": "3+3?"}], )" + whole + "}", kChatMl, pairs),
                HasSubstr("\"messages\" is neither the question nor"));
    EXPECT_THAT(refused_row(R"({"chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
                            "rejected": [{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})",
                            kChatMl, pairs),
                HasSubstr("different questions"));
    EXPECT_THAT(refused_row(R"({"messages": )" + messages("Six.") + R"(, "chosen": "Four.", "rejected": "Five."})",
                            kChatMl, pairs),
                HasSubstr("ends in an answer that is not the chosen one"));
    EXPECT_THAT(refused_row(R"({"chosen": )" + answers("a") + R"(, "rejected": )" + answers("b") + "}", kChatMl, pairs),
                HasSubstr("the answers have no question"));
}

TEST(RowMeaning, TextsThatBeginAlikeAreAPromptAndTwoAnswers) {
    const RowsOptions pairs{.pairs = true};
    const auto texts = [&](const char* row) { return read_them(row, nullptr, pairs).texts; };
    EXPECT_THAT(
        texts(
            R"({"chosen": "\n\nHuman: 2+2?\n\nAssistant: Four.", "rejected": "\n\nHuman: 2+2?\n\nAssistant: Five."})"),
        ElementsAre("<s>\n\nHuman: 2+2?\n\nAssistant:[ Four.</s>]", "<s>\n\nHuman: 2+2?\n\nAssistant:[ Five.</s>]"));
    EXPECT_THAT(texts(R"({"prompt": "Q: x\nA:", "chosen": "Q: x\nA: b", "rejected": "Q: x\nA: c"})"),
                ElementsAre("<s>Q: x\nA:[ b</s>]", "<s>Q: x\nA:[ c</s>]"))
        << "the prompt is repeated in the answers";
    EXPECT_THAT(refused_row(R"({"chosen": "yes", "rejected": "no"})", nullptr, pairs),
                HasSubstr("it cannot be said where the question ends"));
}

TEST(RowMeaning, AConversationIsTheSameHoweverItIsWritten) {
    const std::string rows[] = {
        R"({"messages": )" + messages("Four.") + "}",
        R"({"messages": )" + messages("Four.") + R"(, "prompt": "2+2?", "prompt_id": "7"})",  // UltraChat
        R"({"messages": )" + messages("Four.") + R"(, "conversations": )" + messages("Four.") + "}",
        R"({"messages": )" + messages("Four.") + R"(, "instruction": "2+2?", "output": "Four."})",
        R"({"messages": )" + messages("Four.") + R"(, "chosen": null, "text": null, "input_ids": null})",
        R"({"conversations": [{"from": "human", "value": "2+2?"}, {"from": "gpt", "value": "Four."}]})",
        R"({"prompt": [{"role": "user", "content": "2+2?"}], "completion": )" + answers("Four.") + "}",
        R"({"prompt": "2+2?", "completion": )" + answers("Four.") + "}",
        R"({"prompt": [{"role": "user", "content": "2+2?"}], "completion": "Four."})",
        R"({"instruction": "2+2?", "input": "", "output": "Four."})",
        R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "2+"}, {"type": "text", "text": "2?"}]},
                         {"role": "assistant", "content": ["Four", "."]}]})",
        R"({"messages": [{"role": "user", "from": "user", "content": "2+2?"}, {"role": "assistant", "content": "Four.", "value": "Four."}]})",
    };
    for (const std::string& row : rows) EXPECT_THAT(read_them(row).texts, ElementsAre(kQuestion + kFour)) << row;
}

TEST(RowMeaning, KeysThatContradictAConversationAreRefused) {
    const std::string given = R"({"messages": )" + messages("Four.");
    EXPECT_THAT(refused_row(given + R"(, "prompt": "3+3?"})"), HasSubstr("\"prompt\" is not among the questions"));
    EXPECT_THAT(refused_row(given + R"(, "completion": "Six."})"),
                HasSubstr("\"completion\" is not among the answers"));
    EXPECT_THAT(refused_row(given + R"(, "conversations": )" + messages("Five.") + "}"),
                HasSubstr("not the same conversation"));
    EXPECT_THAT(refused_row(given + R"(, "chosen": "Four."})"), HasSubstr("\"chosen\" and \"rejected\" is missing"));
    EXPECT_THAT(
        refused_row(
            R"({"system": "a", "messages": [{"role": "system", "content": "b"}, {"role": "user", "content": "q"},
                        {"role": "assistant", "content": "r"}]})"),
        HasSubstr("different system messages"));
    EXPECT_THAT(refused_row(R"({"messages": [{"role": "user", "content": "a", "value": "b"}]})"),
                HasSubstr("are not the same"));
    EXPECT_THAT(refused_row(R"({"prompt": "q", "completion": "a", "output": "b"})"), HasSubstr("say different things"));
    EXPECT_EQ(
        read_them(R"({"system": "b", "messages": [{"role": "system", "content": "b"}, {"role": "user", "content": "q"},
                       {"role": "assistant", "content": "r"}]})")
            .texts[0],
        turn("system", "b") + turn("user", "q") + "<|im_start|>assistant\n[r<|im_end|>]\n");
}

TEST(RowMeaning, WhatTheAttentionMaskHidesIsNotTrained) {
    const auto text = [](const char* row) { return read_them(row, nullptr).texts.at(0); };
    EXPECT_EQ(text(R"({"input_ids": [256, 72, 105, 257, 257, 257], "attention_mask": [1, 1, 1, 1, 0, 0]})"),
              "<s>[Hi</s>]");
    EXPECT_EQ(text(R"({"input_ids": [257, 256, 72, 105], "attention_mask": [0, 1, 1, 1], "position_ids": [1, 0, 1, 2],
                       "labels": [-100, -100, -100, 105], "token_type_ids": [0, 0, 0, 0]})"),
              "<s>H[i]");
    EXPECT_EQ(text(R"({"input_ids": [256, 72, 105], "completion_mask": [0, 0, 1]})"), "<s>H[i]");
    EXPECT_EQ(text(R"({"input_ids": [256, 72, 105, 33], "assistant_masks": [0, 0, 1, 0]})"), "<s>H[i]!");
    EXPECT_EQ(text(R"({"input_ids": [256, 72, 105], "loss_mask": [false, false, true]})"), "<s>H[i]");
    EXPECT_THAT(read_them(R"({"input_ids": [256, 72, 257, 257]})", nullptr).report.notes.lines(),
                ElementsAre(HasSubstr("end in padding that is trained")));
    EXPECT_THAT(read_them(R"({"input_ids": [256, 72, 257, 257], "labels": [-100, 72, 257, -100]})", nullptr)
                    .report.notes.lines(),
                testing::IsEmpty());
    const std::pair<const char*, const char*> refused[] = {
        {R"("attention_mask": [1, 0, 1])", "hides a token between"},
        {R"("attention_mask": [0, 0, 0])", "hides every token"},
        {R"("attention_mask": [1, 1, 2])", "neither 0 nor 1"},
        {R"("attention_mask": [1, 1])", "as long as"},
        {R"("attention_mask": [[1, 0, 0], [1, 1, 0], [1, 1, 1]])", "is a table"},
        {R"("position_ids": [0, 1, 0])", "positions count from 0"},
        {R"("token_type_ids": [0, 0, 1])", "tokens have no types"},
        {R"("seq_lengths": [1, 2])", "packed"},
        {R"("cu_seqlens": [0, 1, 3])", "packed"},
        {R"("completion_mask": [0, 1, 2])", "neither 0 nor 1"},
    };
    for (const auto& [keys, said] : refused)
        EXPECT_THAT(refused_row(std::string(R"({"input_ids": [256, 72, 105], )") + keys + "}", nullptr),
                    HasSubstr(said));
}

TEST(RowMeaning, KeysThatWouldChangeWhatIsTrainedAreRefused) {
    const std::string rows[] = {R"({"text": "a b")", R"({"prompt": "q", "completion": "a")",
                                R"({"instruction": "q", "output": "a")", R"({"messages": )" + messages("Four."),
                                R"({"input_ids": [256, 72, 105])"};
    for (const std::string& row : rows) {
        for (const char* key : {"image", "images", "video", "videos", "audio", "audios", "pixel_values"}) {
            EXPECT_THAT(refused_row(row + ", \"" + key + "\": [\"x.png\"]}"),
                        HasSubstr("pictures, sound and films are not trained"));
            EXPECT_EQ(read_them(row + ", \"" + key + "\": []}").texts.size(), 1u) << key;
        }
        EXPECT_THAT(refused_row(row + R"(, "kto_tag": false})"), HasSubstr("KTO")) << row;
        EXPECT_THAT(refused_row(row + R"(, "label": false})"), HasSubstr("KTO")) << row;
        EXPECT_EQ(read_them(row + R"(, "label": true, "kto_tag": true})").texts.size(), 1u) << row;
        EXPECT_THAT(refused_row(row + R"(, "weight": 0.5})"), HasSubstr("rows have no weights")) << row;
        EXPECT_EQ(read_them(row + R"(, "weight": 1.0, "images": null})").texts.size(), 1u) << row;
    }
    const auto labelled = [](const char* label) {
        return fmt::format(R"({{"prompt": "q", "completion": "a", "label": {}}})", label);
    };
    for (const char* bad : {"0", "-1", "\"0\"", "\"-1\""})
        EXPECT_THAT(refused_row(labelled(bad)),
                    AllOf(HasSubstr("KTO"), HasSubstr(fmt::format("select(.label != {})", bad)),
                          HasSubstr("where it is a class: jq -c 'del(.label)'")));
    for (const char* bad : {"\"False\"", "\"bad\"", "\"Bad\"", "\"undesirable\"", "\"rejected\""})
        EXPECT_THAT(refused_row(labelled(bad)), AllOf(HasSubstr("KTO"), testing::Not(HasSubstr("class")))) << bad;
    for (const char* good : {"1", "\"good\"", "\"desirable\"", "\"chosen\""})
        EXPECT_THAT(read_them(labelled(good)).report.notes.lines(), testing::IsEmpty()) << good;
    for (const char* other : {"2", "7", "\"positive\"", "\"sports\""})
        EXPECT_THAT(read_them(labelled(other)).report.notes.unread_keys(), ElementsAre(std::pair("label", 1))) << other;
    EXPECT_THAT(read_them(R"({"text": "a film", "label": 0})").report.notes.unread_keys(),
                testing::Contains(std::pair("label", 1)))
        << "a class";
    EXPECT_THAT(refused_row(R"({"prompt": "q", "completion": "a", "system": "s"})"), HasSubstr("no place"));
}

TEST(RowMeaning, KeysThatNobodyKnowsAreCountedOnce) {
    const ReadRows out = read_them(R"({"text": "a b", "id": 7, "source": "x", "flavour": "sweet"})"
                                   "\n"
                                   R"({"text": "a b", "flavour": null})"
                                   "\n"
                                   R"({"text": "a b", "flavour": "sour", "shape": 3})");
    EXPECT_THAT(out.report.notes.unread_keys(), UnorderedElementsAre(std::pair("flavour", 2), std::pair("shape", 1)));
    EXPECT_THAT(out.report.notes.lines(),
                ElementsAre("keys of rows that are not read: \"flavour\" (2 rows), \"shape\" (1 row)"));
    std::string many = R"({"text": "a b")";
    for (int i = 0; i < 1000; ++i) many += fmt::format(", \"k{}\": 1", i);
    EXPECT_LE(read_them(many + "}").report.notes.unread_keys().size(), kNotesMax + 1);
    RowsOptions options;
    options.fields.text = "body";
    EXPECT_THAT(read_them(R"({"body": "a b", "text": "c"})", nullptr, options).report.notes.unread_keys(),
                ElementsAre(std::pair("text", 1)));
}

TEST(RowMeaning, ContentThatIsNotTextIsRefused) {
    for (const char* content :
         {R"([{"type": "image"}, {"type": "text", "text": "What is this?"}])", R"({"a": 1})", "7", "true",
          R"([{"type": "image_url", "image_url": {"url": "x"}}])", R"([{"type": "image", "text": "a cat"}])",
          R"([{"type": "text", "text": "a", "image": "x.png"}])", R"([{"type": "thinking", "thinking": "a"}])"}) {
        for (const char* role : {"user", "assistant"}) {
            const std::string row = fmt::format(
                R"({{"messages": [{{"role": "{}", "content": {}}}, {{"role": "assistant", "content": "a"}}]}})", role,
                content);
            EXPECT_THAT(refused_row(row),
                        AnyOf(HasSubstr("not text"), HasSubstr("not a string"), HasSubstr("not trained")))
                << row;
        }
    }
    EXPECT_THAT(
        refused_row(
            R"({"messages": [{"role": "user", "content": "q", "images": ["x"]}, {"role": "assistant", "content": "a"}]})"),
        HasSubstr("pictures"));
}

TEST(RowMeaning, NotesSurviveTheirJson) {
    const RowNotes notes = read_them(R"({"text": "a b", "flavour": "x"})"
                                     "\n"
                                     R"({"text": "a b", "шум": 1})")
                               .report.notes;
    EXPECT_EQ(RowNotes::from_json(notes.to_json(), "notes").lines(), notes.lines());
    EXPECT_THROW(RowNotes::from_json("{}", "notes"), UserError);
    EXPECT_THROW(RowNotes::from_json(R"({"unread_keys": 3, "notes": {}})", "notes"), UserError);
}

// Every key of the table has a meaning in every format, and what is refused has a reason and a way out.
TEST(RowMeaning, TheTableIsWhole) {
    for (const RowKey& key : row_keys()) {
        const bool may_refuse = std::ranges::any_of(key.uses, [](KeyUse use) {
            return use == KeyUse::empty || use == KeyUse::one || use == KeyUse::good || use == KeyUse::not_false;
        });
        EXPECT_EQ(may_refuse, !key.reason.empty() && !key.way.empty()) << key.key;
    }
    EXPECT_THAT(row_keys_table(), HasSubstr("| `image`, `images`, "));
}

}  // namespace
}  // namespace windlass
