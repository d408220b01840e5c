"""Small random templates in the subset of Jinja that Windlass renders, for template_goldens.py.

Expressions are made by the kind of value that is wanted, and now and then by another, so that errors are met as well.
"""

import random

TEXTS = ["", "a", "Hello", " padded ", "a,b,,c", "\u4f60\u597d", "\U0001f680x", "\u00df\ufb01\u0130\u03a3", "line\nbreak", "it's", 'say "x"', "tab\t", "<b>&",
         "\u00a0nbsp\u3000", "ABC def", "</think>", "a\\b", "x=1"]
CONTEXTS = [
    {"s": "Hello World", "t": "  mixed Case\n", "u": "\u6771\u4eac \u03a3\u03a3 \u00df", "n": 3, "m": -7, "f": 2.5, "g": 1e-7, "yes": True, "no": False,
     "nil": None, "xs": [3, 1, 2], "ss": ["b", "A", "c"], "mix": [1, "1", 1.0, True, None, [1], {"a": 1}],
     "d": {"b": 1, "a": 2, "C": 3}, "deep": {"k": {"items": [1, {"z": "y"}]}, "name": "q\"'"},
     "ms": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "n": 2}, {"role": "tool", "content": ["p"]}]},
    {"s": "", "t": "\n\n", "u": "e\u0301\U0001f3f3\ufe0f\u200d\U0001f308", "n": 0, "m": 12, "f": -0.0, "g": 123456789012345680.0, "yes": True, "no": False,
     "nil": None, "xs": [], "ss": ["x"], "mix": ["", 0, False], "d": {}, "deep": {"k": []}, "ms": []},
]
STRINGS, NUMBERS, LISTS, DICTS = ["s", "t", "u"], ["n", "m", "f", "g"], ["xs", "ss", "mix", "ms"], ["d", "deep"]


