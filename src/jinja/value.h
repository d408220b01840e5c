// value.h: the values that a template computes with, after Python's, and the memory that holds them.
//
// Values are small and copied freely. What they point to lies in the arena of one rendering, in the JSON of the chat or
// in the parsed template, and lives as long as the rendering. Nothing is destroyed piece by piece, so no depth of
// nesting overflows the stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/chat_template.h"

namespace windlass::jinja {

// A rendering that cannot continue. The interpreter adds the line.
struct Fault {
    std::string message;
    bool is_bound = false;  // it would break a limit
};

enum class Kind : uint8_t {
    undefined,
    none,
    boolean,
    integer,
    digits,  // a whole number beyond 64 bits: written and compared, not calculated with
    real,
    string,
    list,
    tuple,
    range,
    dict,
    view,      // items(), keys() and values() of a dict
    cursor,    // what a filter such as map gives: it is gone through once
    space,     // namespace()
    loop,      // the variable `loop`
    macro,     // {% macro %}
    function,  // raise_exception, range, ...
    method,    // 'text'.strip, before it is called
};

struct Value;
struct Stmt;
struct LoopState;

// A list, tuple, range or view. Immutable once made.
struct Sequence {
    const Value* items;
    size_t size;
    int depth;              // levels of lists and dicts below and with this one
    std::string_view name;  // of a view, dict_items; of a range, how it is written, empty where it is not known
    std::span<const Value> all() const;
};

struct Member;
struct Mapping {
    const Member* members;
    size_t size;
    int depth;
    std::span<const Member> all() const;
};

struct Cursor {
    const Value* items;
    size_t size;
    size_t next = 0;
};

struct Space {
    Member* members = nullptr;
    size_t size = 0, capacity = 0;
};

struct BoundMethod {
    const Value* self;
    int method;  // an index of the table of methods
};

struct Value {
    Kind kind = Kind::undefined;
    bool is_safe = false;  // of a string: what `safe` made; adding to it would escape HTML
    union {
        bool truth;
        int64_t whole = 0;
        double real;
        const Sequence* sequence;
        const Mapping* mapping;
        Cursor* cursor;
        Space* space;
        LoopState* loop;
        const Stmt* macro;
        const BoundMethod* method;
        int function;
    };
    std::string_view text;  // of a string; of digits, these; of an undefined value, its name

    static Value none();
    static Value boolean(bool truth);
    static Value integer(int64_t whole);
    static Value digits(std::string_view text);
    static Value floating(double real);
    static Value string(std::string_view text);
    static Value undefined(std::string_view name);

    bool is_number() const { return kind == Kind::boolean || kind == Kind::integer || kind == Kind::real; }
    bool is_whole() const { return kind == Kind::boolean || kind == Kind::integer; }
    bool is_sequence() const { return kind == Kind::list || kind == Kind::tuple || kind == Kind::range; }
    int64_t as_whole() const { return kind == Kind::boolean ? truth : whole; }  // requires is_whole
    double as_real() const { return kind == Kind::real ? real : static_cast<double>(as_whole()); }
};

struct Member {
    Value key, value;
};

struct LoopState {
    const Value* items;
    size_t size;
    size_t index = 0;
    const Sequence* changed = nullptr;  // what loop.changed was called with last
};

// The memory and the patience of one rendering.
class Arena {
  public:
    explicit Arena(const TemplateLimits& limits) : limits_(limits) {}
    Arena(const Arena&) = delete;

    // Counts work, and throws Fault where a rendering has done too much.
    void work(size_t units) {
        work_ += units;
        if (work_ > static_cast<size_t>(limits_.work)) refuse_work();
    }
    // Counts memory that is about to be used, here or in a buffer that is built.
    void memory(size_t bytes) {
        memory_ += bytes;
        if (memory_ > static_cast<size_t>(limits_.memory_bytes)) refuse_memory();
    }
    const TemplateLimits& limits() const { return limits_; }

    std::string_view keep(std::string_view text);
    template <typename T>
    T* make(size_t count = 1) {  // zero or more, each as its default makes it
        static_assert(std::is_trivially_destructible_v<T>);
        if (count > static_cast<size_t>(limits_.memory_bytes)) refuse_memory();
        T* const first = static_cast<T*>(allocate(count * sizeof(T), alignof(T)));
        std::uninitialized_value_construct_n(first, count);
        return first;
    }

    Value string(std::string_view text) { return Value::string(keep(text)); }
    Value list(std::span<const Value> items) { return sequence(Kind::list, items); }
    Value tuple(std::span<const Value> items) { return sequence(Kind::tuple, items); }
    Value sequence(Kind kind, std::span<const Value> items, std::string_view name = {});
    Value cursor(std::span<const Value> items);
    Value dict(std::span<const Member> members);

  private:
    void* allocate(size_t bytes, size_t alignment);
    [[noreturn]] void refuse_work() const;
    [[noreturn]] void refuse_memory() const;

    const TemplateLimits limits_;
    size_t work_ = 0, memory_ = 0;
    std::vector<std::unique_ptr<std::byte[]>> chunks_;
    std::byte* free_ = nullptr;
    size_t free_bytes_ = 0;
};

// A list and a text that grow, counted as they do.
class ListBuilder {
  public:
    explicit ListBuilder(Arena& arena) : arena_(arena) {}
    void push(const Value& value) {
        arena_.memory(sizeof(Value));
        arena_.work(1);
        items_.push_back(value);
    }
    std::span<const Value> items() const { return items_; }
    size_t size() const { return items_.size(); }

  private:
    Arena& arena_;
    std::vector<Value> items_;
};

class TextBuilder {
  public:
    explicit TextBuilder(Arena& arena) : arena_(arena) {}
    void add(std::string_view text) {
        arena_.memory(text.size());
        arena_.work(text.size());
        text_ += text;
    }
    void add(char character) { add(std::string_view(&character, 1)); }
    size_t size() const { return text_.size(); }
    const std::string& text() const { return text_; }
    std::string take() { return std::move(text_); }
    Value value() const { return arena_.string(text_); }
    Arena& arena() const { return arena_; }

  private:
    Arena& arena_;
    std::string text_;
};

inline std::span<const Value> Sequence::all() const {
    return {items, size};
}
inline std::span<const Member> Mapping::all() const {
    return {members, size};
}

std::string_view kind_name(Kind kind);  // as Python calls it: "str", "NoneType"

// `null` becomes None; an object keeps the order of its members. Texts are those of the JSON, which outlives the arena.
Value value_of_json(Arena& arena, const Json& json);

}  // namespace windlass::jinja
