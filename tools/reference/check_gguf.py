#!/usr/bin/env python3
"""Whether llama.cpp computes with a GGUF file that Windlass wrote what transformers computes with the model.

    check_gguf.py --windlass PROGRAM --render PROGRAM --data DIR --work DIR [--smollm2 DIR] [--only NAME ...]

DIR of --data holds the published tokenizers (tokenizer-gpt2, ...) and model-stories260K-hf; --smollm2 is a folder with
SmolLM2-135M. Makes a small model of each family with a real tokenizer in --work, exports it, and checks: each field and
tensor as the gguf package reads it (q8_0 against its own quantizer, bit for bit), tokens of hard texts, log-probabilities
of texts, tokens written greedily, and the chat template as rendered by transformers and by Windlass. Prints a line for each
check and then a table of them, and exits with 1 if one failed. Needs torch, transformers, trl, gguf and xllamacpp, which
has llama.cpp in it; docs/dev/goldens.md says more.
"""

import argparse
import copy
import functools
import json
import math
import pathlib
import subprocess
import sys
import time
import traceback
import urllib.request

import gguf
import numpy as np
import torch
import transformers
import xllamacpp
from tokenizer_goldens import TEXTS, random_texts

import gguf_expected
import gguf_models
import gguf_tokenizers

LOG_PROBABILITY_MAX = 1e-3  # two engines in f32 that sum in different orders; llama.cpp's exp is its own
# Of tokens that are less likely than this nobody asks; their logarithms magnify the same differences.
LEAST_PROBABILITY = 1e-6
GREEDY_TOKENS = 200
# Where the two best are nearer to each other than both engines are, either may win.
TIE = 2e-3


class Failed(Exception):
    """A check's finding, in words."""


def require(holds, message):
    if not holds:
        raise Failed(message)


