// What waits guarantee is followed through other tasks, and through each lane's own order.
#include "schedule/task_order.h"

#include <gmock/gmock.h>

namespace windlass {
namespace {

using testing::ElementsAre;

Task task_in(int lane, Waits after = {}) {
    return {.lane = lane, .after = std::move(after)};
}

// Lane 2 waits for lane 1, which waited for lane 0.
TEST(TaskOrder, FollowsWaitsThroughOtherTasks) {
    const Schedule schedule{.lanes = {LaneKind::compute, LaneKind::up, LaneKind::down},
                            .tasks = {task_in(0), task_in(0), task_in(1, {{0, 2}}), task_in(0), task_in(1),
                                      task_in(2, {{1, 2}}), task_in(2)}};
    const TaskOrder order(schedule);
    EXPECT_THAT(order.before(0), ElementsAre(0, 0, 0));
    EXPECT_THAT(order.before(1), ElementsAre(1, 0, 0));
    EXPECT_THAT(order.before(2), ElementsAre(2, 0, 0));
    EXPECT_THAT(order.before(3), ElementsAre(2, 0, 0));
    EXPECT_THAT(order.before(4), ElementsAre(2, 1, 0)) << "what the lane's own task before it waited for";
    EXPECT_THAT(order.before(5), ElementsAre(2, 2, 0)) << "and what the one that it waits for did";
    EXPECT_THAT(order.before(6), ElementsAre(2, 2, 1));
    EXPECT_EQ(order.sequence(4), 2);
    EXPECT_EQ(order.tasks_of(0), 3);
    EXPECT_EQ(order.tasks_of(2), 2);
}

TEST(TaskOrderDeath, RefusesAWaitForATaskThatFollows) {
    const Schedule schedule{
        .name = "train/8", .lanes = {LaneKind::compute, LaneKind::up}, .tasks = {task_in(0, {{1, 1}}), task_in(1)}};
    EXPECT_DEATH(TaskOrder{schedule}, "train/8: task 0 waits for 1 tasks of lane 1, 0 precede it");
}

// Two lanes of one kind are two lanes.
TEST(TaskOrder, LanesAreToldApartByTheirPlaceInTheList) {
    const Schedule schedule{.lanes = {{LaneKind::compute, 0}, {LaneKind::compute, 1}},
                            .tasks = {task_in(0), task_in(1), task_in(1, {{0, 1}})}};
    const TaskOrder order(schedule);
    EXPECT_THAT(order.before(1), ElementsAre(0, 0));
    EXPECT_THAT(order.before(2), ElementsAre(1, 1));
}

}  // namespace
}  // namespace windlass
