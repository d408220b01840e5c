"""Writes tests/golden/tokenizer/*.json: what Hugging Face tokenizers gives for hard strings.

    python tools/reference/tokenizer_goldens.py DATA_FOLDER

DATA_FOLDER holds the published vocabularies (tokenizer-gpt2, tokenizer-llama2, ...). Needs `pip install tokenizers`.
real.json: {name of the vocabulary: [case]}; parts.json: {"vocabs": {name: {"vocab", "merges"}}, "list": [{"name",
"tokenizer": a tokenizer.json whose model names one of the vocabs instead of having a vocab and merges, "cases"}]}.
A case is {"text", "ids", "decoded", "decoded_plain"}: ids without template, decoded with and without special tokens.
"""

import base64
import json
import random
import struct
import sys
from pathlib import Path

from tokenizers import Tokenizer, __version__

LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_SPLIT = LLAMA3_SPLIT.replace("{1,3}", "")
QWEN35_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN_SPLIT = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
                r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
                r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

TEXTS = [
    "", " ", "  ", "\n", "\r\n", "\t \n", "Hello, world!", " leading", "   three leading", "trailing   ", "a  b   c    d",
    "line one\nline two\r\nline three\r\rfour\n\n\nfive   \n  six", "I'll we'VE DON'T it'S 'sX o'clock'd x'\u017f K'\u212a",
    "3.14159 2,718,281 12345678901234567890 \u0661\u0662\u0663 \u2167 \u00bd \u00b2 \u4e09",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u6771\u4eac\u90fd \u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    "\U0001f680 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308 \u2764\ufe0f \U0001f1e9\U0001f1ea",
    "e\u0301 a\u0308\u0323 q\u0307\u0323 \u0301\u0302 n\u0303o \u1e9b\u0323 \u212b \u2126 \u0958 \u0344 \ufb1d",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0645\u0631\u062d\u0628\u0627 \u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u1780\u17b6\u1793\u17cb",
    "nbsp\u00a0here nel\u0085here mvs\u180ehere zwsp\u200bhere ls\u2028here ideo\u3000here thin\u2009here bom\ufeffhere",
    "\u0000 \u0001\u007f \ufffd \ue000 \U0010ffff \u0378", "def f(x):\n\treturn {'a': [1, 2], \"b\": x**2}  # ok\n\n\n",
    "<s>hello</s> <s> <unk> <|endoftext|><|endoftext|> a<|im_start|>user\nhi<|im_end|>\n <|eot_id|>x",
    "https://example.org/?q=%20&x=1#frag user@example.com $100.00 \u20ac5 50% C++ ~/.bashrc", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "CamelCaseHTTPServer snake_case_name kebab-case XMLHttpRequest iPhone \u01c5ungla \u02b0\u02b1", "_" * 40 + "=" * 33 + "." * 21,
    " " * 50 + "x" + " " * 31, "Stra\u00dfe na\u00efve co\u00f6perate fa\u00e7ade \u0141\u00f3d\u017a \u0130stanbul",
    "\u2581 \u2581\u2581a \u2581b", "!?\u2026\u3002\u201cquoted\u201d \u2014 dash\u2013dash", "\u0627\u0644\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u0651\u064e\u0629",
]


def random_texts(count, seed):
    rng = random.Random(seed)
    pools = ["abcdefg hijkl", "ABC'sStT dDlL", "0123456789", " \t\n\r  ", "\u00e9\u0301\u0323\u0308e a", "\u4f60\u597d\u4e16\u754c",
             "\U0001f600\U0001f680\u200d\ufe0f", ".,;:!?-_()[]{}\"'/\\", "\u00a0\u3000\u2028\u0085", "\u0430\u0431\u0432\u0413\u0414", "\u1100\u1161\u11a8\uac00"]
    texts = []
    for _ in range(count):
        text = ""
        for _ in range(rng.randint(1, 12)):
            pool = rng.choice(pools)
            text += "".join(rng.choice(pool) for _ in range(rng.randint(1, 6)))
        texts.append(text)
    return texts


