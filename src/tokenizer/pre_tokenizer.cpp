#include "tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode_class.h"

namespace windlass {

const std::string_view kGpt2Split = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

struct Segment {
    Span span;
    bool is_match = false;
};

std::vector<Segment> segments_of(size_t bytes, const std::vector<Span>& matches, bool invert) {
    std::vector<Segment> segments;
    size_t end = 0;
    for (const Span& match : matches) {
        if (match.begin != end) segments.push_back({{end, match.begin}, invert});
        segments.push_back({match, !invert});
        end = match.end;
    }
    if (end != bytes) segments.push_back({{end, bytes}, invert});
    return segments;
}

// Joins each match that follows something else to the piece before it (in the order of iteration).
template <typename Iterator, typename Join>
std::vector<Span> merge_matches(Iterator begin, Iterator end, Join join) {
    std::vector<Span> out;
    bool previous_match = false;
    for (; begin != end; ++begin) {
        if (begin->is_match && !previous_match && !out.empty())
            join(out.back(), begin->span);
        else
            out.push_back(begin->span);
        previous_match = begin->is_match;
    }
    return out;
}

std::vector<Span> merge_equal_neighbours(const std::vector<Segment>& segments) {
    std::vector<Span> out;
    bool previous_match = false;
    for (const Segment& segment : segments) {
        if (segment.is_match == previous_match && !out.empty())
            out.back().end = segment.span.end;
        else
            out.push_back(segment.span);
        previous_match = segment.is_match;
    }
    return out;
}

// The new spans of a step that only cuts: `cut_one` gets the text of one piece and answers with its parts.
template <typename CutOne>
void cut_each(Pieces& pieces, CutOne cut_one) {
    std::vector<Span> spans;
    spans.reserve(pieces.spans.size());
    for (const Span& span : pieces.spans) {
        const auto piece = std::string_view(pieces.text).substr(span.begin, span.end - span.begin);
        for (const Span& part : cut_one(piece))
            if (part.begin != part.end) spans.push_back({span.begin + part.begin, span.begin + part.end});
    }
    pieces.spans = std::move(spans);
}

// A step that rewrites each piece: `rewrite` appends the new text of one piece.
template <typename Rewrite>
void rewrite_each(Pieces& pieces, Rewrite rewrite) {
    std::string text;
    text.reserve(pieces.text.size() + pieces.text.size() / 2);
    for (Span& span : pieces.spans) {
        const size_t begin = text.size();
        const auto piece = std::string_view(pieces.text).substr(span.begin, span.end - span.begin);
        rewrite(piece, pieces.starts_input && span.begin == 0, text);
        span = {begin, text.size()};
    }
    pieces.text = std::move(text);
}

void run(const SplitStep& step, Pieces& pieces) {
    cut_each(pieces, [&](std::string_view piece) {
        return split_at(piece.size(), step.pattern.find_all(piece), step.behavior, step.invert);
    });
}

void run(const ByteLevelStep& step, Pieces& pieces) {
    if (step.add_prefix_space)
        rewrite_each(pieces, [](std::string_view piece, bool, std::string& out) {
            if (!piece.starts_with(' ')) out += ' ';
            out += piece;
        });
    if (step.use_regex)
        cut_each(pieces, [&](std::string_view piece) {
            return split_at(piece.size(), step.pattern.find_all(piece), SplitBehavior::isolated, false);
        });
    rewrite_each(pieces, [](std::string_view piece, bool, std::string& out) { out += spell_bytes(piece); });
}

void run(const MetaspaceStep& step, Pieces& pieces) {
    rewrite_each(pieces, [&](std::string_view piece, bool at_start, std::string& out) {
        const bool wants_mark =
            step.prepend == PrependScheme::always || (step.prepend == PrependScheme::first && at_start);
        if (wants_mark && !piece.starts_with(' ') && !piece.starts_with(step.mark)) out += step.mark;
        for (const char c : piece) {
            if (c == ' ')
                out += step.mark;
            else
                out += c;
        }
    });
    if (!step.split) return;
    const Pattern mark = Pattern::literal(step.mark);
    cut_each(pieces, [&](std::string_view piece) {
        return split_at(piece.size(), mark.find_all(piece), SplitBehavior::merged_with_next, false);
    });
}

void run(const DigitsStep& step, Pieces& pieces) {
    cut_each(pieces, [&](std::string_view piece) {
        std::vector<Span> digits;
        for (size_t at = 0; at < piece.size();) {
            const CodePoint point = first_code_point(piece.substr(at));
            if (is_numeric(point.value)) digits.push_back({at, at + point.bytes});
            at += point.bytes;
        }
        return split_at(piece.size(), digits, step.individual ? SplitBehavior::isolated : SplitBehavior::contiguous,
                        false);
    });
}

}  // namespace

std::vector<Span> split_at(size_t bytes, const std::vector<Span>& matches, SplitBehavior behavior, bool invert) {
    const std::vector<Segment> segments = segments_of(bytes, matches, invert);
    std::vector<Span> out;
    switch (behavior) {
        case SplitBehavior::removed:
            for (const Segment& segment : segments)
                if (!segment.is_match) out.push_back(segment.span);
            break;
        case SplitBehavior::isolated:
            for (const Segment& segment : segments) out.push_back(segment.span);
            break;
        case SplitBehavior::contiguous:
            out = merge_equal_neighbours(segments);
            break;
        case SplitBehavior::merged_with_previous:
            out = merge_matches(segments.begin(), segments.end(), [](Span& left, Span match) { left.end = match.end; });
            break;
        case SplitBehavior::merged_with_next:
            out = merge_matches(segments.rbegin(), segments.rend(),
                                [](Span& right, Span match) { right.begin = match.begin; });
            std::reverse(out.begin(), out.end());
            break;
    }
    return out;
}

Pieces PreTokenizer::cut(std::string text, bool starts_input) const {
    Pieces pieces;
    pieces.starts_input = starts_input;
    if (!text.empty()) pieces.spans.push_back({0, text.size()});
    pieces.text = std::move(text);
    for (const auto& step : steps_) std::visit([&](const auto& concrete) { run(concrete, pieces); }, step);
    return pieces;
}

}  // namespace windlass
