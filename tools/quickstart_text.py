#!/usr/bin/env python3
"""The texts of the quickstart, from books in the public domain that Debian packages.

    quickstart_text.py bible.txt jargon.txt devil.txt OUT

bible.txt   the King James Bible as `bible -f` prints it, one verse a line ("Ge1:1 In the beginning ...")
jargon.txt  the Jargon File 4.4.7 of dict-jargon, unpacked
devil.txt   Ambrose Bierce's Devil's Dictionary (1911) of dict-devil, unpacked

writes base.jsonl, base_eval.jsonl (what the shipped model is trained on), train.jsonl and eval.jsonl (what the
quickstart fine-tunes it on: a word, and Bierce's definition of it).
"""
import json
import pathlib
import re
import sys

ROW_CHARACTERS = 900  # of base rows: they fit a row of 384 tokens
COMPLETION_CHARACTERS = 1000
# Words of 1911 by which no reader should be met today; entries with them are left out.
LEFT_OUT = re.compile(r"negro|nigger|squaw|jew|hebrew|mulatto|mongol|chinam|savage|racial", re.I)


def joined(lines):
    """Hard-wrapped lines as running text, one blank between words."""
    return re.sub(r"\s+", " ", " ".join(lines)).strip()


def without_index(text):
    """A dictd file ends with the letters that it is sorted by."""
    return text[: text.rindex("\n", 0, text.rindex("abcdefghijklmnopqrstuvwxyz"))]


def bible_rows(text):
    """Verses of a chapter one after the other, in rows of a bounded length."""
    rows, chapter, row = [], None, ""
    for line in text.splitlines():
        match = re.fullmatch(r"(\S+):\d+ (.+)", line)
        if match is None:
            continue
        if match[1] != chapter or len(row) + len(match[2]) > ROW_CHARACTERS:
            rows.append(row)
            row = ""
        chapter, row = match[1], f"{row} {match[2]}".strip()
    return [row for row in rows + [row] if row]


def jargon_rows(text):
    """An entry is a word at the left edge, a line with its kind, and indented paragraphs."""
    entries = re.split(r"\n(?=\S[^\n]*\n [^\n]*\n\n    )", text)[1:]
    rows = []
    for entry in entries:
        word, kind, body = entry.split("\n", 2)
        row = f"{word} {joined([kind])}".strip() + ":"
        for paragraph in re.split(r"\n\s*\n", body):
            words = re.sub(r"\{\s*([^}]*)\}", r"\1", joined(paragraph.split("\n")))
            if len(row) + len(words) > ROW_CHARACTERS:
                rows.append(row)
                row = ""
            row = f"{row}\n{words}".strip()[: 2 * ROW_CHARACTERS]
        rows.append(row)
    return [row for row in rows if len(row) > 40]


def devil_entries(text):
    """(word, definition): running prose in one line a paragraph, verse as it stands."""
    text = text[text.index("\nABASEMENT, n.") :]
    entries = re.split(r"\n(?=[A-Z][A-Z' -]+, [a-z.]+\.)", text)[1:]
    for entry in entries:
        head, body = re.match(r"\s*([A-Z][A-Z' -]+, [a-z.]+\.)\s*(.*)", entry, re.S).groups()
        if LEFT_OUT.search(entry):
            continue
        paragraphs = []
        for paragraph in re.split(r"\n\s*\n", body.strip("\n")):
            lines = [line for line in paragraph.split("\n") if not re.fullmatch(r" {20,}\S.*", line)]
            verse = len(lines) > 1 and all(line.startswith("    ") for line in lines)
            paragraphs.append("\n".join(line.strip() for line in lines) if verse else joined(lines))
        definition = "\n".join(p for p in paragraphs if p).replace("_", "")
        if 0 < len(definition) <= COMPLETION_CHARACTERS and definition.isascii():
            yield head, definition


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def every(rows, n):
    """Each n-th row for evaluation, the others for training."""
    return [r for i, r in enumerate(rows) if i % n != n - 1], [r for i, r in enumerate(rows) if i % n == n - 1]


def main():
    bible, jargon, devil = (pathlib.Path(p).read_text(encoding="utf-8", errors="replace") for p in sys.argv[1:4])
    out = pathlib.Path(sys.argv[4])
    base, base_eval = every([{"text": row} for row in bible_rows(bible) + jargon_rows(without_index(jargon))], 50)
    # A word of its own in front of each definition; the space belongs to the definition, as in running text.
    rows = [{"prompt": head, "completion": " " + definition} for head, definition in devil_entries(without_index(devil))]
    train, evaluation = every(rows, 10)
    for name, part in (("base", base), ("base_eval", base_eval), ("train", train), ("eval", evaluation)):
        write(out / f"{name}.jsonl", part)
        print(f"{name}.jsonl: {len(part)} rows, {sum(len(v) for row in part for v in row.values())} characters")


if __name__ == "__main__":
    main()
