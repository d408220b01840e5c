#include "run/generated_answers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/index.h"

namespace windlass {
namespace {

// The first answer token of a row, counted from the row's start. The token before it is the first that has a target.
int64_t answer_begin(std::span<const int32_t> targets, int64_t count) {
    const auto has_target = [](int32_t target) { return target != kIgnored; };
    const auto first = std::find_if(targets.begin(), targets.end(), has_target);
    const auto end = std::find(first, targets.end(), kIgnored);
    WINDLASS_CHECK(end - first == count && std::none_of(end, targets.end(), has_target),
                   "a row has {} targets in one run, and its answer {} tokens", end - first, count);
    return first - targets.begin() + 1;
}

}  // namespace

GeneratedAnswers::GeneratedAnswers(const ObjectiveRows& rows, std::span<const Batch> micro, int points) : rows_(rows) {
    WINDLASS_CHECK(rows.answers.has_value() && !micro.empty(), "nothing says how answers are written");
    const int64_t sequence_length = micro[0].sequence_length, micro_batch_size = micro[0].rows;
    for (const ObjectiveExample& example : rows.examples) {
        const Batch& batch = micro[at(example.first_row / micro_batch_size)];
        const int64_t row = example.first_row % micro_batch_size;
        const std::span targets(batch.targets + row * sequence_length, at(sequence_length));
        const int64_t begin = answer_begin(targets, rows.answers->max_new_tokens);
        begins_.push_back(at(example.first_row * sequence_length + begin));
    }
    points_.resize(at(points));
    for (Point& point : points_) {
        point.answers.resize(rows.examples.size());
        for (const Batch& batch : micro)
            point.tokens.insert(point.tokens.end(), batch.tokens, batch.tokens + batch.count());
        const int32_t* tokens = point.tokens.data();
        for (const Batch& batch : micro) {
            point.micro.push_back(batch);
            point.micro.back().tokens = tokens;
            tokens += batch.count();
        }
    }
}

const Batch& GeneratedAnswers::batch(int point, int micro) const {
    return points_[at(point)].micro[at(micro)];
}

void GeneratedAnswers::take(int point, std::span<const float> likeliest) {
    Point& taken = points_[at(point)];
    WINDLASS_CHECK(likeliest.size() == taken.tokens.size(), "{} tokens are told of {}", likeliest.size(),
                   taken.tokens.size());
    const size_t count = at(rows_.answers->max_new_tokens);
    for (size_t example = 0; example < begins_.size(); ++example) {
        const size_t begin = begins_[example];
        // What is said at a token is of the one after it.
        go_on(taken.answers[example], likeliest.subspan(begin - 1, count),
              std::span(taken.tokens).subspan(begin, count));
    }
}

void GeneratedAnswers::go_on(Answer& answer, std::span<const float> likeliest, std::span<int32_t> guesses) const {
    for (bool is_known = true; is_known && !answer.is_whole;) {
        const size_t next = answer.ids.size();
        if (std::isnan(likeliest[next])) {
            answer.is_whole = answer.is_wrong = true;
            return;
        }
        const auto id = static_cast<int32_t>(likeliest[next]);
        is_known = guesses[next] == id;
        add(answer, id);
    }
    std::copy(answer.ids.begin(), answer.ids.end(), guesses.begin());
    for (size_t i = answer.ids.size(); i < guesses.size(); ++i)
        if (!std::isnan(likeliest[i])) guesses[i] = static_cast<int32_t>(likeliest[i]);
}

void GeneratedAnswers::add(Answer& answer, int32_t id) const {
    const AnswerRules& rules = *rows_.answers;
    if (std::count(rules.end_ids.begin(), rules.end_ids.end(), id) > 0) {
        answer.is_whole = true;
        return;
    }
    answer.ids.push_back(id);
    answer.is_whole = std::ssize(answer.ids) == rules.max_new_tokens || rules.is_whole(answer.ids);
}

bool GeneratedAnswers::is_done() const {
    bool is_whole = true;
    for (const Point& point : points_) {
        for (const Answer& answer : point.answers) {
            if (answer.is_wrong) return true;
            is_whole = is_whole && answer.is_whole;
        }
    }
    return is_whole;
}

std::span<const int32_t> GeneratedAnswers::ids(int point, int64_t example) const {
    return points_[at(point)].answers[at(example)].ids;
}

std::vector<double> GeneratedAnswers::losses() const {
    std::vector<double> losses;
    for (const Point& point : points_) {
        double& sum = losses.emplace_back(0);
        for (size_t example = 0; example < point.answers.size(); ++example) {
            const Answer& answer = point.answers[example];
            sum += answer.is_wrong ? std::numeric_limits<double>::quiet_NaN()
                                   : rows_.answers->loss(static_cast<int64_t>(example), answer.ids);
        }
    }
    return losses;
}

}  // namespace windlass
