"""Writes tests/golden/templates/*.json: chats as transformers renders them, and small templates as jinja2 does.

    python tools/reference/template_goldens.py FOLDER_OF_JINJA_FILES

Needs `pip install transformers jinja2`. chats.json: the conversations, and what they are rendered with. own.json:
{name: {"template", "rendered": one entry for each conversation}}. published.json: {file of the folder: {"template",
"rendered"}}, with FNV-1a hashes in place of the texts. generated.json: {"contexts", "cases": [[index of the context,
template, text, spans in bytes]]}. A chat or a template that is refused has null.
"""

import json
import re
import sys
from pathlib import Path

import chats
import generated_templates
import own_templates
from transformers.utils import chat_template_utils

FOLDER = Path(__file__).parents[2] / "tests/golden/templates"
ERRORS_MAX = 0.2  # of the generated cases
# Python's own words for objects, and whole numbers beyond 64 bits: refused by Windlass, and by no use to a chat.
UNSUPPORTED = re.compile(r"<generator|<function|<bound|<built-in|<Macro|\d{20}|Undefined")


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def write(name, value):
    with open(FOLDER / name, "w") as file:
        json.dump(value, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


def rendered(source):
    found = [chats.reference(source, one) for one in chats.CHATS]
    return [None if "error" in one else one for one in found]


def hashed(source):
    return {"template": fnv1a(source), "rendered": [one and fnv1a(one["text"]) for one in rendered(source)]}


def render_generated(source, context):
    chat_template_utils.datetime = chats.FrozenDate
    try:
        compiled = chat_template_utils._compile_jinja_template.__wrapped__(source)
        text, spans = chat_template_utils._render_with_assistant_indices(compiled, [], None, None, False, **context)
        return text, [[len(text[:end].encode()) for end in span] for span in spans]
    except Exception:  # whatever a template makes Python raise
        return None, None


def generated(count):
    cases, errors = [], 0
    for context, source in generated_templates.templates(2 * count, "golden"):
        text, spans = render_generated(source, generated_templates.CONTEXTS[context])
        if len(cases) == count or (text is None and errors >= ERRORS_MAX * count) or (text and UNSUPPORTED.search(text)):
            continue
        errors += text is None
        cases.append([context, source, text, spans])
    assert len(cases) == count
    return {"contexts": generated_templates.CONTEXTS, "cases": cases}


def main():
    FOLDER.mkdir(exist_ok=True)
    write("chats.json", {"now_seconds": chats.now_seconds(), "special_tokens": chats.SPECIAL_TOKENS, "chats": chats.CHATS})
    write("own.json", {name: {"template": source, "rendered": rendered(source)}
                       for name, source in own_templates.TEMPLATES.items()})
    write("published.json", {path.name: hashed(path.read_bytes().decode())
                             for path in sorted(Path(sys.argv[1]).glob("*.jinja"))})
    write("generated.json", generated(2000))


if __name__ == "__main__":
    main()
