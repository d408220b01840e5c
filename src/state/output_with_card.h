// output_with_card.h: what a run has made of its model, with a card that says how.
#pragma once

#include "model/save_with_card.h"
#include "state/save_output.h"

namespace windlass {

// As without a card.
void save_output(FileSystem& files, const OutputSource& source, const std::string& target, const OutputOptions& options,
                 const ReadMasters& masters, const CardText& card);

}  // namespace windlass
