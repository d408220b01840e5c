// shell_word.h: commands that are printed so that they work when they are pasted into a shell.
#pragma once

#include <span>
#include <string>

namespace windlass {

// The word as a shell reads it back: quoted where it has to be.
std::string shell_word(const std::string& word);
// Such words, separated by spaces.
std::string shell_command(std::span<const std::string> words);

}  // namespace windlass
