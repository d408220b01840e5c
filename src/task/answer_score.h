// answer_score.h: how good a written answer is, compared with the right ones.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "task/task.h"

namespace windlass {

// Small letters, no ASCII punctuation, no articles (a, an, the), single spaces: how SQuAD compares answers (Rajpurkar
// et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text", EMNLP 2016, section 6.1).
std::string normalized_answer(std::string_view text);

// The last number in a text, with thousands apart or not: "about $1,000.50." gives 1000.5.
std::optional<double> last_number(std::string_view text);

// Between 0 and 1, the best over the right answers. f1: the harmonic mean of precision and recall over the words of the
// normalised texts, each as often as it is there. exact_match: 1 where the normalised texts are equal. number: 1
// where the last numbers are equal. accuracy is not for written answers.
double answer_score(TaskMetric metric, std::string_view answer, std::span<const std::string> right);

}  // namespace windlass
