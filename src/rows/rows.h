// rows.h: from the rows of a data file to samples: token ids and which of them are learned.
//
// A sample begins with the tokenizer's own prefix (BOS), once, and ends with EOS, once, if the tokenizer has one.
// Its first token is never a target: nothing precedes it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "rows/row_format.h"
#include "tokenizer/tokenizer.h"

namespace windlass {

class ChatFormat;

struct Sample {
    std::vector<int32_t> ids;
    std::vector<uint8_t> trained;  // one per id; 1: the token is a target of the loss

    int64_t trained_count() const;
};

// What becomes of a sample longer than max_length.
enum class Truncation {
    drop,
    left,   // keeps the prefix and the end
    right,  // keeps the beginning
    split,  // several samples; each repeats the last token of the one before, so that every target stays one, once
    error,
};

// Which messages of a conversation are learned.
enum class TrainTurns { assistant, last, all };

struct RowsOptions {
    int64_t max_length = 0;  // tokens, 0: no limit; else at least 2
    Truncation truncation = Truncation::drop;
    std::optional<Truncation> text_truncation;  // of rows that are text and nothing else; absent: as of the others
    bool train_on_prompt = false;
    bool add_eos = true;             // not for pre-tokenised rows, which are taken as they are
    bool skip_malformed = false;     // count malformed rows instead of stopping at the first
    std::string document_separator;  // .txt: a line holding only this ends a document; empty: the file is one
    FieldNames fields;
    const ChatFormat* chats = nullptr;   // how conversations, and Alpaca's rows, are written; null: they are not
    std::string chat_template = "auto";  // as it was asked for
    TrainTurns train_turns = TrainTurns::assistant;
    bool pairs = false;  // a row is a pair of answers and makes two samples, one after the other
    std::function<void(const UserError&)>
        on_malformed;  // with skip_malformed: hears of each; absent: the first is logged
};

struct RowsReport {
    int64_t rows = 0;               // in the file
    int64_t samples = 0;            // handed out
    int64_t malformed = 0;          // rows skipped because they say nothing we understand
    int64_t dropped_long = 0;       // rows dropped because they are longer than max_length
    int64_t dropped_empty = 0;      // samples dropped because no token of them is a target
    int64_t truncated = 0;          // rows cut or split
    int64_t prefix_mismatches = 0;  // rows whose prompt and completion had to be tokenised apart
    int64_t tokens = 0;             // of the samples handed out
    int64_t trained_tokens = 0;
    RowNotes notes;  // what else a user should know of them

    void add(const RowsReport& other);
    // "5,000 rows: 4,990 samples, 1.2 M tokens, ..." naming only what happened.
    std::string summary() const;
};

// Calls `visit` with each sample, in file order, until it answers false. Throws UserError(data) that names file and
// line, or UserError(usage) for options that contradict.
RowsReport for_each_sample(FileSystem& files, const std::string& path, const RowsOptions& options,
                           const Tokenizer& tokenizer, const std::function<bool(Sample&&)>& visit);

// Adds skip_malformed to what the error of a malformed row says of ways out.
void offer_to_skip(UserError& error);

// The options as one line: equal lines make equal samples.
std::string describe(const RowsOptions& options);

}  // namespace windlass
