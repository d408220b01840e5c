// token_row.h: rows of ids that another program made: {"input_ids", "labels"?, "attention_mask"?, ...}.
#pragma once

#include <string_view>

#include "base/json_fwd.h"
#include "rows/row_format.h"

namespace windlass {

// Reads ids and which of them are trained into `row`. What "attention_mask" hides at either end is padding and left
// out. Not trained is what "labels" has as -100, and what "completion_mask", "assistant_masks" or "loss_mask" has as 0.
// Throws UserError(data) naming `where`: lists of other types or lengths, a mask with a hole, ids that are no ids,
// position ids and token types that say that several documents share the row.
void read_token_row(const SortedJson& json, Row& row, std::string_view where);

}  // namespace windlass
