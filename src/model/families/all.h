// all.h: the families by name; all.cpp is the list.
#pragma once

#include "model/families.h"

namespace windlass {

extern const Family kGpt2;
extern const Family kLlama;
extern const Family kMistral;
extern const Family kOpt;
extern const Family kQwen2;
extern const Family kQwen3;

}  // namespace windlass
