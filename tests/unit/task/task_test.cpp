// Tasks: rows put into words, the tasks that come along, and what is refused.
#include "task/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "rows/row_reader.h"
#include "tests/unit/rows/raw_rows.h"

namespace windlass {
namespace {

using fixtures::refusal_of;
using fixtures::rows_in;
using testing::ElementsAre;
using testing::HasSubstr;

TaskRow row_of(const std::string& task, std::string_view json) {
    return read_task_row(find_task(real_files(), task), json, "rows.jsonl:1");
}

std::string problem(std::string_view task) {
    try {
        parse_task(task, "mine.json");
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "no problem";
}

// A task of two candidates with this in place of a member.
std::string problem_with(const std::string& members) {
    return problem(R"({"name": "mine", "about": "x", )" + members + "}");
}

std::string row_problem(const TaskSpec& task, std::string_view json) {
    try {
        read_task_row(task, json, "rows.jsonl:7");
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::data);
        return error.what();
    }
    return "no problem";
}

std::string filled(std::string_view text, const std::map<std::string, std::string>& row) {
    return RowTemplate::parse(text, "t").fill(
        [&](const std::string& path) {
            const auto found = row.find(path);
            return found == row.end() ? std::nullopt : std::optional(found->second);
        },
        "row");
}

TEST(RowTemplate, PutsFieldsInTheirPlaces) {
    EXPECT_EQ(filled("{a} and {b|a}.", {{"a", "x"}}), "x and x.");
    EXPECT_EQ(filled("{{{a}}} {{}}", {{"a", "x"}}), "{x} {}");
    EXPECT_EQ(filled("", {}), "");
    EXPECT_EQ(filled("{a:strip}|{b:lower}|{b:capital}", {{"a", " x\r\n"}, {"b", "\xC3\xA9T\xC3\x89"}}),
              "x|\xC3\xA9t\xC3\xA9|\xC3\x89T\xC3\x89");
    EXPECT_EQ(filled("{a:question:capital} {b:question}", {{"a", "is it so"}, {"b", "is it?"}}), "Is it so? is it?");
    EXPECT_EQ(filled("{a:strip:no_stop} {b:small} {c:small}", {{"a", "It broke. "}, {"b", "The END"}, {"c", "I fell"}}),
              "It broke the END I fell");
}

TEST(RowTemplate, RefusesBracesAndFiltersThatAreNone) {
    const auto complaint = [](std::string_view text) {
        try {
            RowTemplate::parse(text, "mine.json: prompt");
        } catch (const UserError& error) {
            return std::string(error.what());
        }
        return std::string("none");
    };
    EXPECT_THAT(complaint("a {b"), HasSubstr("mine.json: prompt: the brace at byte 2 is not closed"));
    EXPECT_THAT(complaint("{a{b}}"), HasSubstr("byte 0 is not closed"));
    EXPECT_THAT(complaint("a } b"), HasSubstr("byte 2 closes nothing. Try: }}"));
    EXPECT_THAT(complaint("{}"), HasSubstr("names no field"));
    EXPECT_THAT(complaint("{a|:strip}"), HasSubstr("names no field"));
    EXPECT_THAT(complaint("{a:stripp}"), HasSubstr("no filter \"stripp\". Try: strip"));
}

TEST(Task, ThoseThatComeAlongAreTasks) {
    ASSERT_FALSE(task_texts().empty());
    for (const EmbeddedText& each : task_texts()) {
        SCOPED_TRACE(each.name);
        const TaskSpec task = parse_task(each.text, each.name);
        EXPECT_EQ(task.name, each.name);
        EXPECT_EQ(task.has_candidates(), task.metric == TaskMetric::accuracy);
        EXPECT_EQ(parse_task(task.description, "again").description, task.description);
    }
}

// The prompts of MeZO's appendix, tasks of each kind.
TEST(Task, PromptsAreThoseOfMezo) {
    const TaskRow sst2 = row_of("sst2", R"({"sentence": "a fine film \r", "label": 1})");
    EXPECT_EQ(sst2.prompt, "a fine film It was");
    EXPECT_THAT(sst2.candidates, ElementsAre(" terrible", " great"));
    EXPECT_EQ(sst2.right, 1);
    const TaskRow boolq = row_of("boolq", R"({"passage": "P.", "question": "is it so", "label": false})");
    EXPECT_EQ(boolq.prompt, "P. Is it so?");
    EXPECT_EQ(boolq.candidates[static_cast<size_t>(boolq.right)], " No");
    EXPECT_EQ(row_of("boolq", R"({"passage": "P.", "question": "is it so?", "label": 1})").right, 0);
    const TaskRow rte = row_of("rte", R"({"premise": "P", "hypothesis": "H", "label": "not_entailment"})");
    EXPECT_EQ(rte.prompt, "P\nDoes this mean that \"H\" is true? Yes or No?\n");
    EXPECT_EQ(rte.right, 1);
    const TaskRow copa = row_of("copa", R"({"premise": "The man fell.", "question": "cause", "choice1": "I pushed.",
        "choice2": "The floor was wet.", "label": 1})");
    EXPECT_EQ(copa.prompt, "The man fell because");
    EXPECT_THAT(copa.candidates, ElementsAre(" I pushed.", " the floor was wet."));
    const TaskRow wsc = row_of("wsc", R"({"text": "T", "target": {"span1_text": "Ann", "span2_text": "She"},
        "label": true})");
    EXPECT_THAT(wsc.prompt, HasSubstr("does the pronoun \"she\" refer to Ann? Yes or No?\n"));
    EXPECT_EQ(wsc.right, 1);
    const TaskRow squad = row_of("squad", R"({"title": "t", "context": "c", "question": " q ",
        "answers": {"text": ["one", "the one"], "answer_start": [1, 2]}})");
    EXPECT_EQ(squad.prompt, "Title: t\nContext: c\nQuestion: q\nAnswer:");
    EXPECT_THAT(squad.candidates, ElementsAre(" one\n"));
    EXPECT_THAT(squad.answers, ElementsAre("one", "the one"));
}

