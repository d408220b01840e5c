// shells.h: scripts by which shells complete words of windlass. They run nothing: what they know was there when they
// were printed.
#pragma once

#include <string>
#include <string_view>

namespace windlass {

struct Outline;

std::string bash_completion(const Outline& outline);
std::string zsh_completion(const Outline& outline);
std::string fish_completion(const Outline& outline);

// What zsh and fish show next to a word: the beginning of a text, of at most a line.
std::string shown_text(std::string_view text);
// 'a b', with single quotes as both shells and bash take them.
std::string single_quoted(std::string_view text);

}  // namespace windlass
