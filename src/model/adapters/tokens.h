// tokens.h: rows of single tokens that train next to a frozen table: peft's trainable tokens.
//
// What is trained is the difference D [tokens, width] of the rows from the table's own, so that the table is only read:
// W + P D, where P [vocabulary, tokens] is fixed and has a 1 for each token. peft's files hold the rows themselves.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/save.h"
#include "model/spec.h"

namespace windlass {

// Tokens of the modules whose names end so.
struct ModuleTokens {
    std::string module;  // empty: the table of tokens
    std::vector<int64_t> tokens;
};
// AdapterSettings::tokens, from what `where` says. UserError(code): no such table, a token that the model lacks, one
// twice, none; tokens for one end of a tied table alone.
std::map<std::string, std::vector<int64_t>, std::less<>> tokens_by_layer(const ModelSpec& model,
                                                                         std::span<const ModuleTokens> said,
                                                                         ExitCode code, const std::string& where);

// The layer whose tokens both ends of a tied table train; empty: none.
std::string shared_tokens(const ModelSpec& model, const AdapterSettings& settings);

// Numbers [first, first + out.size()) of P.
void one_hot(const std::vector<int64_t>& tokens, int64_t first, std::span<float> out);

// What peft calls the rows, after the name of their module.
std::string rows_part(const AdapterSettings& settings);
// Whether it is a D.
bool is_token_rows(const ModelSpec& model, const ParamSpec& param);
// The numbers of the table's own rows in the places [first, first + count) of this D. table: numbers of parameters of
// the model in pieces that begin and end with a block of 64, or end with the parameter.
std::vector<float> own_rows(const ModelSpec& model, const ParamSpec& rows, int64_t first, int64_t count,
                            const ReadMasters& table);
// Makes the rows of a D's numbers from `first` on.
void add_own_rows(const ModelSpec& model, const ParamSpec& rows, int64_t first, std::span<float> numbers,
                  const ReadMasters& table);

}  // namespace windlass
