// fixtures.h: tokenizer folders for the tests, some made here from the published vocabularies of real models.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/place.h"
#include "tokenizer/tokenizer.h"

namespace windlass::fixtures {

using Json = nlohmann::json;

// A file of the shared data folder; empty when that folder is absent.
std::string shared(const std::string& path);

// A folder that goes away with the object.
class TempFolder {
  public:
    TempFolder();
    ~TempFolder();
    TempFolder(const TempFolder&) = delete;
    const std::string& path() const { return path_; }
    std::string write(const std::string& name, std::string_view text) const;
    void copy(const std::string& from, const std::string& name) const;

  private:
    std::string path_;
};

std::string read(const std::string& path);

// A tokenizer from a tokenizer.json given as text or as JSON.
Tokenizer load_json(const Json& tokenizer_json, const Json& config = nullptr);

// A tokenizer of this folder of the shared data, some files renamed on the way: {{"tokenizer.json", "20B_..."}}.
Tokenizer load_shared(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& names);

// Llama 2 from its SentencePiece model, as transformers converts it; Llama 3 from its tiktoken ranks.
const Tokenizer& llama2();
const Tokenizer& llama3();
const Tokenizer& qwen3();
const Tokenizer& gpt2();
const Tokenizer& pythia();
const Tokenizer& opt();
const Tokenizer& stories();

// A small byte-level tokenizer: the byte alphabet, some merges, <s> = 256 and </s> = 257.
Json small_tokenizer_json();
Tokenizer small_tokenizer();

}  // namespace windlass::fixtures