def added(content, id, **flags):
    token = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True}
    return {**token, **flags}


def whole(model, **parts):
    """A tokenizer.json."""
    empty = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": None, "post_processor": None, "decoder": None}
    return {**empty, **parts, "model": {"type": "BPE", **model}}


def byte_level(regex, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(kind, *steps):
    return {"type": "Sequence", kind: list(steps)}


def alphabet():
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in keep]
    return {**{b: chr(b) for b in keep}, **{b: chr(0x100 + i) for i, b in enumerate(rest)}}


# ---- published vocabularies in their own formats ----


def llama2(data):
    """SentencePiece model: a protocol buffer with repeated pieces {1: text, 2: score, 3: type}."""
    raw = (data / "tokenizer-llama2/tokenizer.model").read_bytes()

    def varint(at):
        value = shift = 0
        while True:
            byte = raw[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at

    def fields(at, end):
        while at < end:
            tag, at = varint(at)
            size, at = varint(at) if tag & 7 in (0, 2) else ({5: 4, 1: 8}[tag & 7], at)
            yield tag >> 3, (size, at)
            at += 0 if tag & 7 == 0 else size

    pieces = []
    for number, (size, at) in fields(0, len(raw)):
        if number == 1:
            part = dict(fields(at, at + size))
            pieces.append((raw[part[1][1]:part[1][1] + part[1][0]].decode(), struct.unpack_from("<f", raw, part[2][1])[0]))
    vocab = {text: i for i, (text, _) in enumerate(pieces)}
    merges = []
    for text, score in pieces:
        cuts = [(text[:i], text[i:]) for i in range(1, len(text)) if text[:i] in vocab and text[i:] in vocab]
        merges += [(score, pair) for pair in sorted(cuts, key=lambda p: (vocab[p[0]], vocab[p[1]]))]
    merges = [list(pair) for _, pair in sorted(merges, key=lambda m: -m[0])]
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    back = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    return whole({"vocab": vocab, "merges": merges, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True},
                 added_tokens=[added("<unk>", 0), added("<s>", 1), added("</s>", 2)],
                 normalizer=sequence("normalizers", {"type": "Prepend", "prepend": "\u2581"}, space),
                 decoder=sequence("decoders", back, {"type": "ByteFallback"}, {"type": "Fuse"},
                                  {"type": "Strip", "content": " ", "start": 1, "stop": 0}))


def llama3(data):
    """tiktoken ranks; a merge is found again by merging a token's bytes with the lower ranks only."""
    lines = (data / "tokenizer-llama3/tokenizer.model").read_text().split("\n")
    ranks = {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in lines if line}
    letters = alphabet()
    spell = lambda token: "".join(letters[b] for b in token)
    merges = []
    for token, own in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [bytes([b]) for b in token]
        while len(parts) > 2:
            best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], 1 << 30))
            if ranks.get(parts[best] + parts[best + 1], 1 << 30) >= own:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            merges.append([spell(parts[0]), spell(parts[1])])
    special = ["<|begin_of_text|>", "<|end_of_text|>", *(f"<|reserved_{i}|>" for i in range(7)), "<|eot_id|>"]
    return whole({"vocab": {spell(t): r for t, r in ranks.items()}, "merges": merges, "ignore_merges": True},
                 added_tokens=[added(content, 128000 + i) for i, content in enumerate(special)],
                 pre_tokenizer=sequence("pretokenizers", split(LLAMA3_SPLIT), byte_level(False)), decoder=byte_level(True))


def from_vocab_merges(folder, **parts):
    merges = [line.split(" ") for line in (folder / "merges.txt").read_text().split("\n")
              if line and not line.startswith("#version")]
    return whole({"vocab": json.loads((folder / "vocab.json").read_text()), "merges": merges}, decoder=byte_level(True), **parts)


