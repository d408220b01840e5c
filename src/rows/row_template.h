// row_template.h: text with places for the fields of a row: "{question:question}\nAnswer:".
//
//   {field}            the text of a field
//   {a|b}              the first of these that the row has
//   {a.b}              a field of a field
//   {field:strip:...}  what filters make of it, from left to right
//   {{  }}             braces
//
// Immutable once parsed; what it costs to fill one is bounded by the texts that it puts together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace windlass {

enum class TextFilter : uint8_t {
    strip,     // no white space at either end
    lower,     // in small letters
    capital,   // the first letter a capital
    small,     // the first word in small letters, unless it is "I"
    question,  // with a question mark at the end
    no_stop,   // without the full stop at the end
};

// The text of a row's field; nothing where the row lacks it.
using FieldText = std::function<std::optional<std::string>(const std::string& path)>;

class RowTemplate {
  public:
    RowTemplate() = default;
    // Throws UserError(usage) naming `where`: a brace without its partner, a filter that there is not.
    static RowTemplate parse(std::string_view text, std::string_view where);

    // Throws UserError(data) naming `where` for a row that lacks a field.
    std::string fill(const FieldText& field, std::string_view where) const;
    bool is_empty() const { return pieces_.empty(); }

  private:
    struct Piece {
        std::string text;                 // where there are no fields
        std::vector<std::string> fields;  // the first one that the row has is here
        std::vector<TextFilter> filters;
    };
    static Piece parse_place(std::string_view place, std::string_view where);

    std::vector<Piece> pieces_;
};

// The text without white space (of ASCII) at either end.
std::string_view stripped(std::string_view text);

}  // namespace windlass
