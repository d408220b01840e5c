// words.h: configuration from the words after a verb.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/cli/hub_download.h"
#include "config/config.h"
#include "format/gguf.h"

namespace windlass {

class VerbOutput;

// From now on config_from_words refuses settings that name files outside of the folders, whatever they came from: the
// command line, a run's own file, a preset, an adapter's base. Relative names count from the first one. None: no limit.
void keep_within(const std::vector<std::string>& folders);

// Reads and checks; notes are logged. `download`: the model is downloaded first if it is not there.
Config config_from_words(const std::vector<std::string>& words, ConfigUse use, Download download);

// The folder of the model that this name means (config/model_place.h). Prints a line if it differs from the name.
std::string model_folder(const std::string& name, Download download);

// What a flag --download asks for.
Download download_of(bool is_given, HubFiles which);

// "MODEL --key value ..." as configuration: the first word that is no flag is the model.
std::vector<std::string> name_model(std::vector<std::string> words);

// What --type names; nothing where it was not given.
std::optional<GgufType> gguf_type_of_flag(const std::string& name);

// To stdout, whole, before the program ends, control characters escaped (base/printable.h: JSON stays JSON).
// MachineError if stdout is closed.
void print_result(const std::string& text);
// Text that a model wrote: as it is for a file or a pipe, control characters escaped for a terminal.
void print_prose(const std::string& text);
// Text whose control characters are escaped already, but for colours of ours.
void print_colored(const std::string& text);
// A model folder that was written: these bytes, the weights after this step of a run, where one is known.
void print_folder(VerbOutput& out, const std::string& folder, const std::string& from, std::optional<int64_t> step,
                  int64_t bytes);

}  // namespace windlass