def real(data):
    qwen = json.loads((data / "tokenizer-qwen3/tokenizer_config.json").read_text())["added_tokens_decoder"]
    return {
        "gpt2": json.loads((data / "tokenizer-gpt2/tokenizer.json").read_text()),
        "pythia": json.loads((data / "tokenizer-neox-pythia/20B_tokenizer.json").read_text()),
        "stories": json.loads((data / "model-stories260K-hf/tokenizer.json").read_text()),
        "opt": from_vocab_merges(data / "tokenizer-opt", pre_tokenizer=byte_level(True),
                                 added_tokens=[added("<pad>", 1), added("</s>", 2)]),
        "qwen3": from_vocab_merges(data / "tokenizer-qwen3", normalizer={"type": "NFC"},
                                   pre_tokenizer=sequence("pretokenizers", split(QWEN_SPLIT), byte_level(False)),
                                   added_tokens=[added(t["content"], int(i), special=t["special"]) for i, t in qwen.items()]),
        "llama2": llama2(data),
        "llama3": llama3(data),
    }


# ---- small tokenizers, each for one part ----


def parts():
    byte_vocab = {letter: i for i, letter in enumerate(alphabet()[b] for b in range(256))}
    merges = [["h", "e"], ["l", "l"], ["he", "ll"], ["hell", "o"], ["\u0120", "w"], ["o", "r"], ["\u0120w", "or"], ["1", "2"]]
    for left, right in merges:
        byte_vocab[left + right] = len(byte_vocab)
    model = {"vocab": byte_vocab, "merges": merges}
    mark_vocab = {"<unk>": 0, **{f"<0x{b:02X}>": b + 1 for b in range(256)}}
    mark_merges = [["\u2581", "h"], ["e", "l"], ["\u2581h", "el"], ["\u2581", "\u2581"], ["\u2581hel", "lo"], ["l", "o"]]
    for token in ["\u2581", *"abcdehlowr12", "lo", *("".join(m) for m in mark_merges)]:
        mark_vocab.setdefault(token, len(mark_vocab))
    mark_merges.insert(4, mark_merges.pop())
    mark = {"vocab": mark_vocab, "merges": mark_merges, "unk_token": "<unk>"}
    few = {"vocab": {k: v for k, v in mark_vocab.items() if not k.startswith("<0x") or k in ("<0xC3>", "<0x2E>")},
           "merges": mark_merges, "unk_token": "<unk>"}
    level, n = byte_level(False), len(byte_vocab)
    out = []
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in [False, True]:
            step = split(r"\s+|l", behavior, invert)
            out.append((f"split {behavior} {invert}", whole(model, pre_tokenizer=sequence("pretokenizers", step, level), decoder=level)))
        step = split("l", behavior, kind="String")
        out.append((f"split text {behavior}", whole(model, pre_tokenizer=sequence("pretokenizers", step, level), decoder=level)))
    for name, expression in [("qwen3.5", QWEN35_SPLIT), ("tekken", TEKKEN_SPLIT)]:
        out.append((name, whole(model, pre_tokenizer=sequence("pretokenizers", split(expression), level), decoder=level)))
    for line in [r"\s+$", r"[ \t]+|\n", r"^\p{L}+", r"\d+|[\s,.]+"]:
        out.append((f"regex {line}", whole(model, pre_tokenizer=sequence("pretokenizers", split(line), level), decoder=level)))
    for individual in [False, True]:
        digits = {"type": "Digits", "individual_digits": individual}
        out.append((f"digits {individual}", whole(model, pre_tokenizer=sequence("pretokenizers", digits, byte_level(True)), decoder=level)))
    out.append(("prefix space", whole(model, pre_tokenizer=byte_level(True, True), decoder=level, added_tokens=[added("<s>", n)])))
    for scheme in ["first", "always", "never"]:
        for cut in [False, True]:
            space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": cut}
            out.append((f"metaspace {scheme} {cut}",
                        whole({**mark, "byte_fallback": True}, pre_tokenizer=space, decoder=sequence("decoders", {"type": "ByteFallback"}, space),
                              added_tokens=[added("<s>", len(mark_vocab))])))
    for fuse in [False, True]:
        for fallback in [False, True]:
            out.append((f"unknown {fuse} {fallback}", whole({**few, "fuse_unk": fuse, "byte_fallback": fallback}, decoder={"type": "Fuse"})))
    flags = [added("<s>", n), added("<left>", n + 1, lstrip=True), added("<right>", n + 2, rstrip=True),
             added("<both>", n + 3, lstrip=True, rstrip=True), added("word", n + 4, single_word=True, special=False),
             added("  ", n + 5, normalized=True, special=False), added("   ", n + 6, normalized=True, special=False),
             added("<s", n + 7)]
    out.append(("added tokens", whole(model, normalizer={"type": "NFC"}, pre_tokenizer=byte_level(True), decoder=level, added_tokens=flags)))
    replace = {"type": "Replace", "pattern": {"Regex": r"l+"}, "content": "L"}
    out.append(("replace", whole(model, normalizer=sequence("normalizers", replace, {"type": "Prepend", "prepend": "x"}),
                                 pre_tokenizer=byte_level(True), added_tokens=flags[:3],
                                 decoder=sequence("decoders", level, {"type": "Strip", "content": "x", "start": 2, "stop": 0}))))
    return out


