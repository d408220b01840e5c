"""Compares every chat template that trl ships, and others, with transformers, byte for byte.

    python tools/reference/check_templates.py build/dev/render_template [FOLDER_OF_JINJA_FILES ...]

Needs `pip install trl transformers jinja2`. Each template renders the twenty conversations of chats.py; where
transformers raises an error, Windlass must refuse as well. Prints what differs, and counts.
"""

import difflib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import chats


def templates(folders):
    import trl
    found = {}
    for folder in [Path(trl.__file__).parent / "chat_templates", *map(Path, folders)]:
        for path in sorted(folder.glob("*.jinja")):
            found[f"{folder.name}/{path.name}"] = path.read_bytes().decode()
    return found


def same_refusal(theirs, ours):
    """What a template raises is the same text; what Python cannot do has another text, and is no lack of ours."""
    kind, _, text = theirs.partition(": ")
    if kind == "TemplateError":
        return ours.endswith("refuses this chat: " + text)
    return "refuses this chat" not in ours and "not supported" not in ours


def main():
    program, folders = sys.argv[1], sys.argv[2:]
    sources = templates(folders)
    jobs = [(name, one) for name in sources for one in chats.CHATS]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"templates": sources, "special_tokens": chats.SPECIAL_TOKENS, "now_seconds": chats.now_seconds(),
                   "jobs": [{"template": name, **one} for name, one in jobs]}, file)
        file.flush()
        ours = json.loads(subprocess.run([program, file.name], check=True, capture_output=True).stdout)
    same = refused = different = with_spans = 0
    for (name, one), our in zip(jobs, ours, strict=True):
        theirs = chats.reference(sources[name], one)
        if "error" in theirs and "error" in our and same_refusal(theirs["error"], our["error"]):
            refused += 1
        elif theirs == our:
            same += 1
            with_spans += bool(our["generated"])
        else:
            different += 1
            print(f"{name}, {one['name']}:")
            if "error" in theirs or "error" in our:
                print("  ours:", our.get("error", "text"), "\n  theirs:", theirs.get("error", "text"))
            else:
                print("\n".join(difflib.unified_diff(repr(theirs["text"]).split("\\n"), repr(our["text"]).split("\\n"), lineterm="", n=1)))
                if theirs["text"] == our["text"]:
                    print("  spans:", our["generated"], theirs["generated"])
    import jinja2
    import transformers
    import trl
    print(f"{len(sources)} templates, {len(chats.CHATS)} conversations: {same} equal ({with_spans} with generation "
          f"spans), {refused} refused by both, {different} different; trl {trl.__version__}, "
          f"transformers {transformers.__version__}, jinja2 {jinja2.__version__}")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
