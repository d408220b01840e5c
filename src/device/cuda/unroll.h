// unroll.h: loops over arrays that are to lie in registers: nvcc takes all turns apart; the host's compiler knows no
// such pragma.
#pragma once

#ifdef __CUDACC__
#define WINDLASS_UNROLL _Pragma("unroll")
#else
#define WINDLASS_UNROLL
#endif
