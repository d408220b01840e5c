// all.h: the families by name; all.cpp is the list.
#pragma once

#include "model/families.h"

namespace windlass {

extern const Family kGemma2;
extern const Family kGemma3;
extern const Family kGemma3Text;
extern const Family kGpt2;
extern const Family kGranite;
extern const Family kLlama;
extern const Family kMistral;
extern const Family kOlmo2;
extern const Family kOpt;
extern const Family kPhi3;
extern const Family kQwen2;
extern const Family kQwen3;
extern const Family kSmollm3;

}  // namespace windlass
