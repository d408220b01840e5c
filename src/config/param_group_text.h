// param_group_text.h: a parameter group as people write it, on one line: "*norm* weight_decay=0 train=true".
//
// A glob over names, and after it, parted by spaces, what is set for all that it matches: train=true|false,
// learning_rate_scale=number, weight_decay=number. Configuration, run.yaml, run states and trajectory logs hold groups
// in this form.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "method/param_groups.h"

namespace windlass {

// Returns what is wrong with it, empty when nothing is.
std::string read_param_group(std::string_view text, ParamGroup& group);
// What has its default is left out: equal groups have equal texts.
std::string param_group_text(const ParamGroup& group);
std::vector<std::string> param_group_texts(const TrainedModel& model);

// Parses groups. UserError(storage, where) for a text that is no group, and for too many.
std::vector<ParamGroup> param_groups_of(std::span<const std::string> texts, std::string_view where);

// The same of an object {"match": ..., "train": ...}, as a YAML or JSON file may write it, member by member. Throws
// UserError(usage, where) if there is no match, or if a value does not fit on one line.
std::string param_group_line(const std::vector<std::pair<std::string, std::string>>& members, std::string_view where);

// What `freeze` and `param_groups` say, in the order in which they are matched. Both have been checked.
std::vector<ParamGroup> param_groups_of(const Config& config);
// Appends what is wrong with either.
void check_param_groups(const Config& config, std::vector<std::string>& problems);

}  // namespace windlass
