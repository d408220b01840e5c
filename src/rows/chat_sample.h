// chat_sample.h: from a conversation to samples: its text as ids, and which of them are learned.
//
// Learned is what the model writes: an answer and the token that ends its turn, not what the template puts after it.
// Its place is found in this order, and each step proves what it takes:
//
//   1. the template marks it ({% generation %});
//   2. the text of the turns before it, with the prompt of an answer, begins the text of the whole;
//   3. that prompt parts from the text (some templates write <think> after it that no earlier answer has): where they
//   part;
//   4. the template writes earlier turns otherwise than the last: a sample for each answer, with its own context;
//   5. the template writes the answer's content, and something else in its place: where those part (an answer before
//   which the template can write nothing);
//   6. an error.
//
// Of many answers each is found in a window of few turns, whose text continues as that of the whole does, and some of
// them in the text of all turns before them too (answer_places.h).
//
// What the row gives must be in what is written: an answer that is not written at all is an error, and other losses
// are noted. An answer that gives nothing is not learned.
#pragma once

#include <string_view>
#include <vector>

#include "rows/chat.h"
#include "rows/chat_format.h"
#include "rows/rows.h"

namespace windlass {

// Bytes of text that one row may make the template write, all its renderings together: they bound the time of a row.
inline constexpr size_t kChatRenderedBytesMax = size_t{1} << 30;

// Every sample learns something; there is none where all answers that may be learned are empty. Throws UserError(data)
// naming `where`: nothing to learn, an answer whose turn no token ends, a template that cannot write the conversation
// or writes nothing of an answer. What else it leaves out goes to `notes`. `add_eos`: an answer at the end of the text,
// which no token ends, gets the tokenizer's EOS.
std::vector<Sample> chat_samples(Chat chat, const ChatFormat& format, TrainTurns turns, bool add_eos,
                                 std::string_view where, RowNotes& notes);

}  // namespace windlass
