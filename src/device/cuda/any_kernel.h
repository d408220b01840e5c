// any_kernel.h: a kernel to ask about: it is compiled for the same cards as all others.
#pragma once

namespace windlass {

const void* any_kernel();

}  // namespace windlass
