// config_readers.h: which verbs read a key of the configuration.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace windlass {

// Verbs that take configuration; a set of them is the sum of their bits.
enum class ConfigReader : uint32_t { plan = 1, train = 2, eval = 4, generate = 8, chat = 16, data = 32 };
using ConfigReaders = uint32_t;

// Of a verb's name; 0 for a verb that takes no configuration.
ConfigReaders reader_of_verb(std::string_view verb);
// Of a key's name. Every key is in the table: a key without readers is an error of ours.
ConfigReaders readers_of_key(std::string_view key);
// "plan", "train".
std::vector<std::string_view> verbs_of_readers(ConfigReaders readers);
// "plan, train"; "all" for all of them.
std::string readers_text(ConfigReaders readers);

}  // namespace windlass