TEST(Task, RowsMayListTheirCandidates) {
    const TaskRow row = row_of("commonsense", R"({"instruction": "Why?\n\nAnswer format: answer1/answer2/answer3",
        "input": "", "output": "the correct answer is answer3", "answer": "answer3"})");
    EXPECT_THAT(row.candidates, ElementsAre(" answer1", " answer2", " answer3"));
    EXPECT_EQ(row.right, 2);
    const TaskSpec task = parse_task(R"({"name": "x", "about": "y", "prompt": "{ctx}", "label": "{label}",
        "label_is": "index", "listed": {"field": "endings", "text": " {candidate:strip}"}})",
                                     "x");
    const TaskRow listed = read_task_row(task, R"({"ctx": "c", "endings": ["a ", "b"], "label": "1"})", "x");
    EXPECT_THAT(listed.candidates, ElementsAre(" a", " b"));
    EXPECT_EQ(listed.right, 1);
    EXPECT_THAT(row_problem(task, R"({"ctx": "c", "endings": ["a", "b"], "label": 2})"),
                HasSubstr("rows.jsonl:7: the row's label \"2\" is not an index of its 2 candidates"));
    EXPECT_THAT(row_problem(task, R"({"ctx": "c", "endings": ["a"], "label": 0})"), HasSubstr("lists 1 candidates"));
    EXPECT_THAT(row_problem(task, R"({"ctx": "c", "endings": ["a", {}], "label": 0})"), HasSubstr("holds object"));
    EXPECT_THAT(row_problem(task, R"({"ctx": "c", "label": 0})"), HasSubstr("no list of candidates \"endings\""));
}

