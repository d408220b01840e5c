// targets.h: what is fuzzed: the readers of files from outside, each as a function over bytes.
//
// A reader returns, or throws an Error of ours other than ExitCode::internal; judge.h says what else is a finding. It
// reads from memory alone (input_files.h), and keeps nothing from one input to the next that a later one could see.
// docs/dev/testing.md says how to add one.
#pragma once

#include <span>
#include <string_view>

namespace windlass {

struct FuzzTarget {
    std::string_view name;                 // of its source file, and of its folder in corpus/
    void (*read)(std::string_view input);  // fuzz_<name>
    std::string_view words = "";           // that mutations put into inputs, parted by spaces
};

// In the order of their names.
std::span<const FuzzTarget> fuzz_targets();
// Null: there is none of this name.
const FuzzTarget* find_fuzz_target(std::string_view name);

void fuzz_adapter(std::string_view input);
void fuzz_chats(std::string_view input);
void fuzz_compressed(std::string_view input);
void fuzz_configuration(std::string_view input);
void fuzz_export_request(std::string_view input);
void fuzz_expression(std::string_view input);
void fuzz_foreign(std::string_view input);
void fuzz_machine(std::string_view input);
void fuzz_manifest(std::string_view input);
void fuzz_model_config(std::string_view input);
void fuzz_preset(std::string_view input);
void fuzz_references(std::string_view input);
void fuzz_rows(std::string_view input);
void fuzz_run_state(std::string_view input);
void fuzz_safetensors(std::string_view input);
void fuzz_store(std::string_view input);
void fuzz_task(std::string_view input);
void fuzz_template(std::string_view input);
void fuzz_token_cache(std::string_view input);
void fuzz_tokenizer(std::string_view input);
void fuzz_trajectory(std::string_view input);
void fuzz_vocab_merges(std::string_view input);

}  // namespace windlass
