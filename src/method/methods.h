// methods.h: the methods and the phases there are; all.cpp lists them.
#pragma once

#include "method/phase.h"
#include "method/recipe.h"

namespace windlass {

extern const Method kAdamw;
extern const Method kZerothOrder;
extern const Method kForwardGradient;
extern const Method kLomo;
extern const Method kAdalomo;

extern const Phase kProjectorRefresh;

}  // namespace windlass