PART_TEXTS = [
    "", "hello world", "hello  hello   world 1212 ", " hello\nhello\n\n  l l ll lll", "l", "ll", " ", "hello\u00e9\u00e9.world\u4f60\u597d",
    "<s>hello<s>", "a <left> b <right>  c<both> \n d", "  <both>  <left> <right>  ", "word sword words word. _word word\u00e9 (word)",
    "<s <s> <left><left>  <left>", "    x     y", "e\u0301 \u00e9 e", "A1b2\u0663\u00bd 12 3 1x", "\u2581hello \u2581\u2581 hello", "Hello HELLO hELLO's\u0301 X/\r\n/",
    "tab\there nbsp\u00a0x\u3000y \u0085 z",
]


def cases(tokenizer_json, texts):
    tokenizer = Tokenizer.from_str(json.dumps(tokenizer_json))
    out = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        out.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                    "decoded_plain": tokenizer.decode(ids, skip_special_tokens=True)})
    return out


def write(path, value, pretty_depth):
    """One case a line: small, and readable in a diff."""
    def dump(value, depth, pad):
        if depth == 0 or not isinstance(value, (dict, list)):
            return json.dumps(value, separators=(",", ":"))
        inner = pad + " "
        if isinstance(value, dict):
            lines = [inner + json.dumps(k) + ": " + dump(v, depth - 1, inner) for k, v in value.items()]
            return "{\n" + ",\n".join(lines) + "\n" + pad + "}"
        return "[\n" + ",\n".join(inner + dump(v, depth - 1, inner) for v in value) + "\n" + pad + "]"
    path.write_text(dump(value, pretty_depth, "") + "\n")


def main():
    data = Path(sys.argv[1])
    golden = Path(__file__).resolve().parents[2] / "tests/golden/tokenizer"
    texts = TEXTS + random_texts(40, seed=1)
    about = {"made_by": "tools/reference/tokenizer_goldens.py", "tokenizers": __version__}
    write(golden / "real.json", {"about": about, **{name: cases(t, texts) for name, t in real(data).items()}}, 2)
    vocabs, made = {}, []
    for name, tokenizer in parts():
        made.append({"name": name, "tokenizer": tokenizer, "cases": cases(tokenizer, PART_TEXTS + random_texts(12, seed=2))})
        model = tokenizer["model"]
        vocab = {"vocab": model.pop("vocab"), "merges": model.pop("merges")}
        model["vocab_name"] = next((k for k, v in vocabs.items() if v == vocab), f"vocab_{len(vocabs)}")
        vocabs[model["vocab_name"]] = vocab
    write(golden / "parts.json", {"about": about, "vocabs": vocabs, "list": made}, 4)


if __name__ == "__main__":
    main()
