// model_card.h: README.md of a model folder or an adapter that a run made: what the Hub shows, and what its search
// reads.
//
// It says what the run's state and its run.yaml say, and nothing else: the same step gives the same bytes, whenever it
// is exported. No dates, no paths but the names of files.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "state/run_state.h"
#include "state/save_output.h"

namespace windlass {

// What the card of a run says besides its state. Texts are of others: anything.
struct CardSource {
    std::string base_id, base_revision;  // of the base on the Hub; empty where it was a folder
    std::string base_readme;             // text of the base's own card, for its licence; may be empty
    std::vector<std::string> data;       // files of rows, by their paths or names
    std::string objective;               // "dpo"; empty: the loss of the rows, or not known
    bool is_adapter = false;             // the folder holds one, and not a whole model
    bool has_chat_template = false;
};

// The text.
std::string model_card(const CardSource& source, const RunState& state);

// The card for this form of this state, with what the run's run.yaml says; for a state that was moved away
// from its run, what the state says alone.
std::string card_of_run(FileSystem& files, const std::string& run_folder, const RunState& state,
                        const OutputSource& source, OutputForm form);

}  // namespace windlass
