// contraction.h: products contract into sums in all that follows in the file that includes this, and in it alone. The
// build turns contraction off; these ops' bits may follow the instruction set, never the team's size.
#pragma once

#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif
