// Rope moves 16 bytes at a time where it can: the same bits as number by number, which rows with gaps take.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "op/ops.h"
#include "tests/agree/trial.h"
#include "tests/simt/emulated.h"

namespace windlass::agree {
namespace {

class RopePacks : public testing::TestWithParam<DType> {
  protected:
    ~RopePacks() override { simt::emulate({}); }

    struct Results {
        Matrix out, grad;
        std::vector<Matrix> tangents;
        std::set<std::string> kernels;
    };
    static Results results(bool gaps) {
        Setting setting{.op = &kRope, .compute = GetParam(), .gaps = gaps, .device = DeviceKind::cuda};
        RopeAttrs attrs{.heads = 3};
        for (int i = 0; i < 24; ++i) attrs.frequencies.push_back(std::pow(1e4, -i / 24.0));
        setting.op_case = {.name = "packs", .rows = 2, .sequence_length = 9, .documents = true};
        setting.op_case.spec = {.attrs = attrs, .in = {{3 * 48}}};
        const Trial trial(setting);
        Results all;
        simt::emulate({.launching = [&](const char* name) { all.kernels.insert(name); }});
        const ForwardResult forward = trial.forward(1);
        all.out = forward.out[0].matrix();
        all.grad = trial.backward(forward, 1, {.add_to_grad_in = true}).grad_in[0].matrix();
        for (const Value& tangent : trial.tangent(forward, 1)) all.tangents.push_back(tangent.matrix());
        return all;
    }
};

TEST_P(RopePacks, HaveTheBitsOfSingleNumbers) {
    const Results packs = results(false), numbers = results(true);
    EXPECT_EQ(packs.kernels, std::set<std::string>{"rope of packs"});
    EXPECT_EQ(numbers.kernels, std::set<std::string>{"rope"});
    EXPECT_EQ(packs.out.numbers, numbers.out.numbers);
    EXPECT_EQ(packs.grad.numbers, numbers.grad.numbers);
    ASSERT_EQ(packs.tangents.size(), numbers.tangents.size());
    for (size_t i = 0; i < packs.tangents.size(); ++i)
        EXPECT_EQ(packs.tangents[i].numbers, numbers.tangents[i].numbers);
}

INSTANTIATE_TEST_SUITE_P(Types, RopePacks, testing::Values(DType::bf16, DType::f32));

}  // namespace
}  // namespace windlass::agree