class Maker:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.loop = 0
        self.macros = []
        self.is_output = True  # where generation blocks may stand

    def one(self, *choices):
        return self.rng.choice(choices)

    def chance(self, share):
        return self.rng.random() < share

    def literal(self):
        text = self.rng.choice(TEXTS)
        quote = "'" if self.chance(0.5) else '"'
        for old, new in (("\\", "\\\\"), (quote, "\\" + quote), ("\n", "\\n"), ("\t", self.one("\\t", "\t"))):
            text = text.replace(old, new)
        return quote + text + quote

    def expr(self, kind, depth):
        if self.chance(0.04):
            kind = self.one("text", "number", "list", "dict", "truth", "undefined")
        if depth <= 0:
            return self.leaf(kind)
        return getattr(self, kind)(depth - 1)

    def leaf(self, kind):
        if kind == "text":
            return self.one(self.literal(), self.rng.choice(STRINGS), "item" if self.loop else "s")
        if kind == "number":
            return self.one(*NUMBERS, "0", "7", "2.50", "1_000", "loop.index" if self.loop else "1", "loop.revindex0" if self.loop else "0x1f")
        if kind == "list":
            return self.one(*LISTS, "[]", "[1, 'two', none]", "('a', 2)", "range(3)")
        if kind == "dict":
            return self.one(*DICTS, "{}", "{'k': 1, 2: 'v'}", "ms[0]")
        if kind == "truth":
            return self.one("true", "false", "yes", "no", "loop.last" if self.loop else "True", "loop.first" if self.loop else "nil")
        return self.one("missing", "nil", "d.nothing", "acc", "ns.value")

    def undefined(self, depth):
        return self.one(self.leaf("undefined"), f"{self.expr('dict', depth)}.{self.one('a', 'role', 'zz')}",
                        f"{self.expr('list', depth)}[{self.one('0', '-1', '9')}]")

    def text(self, depth):
        e = self.expr
        make = [
            lambda: f"{e('text', depth)} + {e('text', depth)}",
            lambda: f"{e('text', depth)} ~ {e(self.any(), depth)}",
            lambda: f"{e('text', depth)}|{self.one('trim', 'upper', 'lower', 'capitalize', 'string')}",
            lambda: f"{e(self.any(), depth)}|string",
            lambda: f"({e('text', depth)}).{self.one('strip', 'lstrip', 'rstrip', 'upper', 'lower', 'capitalize', 'title')}()",
            lambda: f"({e('text', depth)}).{self.one('strip', 'lstrip', 'rstrip')}({self.literal()})",
            lambda: f"({self.leaf('text')})[{self.bound(depth)}:{self.bound(depth)}]",
            lambda: f"({self.leaf('text')})[::{self.one('-1', '2', '-2')}]",
            lambda: f"({e('text', depth)})[{self.one('0', '-1', '3')}]",
            lambda: f"{e('text', depth)}|replace({self.literal()}, {self.literal()})",
            lambda: f"({e('text', depth)}).replace({self.literal()}, {self.literal()}{self.one('', ', 1')})",
            lambda: f"({e('text', depth)}).{self.one('removeprefix', 'removesuffix')}({self.literal()})",
            lambda: f"{e(self.one('list', 'dict'), depth)}|join({self.literal()})",
            lambda: f"{self.literal()}.join({e('list', depth)}|map('string'))",
            lambda: f"{e(self.any(), depth)}|tojson{self.json_arguments()}",
            lambda: f"{e(self.any(), depth)}|default({self.literal()}{self.one('', ', true')})",
            lambda: f"({e('text', depth)} if {e('truth', depth)} else {e('text', depth)})",
            lambda: f"({e('text', depth)} if {e('truth', depth)})",
            lambda: f"({e('text', depth)} {self.one('and', 'or')} {e('text', depth)})",
            lambda: f"({e('text', depth)}).split({self.literal()})[{self.one('0', '-1', '1')}]",
            lambda: f"{e('text', depth)} * {self.one('2', '0', 'n')}",
            lambda: f"{self.one('m1', 'm2')}({e(self.any(), depth)}{self.one('', ', b=2', ', 3')})" if self.macros else self.literal(),
            lambda: f"strftime_now('{self.one('%d %b %Y', '%Y-%m-%d', '%H:%M', '%-d.%-m.%y %%', '%A %B %j')}')",
        ]
        return self.rng.choice(make)()

    def json_arguments(self):
        return self.one("", "", "(indent=2)", "(ensure_ascii=true)", "(sort_keys=true)", "(separators=(',', ':'))", "(indent=1, sort_keys=true)",
                        "(ensure_ascii=false, indent=none)")

    def bound(self, depth):
        return self.one("", "", "1", "-2", "n", "0", "100")

    def number(self, depth):
        e = self.expr
        make = [
            lambda: f"{e('number', depth)} {self.one('+', '-', '*', '%', '//', '/')} {e('number', depth)}",
            lambda: f"({e('number', depth)}) ** 2",
            lambda: f"-{self.leaf('number')}",
            lambda: f"{e(self.one('text', 'list', 'dict'), depth)}|{self.one('length', 'count')}",
            lambda: f"({e('number', depth)})|{self.one('int', 'abs')}",
            lambda: f"({e('text', depth)}).{self.one('find', 'rfind', 'count')}({self.literal()})",
            lambda: f"({e('number', depth)} if {e('truth', depth)} else {e('number', depth)})",
            lambda: f"({e('list', depth)}).{self.one('index', 'count')}(1)",
        ]
        return self.rng.choice(make)()

    def list(self, depth):
        e = self.expr
        make = [
            lambda: f"[{', '.join(e(self.any(), depth) for _ in range(self.rng.randint(0, 3)))}]",
            lambda: f"({e(self.any(), depth)}, {e(self.any(), depth)})",
            lambda: f"{e('list', depth)} + {e('list', depth)}",
            lambda: f"({e('list', depth)})[{self.bound(depth)}:{self.bound(depth)}{self.one('', ':-1', ':2')}]",
            lambda: f"({e('text', depth)}).split({self.one('', self.literal(), self.literal() + ', 1')})",
            lambda: f"({e('text', depth)}).rsplit({self.one('', self.literal(), self.literal() + ', 1', 'none, 1')})",
            lambda: f"({e('text', depth)}).splitlines()",
            lambda: f"{e(self.one('list', 'text', 'dict'), depth)}|list",
            lambda: f"{e('dict', depth)}|{self.one('items|list', 'dictsort', 'dictsort(reverse=true)')}",
            lambda: f"{e('dict', depth)}|dictsort(by='value')",
            lambda: f"({e('dict', depth)}).{self.one('keys', 'values', 'items')}()|list",
            lambda: f"{e('list', depth)}|{self.one('select', 'reject')}({self.one('', repr(self.test_name()))})|list",
            lambda: f"ms|{self.one('selectattr', 'rejectattr')}({self.one(repr('n'), repr('role') + ', ' + repr('equalto') + ', ' + repr('user'), repr('content') + ', ' + repr('none'))})|list",
            lambda: f"{e('list', depth)}|map({self.one(repr('string'), repr('upper'), 'attribute=' + repr('role'), repr('default') + ', 1', repr('length'))})|list",
            lambda: f"{e('list', depth)}|reverse|list",
            lambda: f"range({self.one('4', '1, 5', '5, 0, -2', 'n', '2, n')})|list",
        ]
        return self.rng.choice(make)()

    def dict(self, depth):
        e = self.expr
        make = [
            lambda: "{" + ", ".join(f"{self.literal() if self.chance(0.8) else e('number', 0)}: {e(self.any(), depth)}" for _ in range(self.rng.randint(0, 3))) + "}",
            lambda: self.one("deep.k", "deep['k']", "ms[1]", "(ms|first)", "(ms|last)", "d.copy()"),
            lambda: f"dict({self.one('', 'd, ')}a={e(self.any(), depth)})",
        ]
        return self.rng.choice(make)()

    def test_name(self):
        return self.one("defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "true", "false",
                        "odd", "even", "lower", "upper", "callable")

    def truth(self, depth):
        e = self.expr
        kind = self.one("text", "number", "list")
        make = [
            lambda: f"{e(kind, depth)} {self.one('==', '!=')} {e(self.any(), depth)}",
            lambda: f"{e(kind, depth)} {self.one('<', '<=', '>', '>=')} {e(kind, depth)}",
            lambda: f"{self.one('1', '2.0')} {self.one('<', '<=')} {e('number', depth)} {self.one('<', '!=')} 9",
            lambda: f"{e('text', depth)} {self.one('in', 'not in')} {e(self.one('text', 'list', 'dict'), depth)}",
            lambda: f"{e(self.any(), depth)} {self.one('in', 'not in')} {e('list', depth)}",
            lambda: f"{e(self.any(), depth)} is {self.one('', 'not ')}{self.test_name()}",
            lambda: f"{e('number', depth)} is divisibleby {self.one('2', '(3)', '(n)')}",
            lambda: f"{e(self.any(), depth)} is {self.one('sameas true', 'sameas none', 'in [1, none]', 'eq 1', 'ne(2)')}",
            lambda: f"not {e('truth', depth)}",
            lambda: f"{e('truth', depth)} {self.one('and', 'or')} {e('truth', depth)}",
            lambda: f"({e('text', depth)}).{self.one('startswith', 'endswith')}({self.one(self.literal(), '(' + self.literal() + ', ' + self.literal() + ')')})",
            lambda: f"({e('text', depth)}).{self.one('isupper', 'islower', 'isspace')}()",
            lambda: f"{e(self.any(), depth)}",
        ]
        return self.rng.choice(make)()

    def any(self):
        return self.one("text", "text", "number", "list", "dict", "truth", "undefined")

    def sign(self):
        return self.one("", "", "", "-", "+")

    def white(self):
        return self.one("", "", " ", "\n", "  \n", "\n  ", "\n\n", "\t", "x", " y\n", "\r\n  ", "\u3000")

    def tag(self, text):
        end = self.one("", "", "-", "+")
        return "{%" + self.sign() + " " + text + " " + end + "%}"

    def statement(self, depth):
        kinds = ["print"] * 6 + ["set", "if", "for", "set_block", "space", "comment", "raw", "generation"]
        kind = self.rng.choice(kinds if depth > 0 else kinds[:7] + ["comment"])
        return getattr(self, "make_" + kind)(depth)

    def body(self, depth):
        return self.white().join(["", *(self.statement(depth) for _ in range(self.rng.randint(1, 2))), ""])

    def make_print(self, depth):
        return "{{" + self.one("", "", "-") + " " + self.expr(self.any(), 2) + " " + self.one("", "", "-") + "}}"

    def make_set(self, depth):
        if self.chance(0.2):
            return self.tag(f"set acc, x = {self.expr(self.any(), 1)}, {self.expr(self.any(), 1)}")
        return self.tag(f"set {self.one('acc', 'x', 's', 'n')} = {self.expr(self.any(), 2)}")

    def make_space(self, depth):
        return self.tag(f"set ns.{self.one('value', 'count')} = {self.one('ns.count + 1', self.expr(self.any(), 1))}")

    def make_set_block(self, depth):
        before, self.is_output = self.is_output, False
        text = self.tag("set acc") + self.body(depth - 1) + self.tag("endset")
        self.is_output = before
        return text

    def make_comment(self, depth):
        return "{#" + self.sign() + " note {{ x }} " + self.sign() + "#}"

    def make_raw(self, depth):
        return self.tag("raw").replace("+%}", "%}") + self.white() + "{{ raw }}{% x %}" + self.white() + self.tag("endraw")

    def make_if(self, depth):
        text = self.tag(f"if {self.expr('truth', 2)}") + self.body(depth - 1)
        if self.chance(0.3):
            text += self.tag(f"elif {self.expr('truth', 1)}") + self.body(depth - 1)
        if self.chance(0.5):
            text += self.tag("else") + self.body(depth - 1)
        return text + self.tag("endif")

    def make_for(self, depth):
        source = self.one("xs", "ss", "ms", "mix", "d", "d.items()", "deep|items", "[1, 2, 3]", "range(4)", "s", "xs|map('string')", "missing", self.expr("list", 1))
        target = self.one("k, v", "(k, v)", "item") if "items" in source else self.one("item", "item", "item", "k, v")
        condition = f" if {self.one('item', 'item is string', 'item != 2', 'loop is defined')}" if target == "item" and self.chance(0.25) else ""
        self.loop += 1
        body = self.body(depth - 1)
        if self.chance(0.4):
            body += "{{ " + self.one("loop.index0", "loop.last", "loop.length", "loop.previtem", "loop.nextitem", "loop.cycle('a', 'b')", "loop.changed(1)", "loop.revindex",
                                     "loop.depth", "loop.nextitem is defined") + " }}"
        if self.chance(0.2):
            body += self.tag(f"if {self.one('loop.index > 1', 'loop.first', 'item == 1')}") + self.tag(self.one("break", "continue")) + self.tag("endif")
        self.loop -= 1
        body += self.one("", "{{ item }}", "{{ acc }}")
        ending = self.tag("else") + self.body(depth - 1) if self.chance(0.3) else ""
        return self.tag(f"for {target} in {source}{condition}") + body + ending + self.tag("endfor")

    def make_generation(self, depth):
        if not self.is_output:
            return self.make_print(depth)
        return self.tag("generation") + self.body(0) + self.tag("endgeneration")

    def template(self):
        text = self.tag("set ns = namespace(value=1, count=0)") if self.chance(0.7) else ""
        if self.chance(0.35):
            self.macros = ["m1", "m2"]
            text += self.tag("macro m1(a, b=n + 1)") + self.one("{{ a }}{{ b }}", "[{{ a|string|trim }}]", "{{ a is defined }}{{ acc }}") + self.tag("endmacro")
            text += self.tag("macro m2(a, c='x', b=a)") + self.make_print(1) + "{{ c }}{{ b }}" + self.tag("endmacro")
        return text + self.body(2) + self.white() + self.body(2)


def templates(count, seed):
    """(context's index, template), all different."""
    found = {}
    index = 0
    while len(found) < count:
        index += 1
        text = Maker(f"{seed} {index}").template()
        if len(text) < 420:
            found[text] = index % len(CONTEXTS)
        if index > 100 * count:
            raise RuntimeError("too few different templates")
    return [(context, text) for text, context in found.items()]
