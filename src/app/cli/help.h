// help.h: what --help prints.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace windlass {

// Of the whole program; with `whole`, every setting too.
std::string program_help(bool whole, int columns);
// Of one verb: its flags and the settings that matter most; with `whole`, all settings that it reads.
std::string verb_help(const CLI::App& verb, bool whole, int columns);

}  // namespace windlass
