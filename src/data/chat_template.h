// chat_template.h: says when rows are written in another way than the model's own chats.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "text/row_format.h"

namespace windlass {

// The file of a model folder that holds a chat template; empty: none does.
std::string chat_template_file(FileSystem& files, const std::string& folder);

// Warns, once for all files, where rows are put into the Alpaca prompt although the model has a chat template. Reads
// the first row of each file; what is wrong with it is left for whoever reads the rows.
void warn_of_unused_template(FileSystem& files, const std::string& folder, const std::vector<std::string>& paths,
                             const FieldNames& fields);

}  // namespace windlass
