// Templates and chats changed at random: rendered or refused, within their bounds, and never anything else.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/json.h"
#include "base/utf8.h"
#include "jinja/chat_template.h"
#include "tests/place.h"
#include "tests/sanitizer.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace windlass {
namespace {

// Small, so that what runs into them costs no time.
constexpr TemplateLimits kFuzzLimits{.work = 1 << 17, .memory_bytes = 1 << 18, .output_bytes = 1 << 14};

constexpr std::string_view kPieces[] = {"{{",
                                        "}}",
                                        "{%",
                                        "%}",
                                        "-%}",
                                        "{%-",
                                        "{#",
                                        "#}",
                                        "(",
                                        ")",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        "'",
                                        "\"",
                                        "\\",
                                        "|",
                                        ".",
                                        ",",
                                        ":",
                                        "::-1",
                                        "~",
                                        "+",
                                        "-",
                                        "*",
                                        "**",
                                        "//",
                                        "%",
                                        "==",
                                        "<",
                                        " in ",
                                        " not ",
                                        " is ",
                                        " and ",
                                        " or ",
                                        " if ",
                                        " else ",
                                        "none",
                                        "true",
                                        "loop",
                                        "ns",
                                        "messages",
                                        "items",
                                        "range(9)",
                                        "999999999",
                                        "1e308",
                                        "-1",
                                        "0",
                                        "0.5",
                                        "|tojson",
                                        "|list",
                                        "|join",
                                        "|map",
                                        "|trim",
                                        "|length",
                                        "|items",
                                        "|dictsort",
                                        "|int",
                                        "|string",
                                        "|safe",
                                        "|first",
                                        "|reverse",
                                        "|replace",
                                        ".split",
                                        ".strip",
                                        "()",
                                        "('a')",
                                        "(indent=2)",
                                        "namespace(",
                                        "dict(",
                                        "strftime_now",
                                        "\xC3\x9F",
                                        "\xCE\xA3",
                                        "\xF0\x9F\x9A\x80",
                                        "\n",
                                        " ",
                                        "\\u0130",
                                        "{% set x = ",
                                        "{% for i in ",
                                        "{% endfor %}",
                                        "{% if ",
                                        "{% endif %}",
                                        "{% break %}",
                                        "{% generation %}",
                                        "{% endgeneration %}",
                                        "{% macro f(a) %}",
                                        "{% endmacro %}",
                                        "{% raw %}",
                                        "{% endraw %}",
                                        "f(",
                                        "loop.changed("};

class Fuzzer {
  public:
    explicit Fuzzer(uint64_t seed) : random_(seed) {
        const std::string folder = source_dir() + "/tests/golden/templates/";
        const auto read = [&](const std::string& name) {
            return parse_json(fixtures::read(folder + name), name, ExitCode::data);
        };
        const windlass::Json generated = read("generated.json"), own = read("own.json"), chats = read("chats.json");
        for (const windlass::Json& one : generated["cases"]) sources_.push_back(one[1].get<std::string>());
        for (const auto& [name, golden] : own.items()) sources_.push_back(golden["template"].get<std::string>());
        for (const windlass::Json& one : generated["contexts"]) contexts_.push_back(one);
        for (const windlass::Json& one : chats["chats"]) chats_.push_back(one);
        settings_.limits = kFuzzLimits;
        settings_.special_tokens = {{"bos_token", "<s>"}};
    }

    // Whether it was rendered.
    bool try_one() {
        const std::string source = changed_source();
        const windlass::Json& chat = pick(chats_);
        const windlass::Json messages = changed_json(chat["messages"]);
        const windlass::Json extra = changed_json(pick(contexts_));
        ChatToRender request{.messages = &messages, .add_generation_prompt = below(2) == 0, .extra = &extra};
        if (chat.contains("tools")) request.tools = &chat["tools"];
        try {
            const RenderedChat result = ChatTemplate::parse(source, "fuzzed").render(request, settings_, "chat");
            check(result, source);
            return true;
        } catch (const UserError& error) {
            EXPECT_TRUE(error.code() == ExitCode::model || error.code() == ExitCode::data) << error.what();
            return false;
        }
    }

  private:
    size_t below(size_t limit) { return static_cast<size_t>(random_() % limit); }
    template <typename T>
    const T& pick(const std::vector<T>& list) {
        return list[below(list.size())];
    }

    static void check(const RenderedChat& result, const std::string& source) {
        EXPECT_TRUE(is_valid_utf8(result.text)) << source;
        EXPECT_LE(result.text.size(), static_cast<size_t>(kFuzzLimits.memory_bytes)) << source;
        size_t end = 0;
        for (const auto& [begin, after] : result.generated) {
            EXPECT_TRUE(begin >= end && after >= begin && after <= result.text.size()) << source;
            end = after;
        }
    }

    std::string changed_source() {
        std::string source = pick(sources_);
        for (size_t changes = below(5); changes > 0; --changes) {
            const size_t at = below(source.size() + 1);
            const size_t length = std::min(below(12), source.size() - at);
            switch (below(5)) {
                case 0:
                    source.erase(at, length);
                    break;
                case 1:
                    source.insert(at, source.substr(below(source.size() + 1), below(40)));
                    break;
                case 2:
                    if (at < source.size()) source[at] = static_cast<char>(below(256));
                    break;
                default:
                    source.replace(at, below(2) * length, kPieces[below(std::size(kPieces))]);
                    break;
            }
        }
        return source;
    }

    // One value somewhere in it is another one.
    windlass::Json changed_json(windlass::Json json) {
        if (below(3) != 0) return json;
        windlass::Json* place = &json;
        while (place->is_structured() && !place->empty() && below(4) != 0) {
            auto inner = place->begin();
            std::advance(inner, static_cast<ptrdiff_t>(below(place->size())));
            place = &*inner;
        }
        static const windlass::Json kValues = windlass::Json::parse(
            R"([null, true, "", "a", -1, 9223372036854775807, 18446744073709551615, 1e308, -0.0, [], {}, [[]], {"a": {"role": []}}, "\u0130\u03a3<|x|>"])");
        *place = kValues[below(kValues.size())];
        return json;
    }

    std::mt19937_64 random_;
    std::vector<std::string> sources_;
    std::vector<windlass::Json> contexts_, chats_;
    TemplateSettings settings_;
};

size_t number_or(const char* variable, size_t otherwise) {
    const char* const text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// The environment gives other inputs, and more or fewer.
void fuzz(size_t count) {
    Fuzzer fuzzer(number_or("WINDLASS_FUZZ_SEED", 17));
    count = number_or("WINDLASS_FUZZ_COUNT", count);
    size_t rendered = 0;
    for (size_t i = 0; i < count && !testing::Test::HasFailure(); ++i) rendered += fuzzer.try_one();
    // Both must be common, or only one of them is tested.
    EXPECT_GT(rendered, count / 20);
    EXPECT_LT(rendered, count - count / 20);
}

TEST(TemplateFuzz, IsRenderedOrRefused) {
    fuzz(is_sanitized() ? 2000 : 10000);
}

TEST(SlowTemplateFuzz, TenMillionAreRenderedOrRefused) {
    fuzz(is_sanitized() ? 200000 : 10000000);
}

}  // namespace
}  // namespace windlass
