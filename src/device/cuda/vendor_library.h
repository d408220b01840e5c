// vendor_library.h: where NVIDIA's shared libraries are, which no package of ours contains.
#pragma once

#include <string>
#include <vector>

namespace windlass {

// Names to try for a library, in this order, each an existing file but the bare one:
//
//   folders of WINDLASS_CUDA_LIBRARIES, separated by colons; a folder without it is skipped
//   next to the program, and in ../lib from there
//   packages of Python next to ours: ../../nvidia/*/lib (the program of a wheel is in SITE/windlass_train/bin)
//   the bare name, for the system's loader
//   /usr/local/cuda/lib64
//
// `folders`: the value of the variable. `program`: the folder that holds the program.
std::vector<std::string> vendor_library_names(const std::string& file, const std::string& folders,
                                              const std::string& program);

// dlopen() of the first of them that can be opened. UserError(gpu) with what to install or set.
void* open_vendor_library(const std::string& file);

}  // namespace windlass
