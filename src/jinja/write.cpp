// How values are written: str, repr and json.dumps.
#include <charconv>

#include "base/utf8.h"
#include "jinja/operators.h"
#include "jinja/python_text.h"

namespace windlass::jinja {
namespace {

void write_quoted(TextBuilder& out, std::string_view text) {
    const bool has_single = text.find('\'') != std::string_view::npos,
               has_double = text.find('"') != std::string_view::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    out.add(quote);
    for (size_t at = 0; at < text.size();) {
        const CodePoint point = first_code_point(text.substr(at));
        const char32_t value = point.value;
        if (value == static_cast<char32_t>(quote) || value == '\\')
            out.add(fmt::format("\\{}", static_cast<char>(value)));
        else if (value == '\n')
            out.add("\\n");
        else if (value == '\r')
            out.add("\\r");
        else if (value == '\t')
            out.add("\\t");
        else if (is_printable(value))
            out.add(text.substr(at, point.bytes));
        else if (value < 0x100)
            out.add(fmt::format("\\x{:02x}", static_cast<uint32_t>(value)));
        else if (value < 0x10000)
            out.add(fmt::format("\\u{:04x}", static_cast<uint32_t>(value)));
        else
            out.add(fmt::format("\\U{:08x}", static_cast<uint32_t>(value)));
        at += point.bytes;
    }
    out.add(quote);
}

void write_items(TextBuilder& out, std::span<const Value> items, std::string_view open, std::string_view close) {
    out.add(open);
    for (size_t i = 0; i < items.size(); ++i) {
        if (i > 0) out.add(", ");
        write_repr(out, items[i]);
    }
    out.add(close);
}

void write_dict(TextBuilder& out, const Mapping& mapping) {
    out.add('{');
    for (size_t i = 0; i < mapping.size; ++i) {
        if (i > 0) out.add(", ");
        write_repr(out, mapping.members[i].key);
        out.add(": ");
        write_repr(out, mapping.members[i].value);
    }
    out.add('}');
}

void write_json_text(TextBuilder& out, std::string_view text, bool is_ascii) {
    static constexpr std::string_view kPlain = "\"\\\b\f\n\r\t", kShort = "\"\\bfnrt";
    out.add('"');
    for (size_t at = 0; at < text.size();) {
        const CodePoint point = first_code_point(text.substr(at));
        const auto value = static_cast<uint32_t>(point.value);
        const size_t known = value < 0x80 ? kPlain.find(static_cast<char>(value)) : std::string_view::npos;
        if (known != std::string_view::npos)
            out.add(fmt::format("\\{}", kShort[known]));
        else if (value < 0x20 || (is_ascii && value > 0x7E && value < 0x10000))
            out.add(fmt::format("\\u{:04x}", value));
        else if (is_ascii && value >= 0x10000)
            out.add(fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((value - 0x10000) >> 10), 0xDC00 + (value & 0x3FF)));
        else
            out.add(text.substr(at, point.bytes));
        at += point.bytes;
    }
    out.add('"');
}

std::string json_real(double real) {
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real > 0 ? "Infinity" : "-Infinity";
    return real_text(real);
}

class JsonWriter {
  public:
    JsonWriter(TextBuilder& out, const JsonStyle& style) : out_(out), style_(style) {}

    void write(const Value& value) {
        out_.arena().work(1);
        switch (value.kind) {
            case Kind::none:
                return out_.add("null");
            case Kind::boolean:
                return out_.add(value.truth ? "true" : "false");
            case Kind::integer:
                return out_.add(fmt::format("{}", value.whole));
            case Kind::digits:
                return out_.add(value.text);
            case Kind::real:
                return out_.add(json_real(value.real));
            case Kind::string:
                return write_json_text(out_, value.text, style_.is_ascii);
            case Kind::list:
            case Kind::tuple:
                return write_list(value.sequence->all());
            case Kind::dict:
                return write_object(*value.mapping);
            default:
                throw Fault{fmt::format("a value of type {} cannot be written as JSON", kind_name(value.kind))};
        }
    }

  private:
    void write_list(std::span<const Value> items) {
        out_.add('[');
        ++depth_;
        for (size_t i = 0; i < items.size(); ++i) {
            separate(i);
            write(items[i]);
        }
        close(items.size(), ']');
    }

