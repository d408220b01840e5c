// answer_places.h: the texts that a conversation is trained as, and where in them its answers are (chat_sample.h says
// by which rules).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "rows/chat.h"
#include "rows/chat_format.h"
#include "rows/chat_losses.h"
#include "rows/rows.h"

namespace windlass {

// One text, or where the template writes earlier turns otherwise than the last, one for each answer. Of many
// answers in one text each is found in a few of the messages around it: all together take time that grows with the
// conversation. Throws UserError(data) naming `where`. `messages_written`, if given: of all renderings together.
std::vector<LearntText> learnt_texts(const Chat& chat, const ChatFormat& format, TrainTurns turns,
                                     const std::vector<size_t>& answers, std::string_view where,
                                     size_t* messages_written = nullptr);

}  // namespace windlass
