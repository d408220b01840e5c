#include "tests/unit/jinja/hostile_templates.h"

#include <fmt/format.h>

namespace windlass::fixtures {
namespace {

using Sources = std::vector<std::string>;

// What a namespace's member becomes, again and again.
std::string again(const std::string& first, const std::string& next, int times = 60) {
    return fmt::format("{{% set n = namespace(s={}) %}}{{% for i in range({}) %}}{{% set n.s = {} %}}{{% endfor %}}",
                       first, times, next);
}

std::string nested(const std::string& open, const std::string& middle, const std::string& close, int count) {
    std::string text, end;
    for (int i = 0; i < count; ++i) text += open, end += close;
    return text + middle + end;
}

Sources doubling_texts() {
    return {again("'aaaa'", "n.s + n.s"),
            again("'aaaa'", "n.s ~ n.s"),
            again("'aaaa'", "n.s * 2"),
            again("'aaaa'", "n.s | replace('a', 'aa')"),
            again("'aaaa'", "n.s.replace('', 'b')"),
            again("'aaaa'", "[n.s, n.s] | join"),
            again("'aaaa'", "n.s.join([n.s, n.s, n.s])"),
            again("'\\\\'", "n.s | tojson"),
            again("'\\\\'", "[n.s] | string"),
            again("'a b'", "n.s.split() | join(n.s)"),
            again("'aaaa'", "dict(a=n.s, b=n.s) | string"),
            "{% macro f(s) %}{{ s }}{{ s }}{% endmacro %}" + again("'aaaa'", "f(n.s)"),
            "{% set n = namespace(s='aaaa') %}{% for i in range(60) %}{% set n.s %}{{ n.s }}{{ n.s }}{% endset %}"
            "{% endfor %}",
            "{% for i in range(60) %}{% set s = 'abcdefgh' * (2 ** i) %}{% endfor %}"};
}

Sources doubling_lists() {
    return {again("[1]", "n.s + n.s"),
            again("[1]", "n.s * 2"),
            again("(1,)", "n.s + n.s"),
            again("[1]", "n.s | list + (n.s | list)"),
            again("[1]", "(n.s + n.s) | map('string') | list"),
            again("[1]", "(n.s + n.s) | select | list"),
            again("[1]", "(n.s + n.s)[::-1]"),
            again("[1]", "(n.s + n.s) | reverse | list"),
            again("[1]", "[n.s, n.s]") + "{{ n.s | tojson }}",
            again("[1]", "[n.s, n.s]") + "{{ n.s }}",
            again("[1]", "[n.s, n.s]") + "{{ n.s == n.s }}",
            again("dict(a=1)", "dict(a=n.s, b=n.s)") + "{{ n.s | tojson }}",
            again("dict(a=1)", "{'a': n.s, 'b': n.s}") + "{{ n.s }}",
            again("'ab'", "(n.s ~ n.s) | list | join")};
}

Sources ranges() {
    Sources all = {"{{ range(100001) }}",
                   "{{ range(10 ** 18) | list }}",
                   "{{ range(-9223372036854775807, 9223372036854775807) | length }}",
                   "{{ range(0, 9223372036854775807, 92233720368547758) | list | tojson(indent=100) * 9999 }}",
                   "{{ range(99999) | join('x' * 99) }}",
                   "{{ range(99999) | map('string') | join('y' * 999) }}"};
    for (int depth = 2; depth <= 6; ++depth)
        all.push_back(nested("{% for x in range(99999) %}", "", "{% endfor %}", depth));
    all.push_back("{% for a in range(9999) %}{% for b in range(9999) if false %}{% endfor %}{% endfor %}");
    all.push_back("{% for a in range(99999) %}0123456789abcdef0123456789abcdef0123456789abcdef{% endfor %}");
    return all;
}

Sources recursion() {
    return {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
            "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
            "{% macro f(n) %}{{ g(n) }}{% endmacro %}{% macro g(n) %}{{ f(n) }}{% endmacro %}{{ f(0) }}",
            "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(0) }}",
            "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
            "{% macro f(s) %}{% if s | length < 60 %}{{ f(s ~ 'a') ~ f(s ~ 'b') }}{% endif %}{% endmacro %}{{ f('') }}",
            "{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}",
            "{% macro f(g, n=1) %}{{ g(g, n + 1) }}{% endmacro %}{{ f(f) }}"};
}

Sources deep_nesting() {
    return {"{{ " + nested("(", "1", ")", 101) + " }}",
            "{{ " + nested("[", "1", "]", 50000) + " }}",
            "{{ " + nested("{'a': ", "1", "}", 101) + " }}",
            "{{ " + nested("not ", "1", "", 50000) + " }}",
            "{{ " + nested("-", "1", "", 50000) + " }}",
            "{{ " + nested("", "1", " + 1", 50000) + " }}",
            "{{ " + nested("", "a", ".b", 50000) + " }}",
            "{{ " + nested("", "a", "()", 50000) + " }}",
            "{{ " + nested("", "'a'", " | trim", 20000) + " }}",
            "{{ " + nested("1 if ", "1", " else 2", 10000) + " }}",
            nested("{% if true %}", "", "{% endif %}", 51),
            nested("{% for a in [1] %}", "", "{% endfor %}", 5000),
            again("[1]", "[n.s]", 999),
            again("[1]", "dict(a=n.s)", 999)};
}

Sources self_containing() {
    return {"{% set n = namespace() %}{% set n.n = n %}{{ n.n }}",
            "{% set n = namespace() %}{% set n.n = [n] %}{{ n.n }}",
            "{% set n = namespace() %}{% set n.n = [n] %}{{ n.n | tojson }}",
            "{% set n = namespace() %}{% set n.n = dict(a=n) %}{{ n.n | string }}",
            "{% set n = namespace() %}{% set n.n = (n, n) %}{{ n.n | join }}",
            "{% macro f() %}{% endmacro %}{{ [f, [f]] }}"};
}

// Ways out of Python's sandboxes, as they were published; there is no Python here.
Sources doors() {
    return {"{{ ''.__class__.__mro__[1].__subclasses__() }}",
            "{% for x in ().__class__.__base__.__subclasses__() %}{% if 'warning' in x.__name__ %}"
            "{{ x()._module.__builtins__['__import__']('os').popen('id').read() }}{% endif %}{% endfor %}",
            "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
            "{{ joiner.__init__.__globals__.os.popen('id').read() }}",
            "{{ namespace.__init__.__globals__.os.popen('id').read() }}",
            "{{ lipsum.__globals__['os'].popen('id').read() }}",
            "{{ self.__init__.__globals__.__builtins__ }}",
            "{{ self._TemplateReference__context.cycler.__init__.__globals__.os }}",
            "{{ messages.__class__.__init__.__globals__ }}",
            "{{ range.__self__.__import__('os') }}",
            "{{ raise_exception.__globals__.sys }}",
            "{{ strftime_now.__globals__.datetime.sys.modules }}",
            "{{ '' | attr('__class__') }}",
            "{{ messages | map(attribute='__class__.__mro__.x') | list }}",
            "{{ '{0.__class__.__init__.__globals__}'.format(messages) }}",
            "{{ '%s' % messages }}",
            "{{ messages.append(1) }}",
            "{{ messages[0].update(a=1) }}",
            "{% include '/etc/passwd' %}",
            "{% import 'os' as os %}{{ os.popen('id') }}",
            "{% extends '/etc/passwd' %}",
            "{% do messages.clear() %}",
            "{{ open('/etc/passwd').read() }}",
            "{{ __import__('os').system('id') }}",
            "{{ eval('1') }}"};
}

Sources ends_of_64_bits() {
    return {"{{ 9223372036854775807 + 1 }}",
            "{{ -9223372036854775807 - 2 }}",
            "{{ 9223372036854775807 * 2 }}",
            "{{ 2 ** 63 }}",
            "{{ 3 ** 9223372036854775807 }}",
            "{{ -(-9223372036854775807 - 1) }}",
            "{{ (-9223372036854775807 - 1) // -1 }}",
            "{{ (-9223372036854775807 - 1) | abs }}",
            "{{ 1 // 0 }}",
            "{{ 1 % 0 }}",
            "{{ 1.0 / 0 }}",
            "{{ 0 ** -1 }}",
            "{{ 2.0 ** 1024 }}",
            "{{ ('9' * 19) | int }}"};
}

Sources quadratic() {
    const auto loop = [](const std::string& value, const std::string& expression) {
        return fmt::format("{{% set s = {} %}}{{% for a in range(99999) %}}{{% set x = {} %}}{{% endfor %}}", value,
                           expression);
    };
    const std::string text = "'ab' * 9999", list = "range(9999) | list";
    return {loop(text, "'aa' in s"),
            loop(text, "s == s"),
            loop(text, "s[-1]"),
            loop(text, "s | length"),
            loop(text, "s.find('ba' * 99)"),
            loop(text, "s.split('x')"),
            loop(text, "s.strip('ab')"),
            loop(text, "s | upper"),
            loop(list, "s == s"),
            loop(list, "s.count(-1)"),
            loop(list, "-1 in s"),
            loop(list, "s | sum")};
}

Sources repeats() {
    return {"{{ 'a' * 2 ** 40 }}",
            "{{ 2 ** 40 * 'a' }}",
            "{{ [1] * 2 ** 40 }}",
            "{{ (1, 2) * 2 ** 61 }}",
            "{{ 'ab' * 9223372036854775807 }}",
            "{{ ('a' * 1000000) * 9223372036854775 }}",
            "{{ ('a' * 4000) | replace('a', 'a' * 4000) }}",
            "{{ ('a' * 4000).replace('', 'b' * 4000) }}"};
}

}  // namespace

std::vector<HostileTemplate> hostile_templates() {
    std::vector<HostileTemplate> all;
    const auto add = [&](const char* kind, const Sources& sources) {
        for (size_t i = 0; i < sources.size(); ++i) all.push_back({fmt::format("{} {}", kind, i + 1), sources[i]});
    };
    add("doubling text", doubling_texts());
    add("doubling list", doubling_lists());
    add("range", ranges());
    add("recursion", recursion());
    add("nesting", deep_nesting());
    add("self-containing", self_containing());
    add("door", doors());
    add("64 bits", ends_of_64_bits());
    add("quadratic", quadratic());
    add("repeat", repeats());
    return all;
}

}  // namespace windlass::fixtures
