// kinds.h: the names of the adapters, for the list.
#pragma once

#include "model/adapters/adapter.h"

namespace windlass {

extern const AdapterKind kLora;
extern const AdapterKind kIa3;
extern const AdapterKind kLsp;
extern const AdapterKind kTokens;

}  // namespace windlass
