// place.h: where tests find the project's own files, its programs, and data that lie beside it.
#pragma once

#include <string>

namespace windlass {

/// The root of the source tree.
const std::string& source_dir();

/// The root of the build tree, where programs lie.
const std::string& binary_dir();

/// The path of `name` among the real models and data beside the project, which may be absent.
std::string shared_data(const std::string& name);

}  // namespace windlass