TEST(Task, AnswersAreWhatIsBehindTheMark) {
    const TaskSpec task = find_task(real_files(), "gsm8k");
    const TaskRow row = read_task_row(task, R"({"question": "q", "answer": "1 + 1 = 2\n#### 2"})", "x");
    EXPECT_THAT(row.candidates, ElementsAre(" 1 + 1 = 2\n#### 2\n\n"));
    EXPECT_THAT(row.answers, ElementsAre("2"));
    EXPECT_EQ(judged_part(task, "so #### 3 no #### 4 "), "4");
    EXPECT_EQ(judged_part(task, " it is 5"), "it is 5");
}

TEST(Task, RowsThatDoNotFitNameWhatIsMissing) {
    const TaskSpec sst2 = find_task(real_files(), "sst2");
    EXPECT_THAT(row_problem(sst2, R"({"label": 1})"),
                HasSubstr("rows.jsonl:7: the row has no \"sentence\" or \"content\" or \"text\""));
    EXPECT_THAT(row_problem(sst2, R"({"sentence": "a", "label": 2})"), HasSubstr("\"2\" is not one of: 0, 1"));
    EXPECT_THAT(row_problem(sst2, R"({"sentence": {}, "label": 1})"), HasSubstr("has no \"sentence\""));
    EXPECT_THAT(row_problem(sst2, "[]"), HasSubstr("array and not an object"));
    EXPECT_THAT(row_problem(sst2, "{"), HasSubstr("not valid JSON"));
    EXPECT_EQ(row_problem(sst2, R"({"sentence": "a", "label": 1, "idx": NaN})"), "no problem");
    EXPECT_THAT(row_problem(sst2, R"({"sentence": NaN, "label": 1})"), HasSubstr("\"sentence\" is NaN"));
    const TaskSpec squad = find_task(real_files(), "squad");
    EXPECT_THAT(row_problem(squad, R"({"title": "", "context": "", "question": "", "answers": []})"),
                HasSubstr("has no \"answers.text\" or \"answers\""));
    std::string many = R"({"title": "", "context": "", "question": "", "answers": ["")";
    for (size_t i = 0; i < kTaskAnswersMax; ++i) many += R"(,"a")";
    EXPECT_THAT(row_problem(squad, many + "]}"), HasSubstr("257 answers; expected 1 to 256"));
}

TEST(Task, NamesTheMemberThatIsWrong) {
    const std::string choice = R"("prompt": "{q}", "label": "{l}", "candidates": {"0": "a", "1": "b"})";
    EXPECT_EQ(problem_with(choice), "no problem");
    EXPECT_THAT(problem("{"), HasSubstr("mine.json: not valid JSON"));
    EXPECT_THAT(problem("[]"), HasSubstr("mine.json: expected a JSON object"));
    EXPECT_THAT(problem_with(choice + R"(, "metrik": "f1")"), HasSubstr("no member \"metrik\". Try: metric"));
    EXPECT_THAT(problem_with(choice + R"(, "metric": "bleu")"), HasSubstr("metric: \"bleu\" is not one of: accuracy"));
    EXPECT_THAT(problem_with(choice + R"(, "metric": "f1")"), HasSubstr("candidates are judged by accuracy"));
    EXPECT_THAT(problem_with(choice + R"(, "stop": "x")"), HasSubstr("candidates or stop, not both"));
    EXPECT_THAT(problem_with(choice + R"(, "score": 1)"), HasSubstr("has \"score\", a text"));
    EXPECT_THAT(problem_with(R"("prompt": "{q}", "label": "{l}", "candidates": {"0": "a"})"),
                HasSubstr("candidates: 1 of them; expected 2 to 64"));
    EXPECT_THAT(problem_with(R"("prompt": "{q}", "label": "{l}", "candidates": {"0": "a", "1": 2})"),
                HasSubstr("candidates: 1: expected a string, got number"));
    EXPECT_THAT(problem_with(R"("prompt": "{q}")"), HasSubstr("candidates, listed or answers"));
    EXPECT_THAT(problem_with(R"("prompt": "{q", "answers": "a", "completion": "{a}", "metric": "f1")"),
                HasSubstr("mine.json: prompt: the brace at byte 0"));
    const std::string answer = R"("prompt": "{q}", "answers": "a", "completion": "{a}")";
    EXPECT_THAT(problem_with(answer), HasSubstr("answers are judged by f1, exact_match or number"));
    EXPECT_THAT(problem_with(answer + R"(, "metric": "f1", "max_new_tokens": 0)"), HasSubstr("from 1 to 65536"));
    EXPECT_THAT(problem_with(answer + R"(, "metric": "f1", "words": {"a": 1})"),
                HasSubstr("words: a: expected an object"));
    EXPECT_THROW(find_task(real_files(), "sst3"), UserError);
}

TEST(RowReader, ReadsTablesByTheNamesOfTheirFirstLine) {
    EXPECT_THAT(rows_in("rows.tsv", "label\tsentence\r\n1\ta \"b\"\r\n\n0\t\n"),
                ElementsAre(R"(2: {"label":"1","sentence":"a \"b\""})", R"(4: {"label":"0","sentence":""})"));
    EXPECT_THAT(rows_in("rows.tsv", "label\tsentence\n"), ElementsAre());
    EXPECT_THAT(refusal_of("rows.tsv", "a\tb\n1\t2\t3\n"),
                HasSubstr("rows.tsv:2: the row has 3 cells, the first line names 2"));
    EXPECT_THAT(refusal_of("rows.tsv", "a\ta\n1\t2\n"), HasSubstr("rows.tsv:1: two columns have the same name"));
    std::string wide;
    for (int column = 0; column <= 1024; ++column) wide += fmt::format("{}\t", column);
    EXPECT_THAT(refusal_of("rows.tsv", wide + "\n"), HasSubstr("more than 1024 columns"));
}

// Every row of what is published of them.
TEST(Task, ReadsPublishedRows) {
    const std::pair<const char*, const char*> files[] = {{"sst2", "data-sst2/dev.tsv"},
                                                         {"gsm8k", "data-gsm8k/test.jsonl"},
                                                         {"commonsense", "data-llm-adapters/ARC-Easy/test.json"},
                                                         {"commonsense", "data-llm-adapters/social_i_qa/test.json"},
                                                         {"arithmetic", "data-llm-adapters/SVAMP/test.json"},
                                                         {"aqua", "data-llm-adapters/AQuA/test.json"}};
    for (const auto& [name, file] : files) {
        WINDLASS_NEEDS_SHARED_DATA(file);
        const std::string path = fixtures::shared(file);
        const TaskSpec task = find_task(real_files(), name);
        RowReader reader(real_files(), path, "");
        int64_t rows = 0;
        for (; const auto row = reader.next(); ++rows)
            EXPECT_NO_THROW(read_task_row(task, row->text, fmt::format("{}:{}", file, row->line)));
        EXPECT_GT(rows, 200) << file;
    }
}

}  // namespace
}  // namespace windlass