class LlamaCpp:
    """A server of llama.cpp in this process, asked over HTTP."""

    def __init__(self, path, context):
        p = xllamacpp.CommonParams()
        p.model.path = str(path)
        p.n_ctx, p.n_parallel, p.port, p.warmup = context, 1, 0, False
        p.n_gpu_layers, p.use_jinja = 0, True
        p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
        p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        p.verbosity = 0
        self.server = xllamacpp.Server(p)

    def post(self, path, body):
        request = urllib.request.Request(self.server.listening_address + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def tokens(self, text, add_special=False):
        body = {"content": text, "add_special": add_special, "parse_special": True}
        return self.post("/tokenize", body)["tokens"]

    def template(self, messages):
        return self.post("/apply-template", {"messages": messages})["prompt"]

    def complete(self, ids, count, top):
        body = {"prompt": ids, "n_predict": count, "temperature": 0, "n_probs": top, "post_sampling_probs": False,
                "cache_prompt": False, "return_tokens": True, "repeat_penalty": 1.0}
        return self.post("/completion", body)


def read_back(path, folder, tokenizer, kind):
    """Fields and tensors by the gguf package, each held against what must be there."""
    reader = gguf.GGUFReader(path)
    tensors = {t.name: t for t in reader.tensors}
    wanted = gguf_expected.expected_tensors(folder, gguf_expected.weights_of(folder))
    require(set(tensors) == set(wanted), f"tensors differ: {sorted(set(tensors) ^ set(wanted))[:6]}")
    for name, value in wanted.items():
        tensor = tensors[name]
        stays = value.ndim < 2 or name == "position_embd.weight"
        want_type = gguf.GGMLQuantizationType.F32 if stays else gguf_expected.TYPES[kind]
        if kind == "q8_0" and not stays and value.shape[-1] % 32:
            want_type = gguf.GGMLQuantizationType.F16
        require(tensor.tensor_type == want_type, f"{name} is {tensor.tensor_type.name}, wanted {want_type.name}")
        require(list(tensor.shape) == list(reversed(value.shape)), f"{name}: shape {list(tensor.shape)}")
        encoded = gguf_expected.encoded(value.astype(np.float32), want_type)
        require(np.array_equal(encoded.reshape(-1).view(np.uint8), np.asarray(tensor.data).reshape(-1).view(np.uint8)),
                f"{name}: other bytes than gguf's own")
    fields = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    expected = gguf_expected.expected_fields(folder, tokenizer, path, kind)
    # By what steps a text is cut is seen in the tokens; a second end of answers is not every tokenizer's, and
    # transformers' class of GPT-2 names an unknown token where no file does.
    aside = {"tokenizer.ggml.pre", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.unknown_token_id"}
    differ = (set(fields) ^ set(expected)) - aside
    require(not differ, f"fields differ: {sorted(differ)}")
    for name in set(fields) & set(expected):
        require(gguf_expected.same_value(fields[name], expected[name]),
                f"{name} is {str(fields[name])[:200]}, wanted {str(expected[name])[:200]}")
    return len(fields), len(tensors), sum(t.n_bytes for t in reader.tensors)


def same_tokens(llama, tokenizer, encode, nfc):
    texts = [t for t in TEXTS + random_texts(200, 7) if t]
    differ = [t for t in texts if llama.tokens(t) != encode(t, False)]
    composed = [t for t in differ if nfc and llama.tokens(gguf_tokenizers.to_nfc(t)) == encode(t, False)]
    # llama.cpp takes the end of Llama 2's texts for special wherever a vocabulary holds it; in Qwen's it is a word.
    word = "</s>" in tokenizer.get_vocab() and "</s>" not in tokenizer.get_added_vocab()
    taken = [t for t in differ if word and "</s>" in t]
    others = [t for t in differ if t not in composed and t not in taken]
    require(not others, f"{len(others)} of {len(texts)} texts, such as {others[0]!r}: {llama.tokens(others[0])} for "
            f"{encode(others[0], False)}" if others else "")
    text = "Once upon a time"
    require(llama.tokens(text, True) == encode(text, True), f"with special tokens: {encode(text, True)}")
    return f"{len(texts)} texts" + (f", {len(composed)} of them once brought into NFC, which llama.cpp does not do"
                                    if composed else "") + (f", but {len(taken)} with </s>" if taken else "")


@torch.no_grad()
def log_probabilities(model, ids):
    return torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)


class TableGelu(torch.nn.Module):
    """ggml's GELU on a CPU (GGML_GELU_FP16): between -10 and 10 a table of f16 numbers by f16 numbers."""

    def forward(self, x):
        h = x.half().float()
        y = 0.5 * h * (1 + torch.tanh(0.79788456080286535588 * h * (1 + 0.044715 * h * h)))
        return torch.where(x <= -10, 0.0, torch.where(x >= 10, x, y.half().float()))


def with_table_gelu(model):
    """The model with that in place of its own; None where it has no GELU."""
    made = copy.deepcopy(model)
    owners = [(module, name) for module in made.modules() for name, child in module.named_children()
              if "GELU" in type(child).__name__]
    for module, name in owners:
        setattr(module, name, TableGelu())
    return made if owners else None


def said_again(encode, text, tokens_min):
    ids = encode(text, True)
    more = encode(text, False)
    while len(ids) < tokens_min:
        ids = ids + more
    return ids


def furthest(answers, model, ids):
    """The largest difference over the vocabulary's likely tokens, behind prefixes of a text."""
    worst, compared = 0.0, 0
    want = log_probabilities(model, ids)
    for length, answer in answers:
        for entry in answer["completion_probabilities"][0]["top_logprobs"]:
            ours = want[length - 1, entry["id"]].item()
            if ours < math.log(LEAST_PROBABILITY):
                continue
            worst, compared = max(worst, abs(ours - entry["logprob"])), compared + 1
    require(compared > 100, f"only {compared} numbers were compared")
    return worst, compared


def same_probabilities(llama, model, encode, text, found):
    """Where llama.cpp has GELU from its table, the limit is held with that table in transformers' model, and what
    transformers itself says is printed beside it."""
    ids = said_again(encode, "Once upon a time, there was a little girl who loved 3 red balls. She said: \"Hello!\"\n",
                     text.tokens_min)
    first = text.tokens_min  # of the prefixes that are long enough
    lengths = sorted({first + 1, first + 2, first + 5, (first + len(ids)) // 2, len(ids)} & set(range(len(ids) + 1)))
    answers = [(length, llama.complete(ids[:length], 1, 200)) for length in lengths]
    worst, compared = furthest(answers, model, ids)
    table = with_table_gelu(model)
    if table is not None:
        by_table, _ = furthest(answers, table, ids)
        require(by_table < LOG_PROBABILITY_MAX, f"log-probabilities differ by {by_table:.2e} even with ggml's GELU")
        found.append(f"{worst:.1e} ({by_table:.1e} with ggml's GELU)")
    else:
        require(worst < LOG_PROBABILITY_MAX, f"log-probabilities differ by {worst:.2e}")
        found.append(f"{worst:.1e}")
    return f"{compared} numbers, {found[-1]} apart"


def same_greedy(llama, model, tokenizer, encode, text):
    """Tokens that are written, up to the first choice that the two engines cannot tell apart; then from there on."""
    judge = with_table_gelu(model) or model
    ids = said_again(encode, "Once upon a time", text.tokens_min)
    start, ties = len(ids), 0
    while len(ids) < start + GREEDY_TOKENS:
        got = llama.complete(ids, start + GREEDY_TOKENS - len(ids), 1)["tokens"]
        if not got:
            break
        want = log_probabilities(judge, ids + got)[len(ids) - 1:-1]
        for place, token in enumerate(got):
            best = want[place].max().item()
            if want[place, token].item() == best:
                continue
            require(best - want[place, token].item() < TIE, f"token {len(ids) - start + place} is another")
            ties += 1
        ids += got
        if ids[-1] in gguf_tokenizers.ends(tokenizer, model):
            break
    return f"{len(ids) - start} tokens" + (f", {ties} of them ties" if ties else "")


CONVERSATIONS = [[{"role": "user", "content": "Hi"}],
                 [{"role": "user", "content": "What is 2+2?"}, {"role": "assistant", "content": "4."},
                  {"role": "user", "content": " And\n3+3? "}],
                 [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2+2?"},
                  {"role": "assistant", "content": "4."}, {"role": "user", "content": " And\n3+3? "}]]


def rendered_by_windlass(program, tokenizer, conversations, work):
    names = ("bos_token", "eos_token", "unk_token", "pad_token")
    jobs = {"templates": {"own": tokenizer.chat_template},
            "special_tokens": {name: getattr(tokenizer, name) for name in names if getattr(tokenizer, name)},
            "now_seconds": int(time.time()),
            "jobs": [{"template": "own", "messages": messages, "add_generation_prompt": True}
                     for messages in conversations]}
    (work / "jobs.json").write_text(json.dumps(jobs))
    done = subprocess.run([program, work / "jobs.json"], text=True, capture_output=True, check=True)
    return [answer["text"] for answer in json.loads(done.stdout)]


def same_template(llama, tokenizer, render, work):
    """A template may refuse a role: then llama.cpp is not asked."""
    wanted = []
    for messages in CONVERSATIONS:
        try:
            wanted.append((messages, tokenizer.apply_chat_template(messages, tokenize=False,
                                                                   add_generation_prompt=True)))
        except Exception as error:
            require("system" in str(error).lower(), str(error))
    ours = rendered_by_windlass(render, tokenizer, [messages for messages, _ in wanted], work)
    for (messages, want), own in zip(wanted, ours):
        bos = tokenizer.bos_token or ""
        got = llama.template(messages)
        require(own == want, f"Windlass renders {own!r} for {want!r}")
        require(got in (want, want.removeprefix(bos)), f"{got!r} for {want!r}")
    return f"{len(wanted)} conversations"


def export(windlass, source, target, kind):
    target.unlink(missing_ok=True)
    done = subprocess.run([windlass, "export", source, "--to", target, "--type", kind], text=True, capture_output=True)
    require(done.returncode == 0, f"windlass export: {done.stderr.strip()}")


def checks_of(args, name, folder, texts, found):
    """(what, function that says what it found) in order; `found` gets the numbers of the table."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    files = {kind: args.work / f"{name}-{kind}.gguf" for kind in gguf_expected.TYPES}
    encode = gguf_tokenizers.encoder(folder, tokenizer)
    nfc = '"NFC"' in (folder / "tokenizer.json").read_text() if (folder / "tokenizer.json").exists() else True
    llama = {}

    def read(kind):
        export(args.windlass, folder, files[kind], kind)
        fields, tensors, size = read_back(files[kind], folder, tokenizer, kind)
        found["read"] = f"{fields}, {tensors}"
        return f"{fields} fields, {tensors} tensors, {size} bytes"

    def load(text):
        llama.clear()
        llama["now"] = LlamaCpp(files["f32"], text.context)
        return f"loaded, context {text.context}"

    def tokens():
        found["tokens"] = same_tokens(llama["now"], tokenizer, encode, nfc)
        return found["tokens"]

    def probabilities(text):
        return same_probabilities(llama["now"], model, encode, text, found["furthest"])

    def greedy(text):
        found["greedy"].append(same_greedy(llama["now"], model, tokenizer, encode, text))
        return found["greedy"][-1]

    def template():
        found["template"] = same_template(llama["now"], tokenizer, args.render, args.work)
        return found["template"]

    for kind in files:
        yield f"reads back as {kind}", functools.partial(read, kind)
    for text in texts:
        yield "llama.cpp", functools.partial(load, text)
        if text is texts[0]:
            yield "tokens", tokens
        yield "log-probabilities", functools.partial(probabilities, text)
        yield "greedy", functools.partial(greedy, text)
    if tokenizer.chat_template:
        yield "template", template
    for path in files.values():
        path.unlink(missing_ok=True)


def check(args, name, says, texts, folder):
    """How many failed, and the row of the table."""
    failed, found = 0, {"tokens": "", "read": "", "furthest": [], "greedy": [], "template": "none"}
    for what, run in checks_of(args, name, folder, texts, found):
        try:
            print(f"{name}: {what}: {run()}", flush=True)
        except Exception as error:  # a check that breaks is one that failed
            failed += 1
            print(f"{name}: {what}: FAILED: {error}", flush=True)
            if not isinstance(error, Failed):
                traceback.print_exc()
    cells = [says, found["read"], found["tokens"], "; ".join(found["furthest"]), "; ".join(found["greedy"]),
             found["template"]]
    return failed, "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windlass", required=True, type=pathlib.Path)
    parser.add_argument("--render", required=True, type=pathlib.Path, help="tools/render_template, as it is built")
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--smollm2", type=pathlib.Path)
    parser.add_argument("--only", nargs="*")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, xllamacpp {xllamacpp.__version__}")
    failed, rows = 0, []
    for name, says, texts, folder in gguf_models.folders(args.data, args.work, args.smollm2, args.only):
        failures, row = check(args, name, says, texts, folder)
        failed += failures
        rows.append(row)
    print("all checks passed" if failed == 0 else f"{failed} checks FAILED")
    print("\n| model | fields, tensors read back | tokens | log-probabilities, furthest | greedy | template |")
    print("| --- | --- | --- | --- | --- | --- |", *rows, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
