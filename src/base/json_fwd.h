// json_fwd.h: the names of JSON's types, for headers that only speak of them. base/json.h has the types themselves.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace windlass {

using Json = nlohmann::ordered_json;
using SortedJson = nlohmann::json;  // for documents with very large objects: Json looks a key up in linear time

}  // namespace windlass
