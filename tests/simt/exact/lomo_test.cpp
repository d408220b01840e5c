// LOMO's and AdaLomo's updates on CUDA devices have the CPU's bits, however weights are kept.
#include "tests/agree/visible.h"
#include "tests/simt/emulated.h"
#include "tests/unit/method/lomo_param.h"

namespace windlass {
namespace {

using VisibleParam = LomoParam<agree::VisibleVector<std::byte>>;

void expect_the_cpus_bits(const LomoCase& each) {
    SCOPED_TRACE(name_of(each));
    const std::unique_ptr<Device> cpu = make_device({}), cuda = make_device({DeviceKind::cuda});
    VisibleParam on_cpu(each, DeviceKind::cpu), on_cuda(each, DeviceKind::cuda);
    ASSERT_EQ(on_cpu.bytes(), on_cuda.bytes());
    const std::string before = on_cpu.bytes();
    for (int64_t number = 1; number <= 3; ++number) {
        for (VisibleParam* const param : {&on_cpu, &on_cuda}) {
            draw_gradient(static_cast<uint64_t>(number), param->gradient());
            param->update(param == &on_cpu ? *cpu : *cuda, param->prepared(number, 1e-2, number == 2 ? 0.5 : 1), 2);
        }
        EXPECT_TRUE(on_cpu.bytes() == on_cuda.bytes()) << "step " << number;
    }
    EXPECT_NE(on_cpu.bytes(), before);
}

TEST(LomoUpdate, HasTheCpusBits) {
    for (const LomoCase& each : lomo_cases()) expect_the_cpus_bits(each);
}

TEST(SlowLomoUpdate, HasTheCpusBits) {
    for (const char* const method : {"lomo", "adalomo"}) {
        for (const bool split : {false, true})
            expect_the_cpus_bits({.method = method, .shape = {simt::many() / 1000, 1001}, .split = split});
    }
}

}  // namespace
}  // namespace windlass
