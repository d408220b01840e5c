#include "persist/run_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

using testing::HasSubstr;

RunState written_by(const std::string& part, int64_t step) {
    RunState state;
    state.identity.part_id = part;
    state.progress.step = step;
    return state;
}

std::string left(const std::vector<RunPart>& parts, const RunState& state) {
    try {
        require_own_part(parts, state, "ssd/run.wls", "rm ssd/run.wls");
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::storage);
        return error.what();
    }
    return "";
}

TEST(RunParts, AStateCountsUpToWhereTheNextPartBegan) {
    const std::vector<RunPart> parts = {{"first", 0}, {"second", 10}, {"third", 13}};
    for (const auto& [part, step] : {std::pair("first", 10), {"second", 13}, {"third", 99}, {"", 99}})
        EXPECT_EQ(left(parts, written_by(part, step)), "") << part;
    EXPECT_EQ(left(parts, written_by("first", 14)),
              "ssd/run.wls: is of step 14 of a history that this run has left: the run was resumed after step 10 "
              "without it. Try: rm ssd/run.wls");
    EXPECT_THAT(left(parts, written_by("fourth", 3)), HasSubstr("part fourth wrote it, which run.yaml does not list"));
    EXPECT_EQ(left({}, written_by("first", 14)), "") << "a run without a list";
}

TEST(RunParts, WhatBeganAfterTheStepThatARunContinuesFromIsLeft) {
    const std::vector<RunPart> parts = {{"first", 0}, {"second", 10}, {"third", 13}};
    const std::vector<RunPart> next = with_next_part(parts, written_by("second", 11), 11);
    ASSERT_EQ(next.size(), 3u);
    EXPECT_EQ(next[1], parts[1]);
    EXPECT_EQ(next[2].after, 11);
    EXPECT_EQ(next[2].id.size(), 16u);
    EXPECT_NE(left(next, written_by("third", 14)), "");
    EXPECT_NE(left(next, written_by("second", 12)), "");
    EXPECT_EQ(with_next_part(parts, written_by("second", 11), 13).size(), 4u) << "a log leads on to step 13";
    EXPECT_NE(with_next_part({}, {}, 0), with_next_part({}, {}, 0)) << "ids are drawn";
}

TEST(RunParts, ARunWhoseListIsGoneBeginsOneWithItsState) {
    const std::vector<RunPart> parts = with_next_part({}, written_by("first", 4), 4);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts.front(), (RunPart{"first", 0}));
}

TEST(RunParts, AreALineOfRunYaml) {
    const TempFolder folder;
    const std::string yaml = folder / "run.yaml";
    EXPECT_THAT(parts_in_run(real_files(), folder.path()), testing::IsEmpty());
    const std::vector<RunPart> parts = {{"0123456789abcdef", 0}, {"fedcba9876543210", 12}};
    write_text_atomic(real_files(), yaml, "# run x\n" + parts_line(parts) + "method: adamw\n");
    EXPECT_EQ(parts_in_run(real_files(), folder.path()), parts);
    for (const char* line :
         {"# parts [[\"a\"]]\n", "# parts [[1,2]]\n", "# parts [[\"a\",1.5]]\n", "# parts [[\n", "# parts 5\n"}) {
        write_text_atomic(real_files(), yaml, line);
        EXPECT_THROW(parts_in_run(real_files(), folder.path()), UserError) << line;
    }
}

}  // namespace
}  // namespace windlass
