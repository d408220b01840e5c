// methods.h: the methods there are; all.cpp lists them.
#pragma once

#include "method/recipe.h"

namespace windlass {

extern const Method kAdamw;
extern const Method kZerothOrder;
extern const Method kForwardGradient;
extern const Method kLomo;
extern const Method kAdalomo;

}  // namespace windlass
