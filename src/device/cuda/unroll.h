// unroll.h: loops over arrays that are to lie in registers: nvcc takes all turns apart; the host's compiler knows no
// such pragma. Loops of many turns that need few registers are to stay loops.
#pragma once

#ifdef __CUDACC__
#define WINDLASS_UNROLL _Pragma("unroll")
#define WINDLASS_LOOP _Pragma("unroll 1")
#else
#define WINDLASS_UNROLL
#define WINDLASS_LOOP
#endif