    void write_object(const Mapping& mapping) {
        std::vector<Member> members(mapping.all().begin(), mapping.all().end());
        out_.arena().memory(style_.is_sorted ? members.size() * sizeof(Member) : 0);
        if (style_.is_sorted)
            std::stable_sort(members.begin(), members.end(), [&](const Member& left, const Member& right) {
                return order(out_.arena(), left.key, right.key) < 0;
            });
        out_.add('{');
        ++depth_;
        for (size_t i = 0; i < members.size(); ++i) {
            separate(i);
            write_key(members[i].key);
            out_.add(style_.key_separator);
            write(members[i].value);
        }
        close(members.size(), '}');
    }

    void write_key(const Value& key) {
        switch (key.kind) {
            case Kind::string:
                return write_json_text(out_, key.text, style_.is_ascii);
            case Kind::none:
            case Kind::boolean:
            case Kind::integer:
            case Kind::digits:
            case Kind::real:
                out_.add('"');
                write(key);
                return out_.add('"');
            default:
                throw Fault{fmt::format("a key of type {} cannot be written as JSON", kind_name(key.kind))};
        }
    }

    void separate(size_t index) {
        if (index > 0) out_.add(style_.item_separator);
        break_line();
    }
    void close(size_t count, char bracket) {
        --depth_;
        if (count > 0) break_line();
        out_.add(bracket);
    }
    void break_line() {
        if (!style_.is_indented) return;
        out_.add('\n');
        for (int i = 0; i < depth_; ++i) out_.add(style_.indent);
    }

    TextBuilder& out_;
    const JsonStyle& style_;
    int depth_ = 0;
};

}  // namespace

// float.__repr__: the shortest digits that give the number back, with an exponent below 1e-4 and from 1e16 on.
std::string real_text(double real) {
    if (std::isnan(real)) return "nan";
    if (std::isinf(real)) return real > 0 ? "inf" : "-inf";
    std::array<char, 64> buffer;
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), real, std::chars_format::scientific).ptr;
    std::string text(buffer.data(), end);
    const size_t mark = text.find('e');
    const int exponent = std::stoi(text.substr(mark + 1));
    if (exponent < -4 || exponent >= 16) return text;
    const auto fixed = std::to_chars(buffer.data(), buffer.data() + buffer.size(), real, std::chars_format::fixed).ptr;
    text.assign(buffer.data(), fixed);
    return text.find('.') == std::string::npos ? text + ".0" : text;
}

void write_text(TextBuilder& out, const Value& value) {
    if (value.kind == Kind::string) return out.add(value.text);
    if (value.kind != Kind::undefined) write_repr(out, value);
}

void write_repr(TextBuilder& out, const Value& value) {
    out.arena().work(1);
    switch (value.kind) {
        case Kind::undefined:
            return out.add("Undefined");
        case Kind::none:
            return out.add("None");
        case Kind::boolean:
            return out.add(value.truth ? "True" : "False");
        case Kind::integer:
            return out.add(fmt::format("{}", value.whole));
        case Kind::digits:
            return out.add(value.text);
        case Kind::real:
            return out.add(real_text(value.real));
        case Kind::string:
            if (value.is_safe) out.add("Markup(");
            write_quoted(out, value.text);
            if (value.is_safe) out.add(')');
            return;
        case Kind::list:
            return write_items(out, value.sequence->all(), "[", "]");
        case Kind::tuple:
            return write_items(out, value.sequence->all(), "(", value.sequence->size == 1 ? ",)" : ")");
        case Kind::view:
            return write_items(out, value.sequence->all(), fmt::format("{}([", value.sequence->name), "])");
        case Kind::range:
            if (value.sequence->name.empty()) throw Fault{"a slice of a range cannot be written as text"};
            return out.add(value.sequence->name);
        case Kind::dict:
            return write_dict(out, *value.mapping);
        default:
            throw Fault{fmt::format("a value of type {} cannot be written as text", kind_name(value.kind))};
    }
}

Value as_string(Arena& arena, const Value& value) {
    if (value.kind == Kind::string) return value;
    TextBuilder out(arena);
    write_text(out, value);
    return out.value();
}

void write_json(TextBuilder& out, const Value& value, const JsonStyle& style) {
    JsonWriter(out, style).write(value);
}

}  // namespace windlass::jinja
