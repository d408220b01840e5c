// next_commands.h: what a user may type after a run: whole commands, quoted for a shell, with paths as they were given.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "persist/run_folder.h"
#include "session/session.h"
#include "train/train.h"

namespace windlass {

// How a run that was stopped continues.
std::string resume_command(const std::string& run_folder);
// How one that saved nothing begins again.
std::string overwrite_command(const std::string& run_folder);

// After a run that wrote final/: talk to it; a GGUF file, where the family has one and the run a state that it is made
// from, and Ollama with it; vLLM, where it serves such an adapter; upload, with OWNER/NAME for the user to replace.
// Reads the tokenizer: not within a run's memory.
std::vector<NextCommand> next_commands(FileSystem& files, const Session& session, const std::string& run_folder);

// They, in lines of the log.
void tell_next(const std::vector<NextCommand>& commands);

}  // namespace windlass
