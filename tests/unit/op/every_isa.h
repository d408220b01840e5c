// every_isa.h: runs a test on each instruction set that this machine has.
#pragma once

#include <gtest/gtest.h>

#include "device/cpu/isa.h"

namespace windlass {

template <typename Body>
void on_every_isa(Body body) {
    const Isa before = cpu_isa();
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
        if (isa > detected_isa()) continue;
        SCOPED_TRACE(isa_name(isa));
        set_cpu_isa(isa);
        body();
    }
    set_cpu_isa(before);
}

}  // namespace windlass
