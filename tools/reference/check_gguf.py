#!/usr/bin/env python3
"""Whether llama.cpp computes with a GGUF file that Windlass wrote what transformers computes with the model.

    check_gguf.py --windlass PROGRAM --data DIR --work DIR [--smollm2 DIR] [--only NAME ...]

DIR of --data holds the published tokenizers (tokenizer-gpt2, ...) and model-stories260K-hf; --smollm2 is a folder with
SmolLM2-135M. Makes a small model of each family with a real tokenizer in --work, exports it, and checks: each field and
tensor as the gguf package reads it (q8_0 against its own quantizer, bit for bit), tokens of hard texts, log-probabilities
of texts, tokens written greedily, and the chat template as rendered. Prints a line for each check, and exits with 1 if
one failed. Needs torch, transformers, gguf and xllamacpp, which has llama.cpp in it; docs/dev/goldens.md says more.
"""

import argparse
import functools
import json
import math
import pathlib
import subprocess
import sys
import traceback
import urllib.request

import gguf
import numpy as np
import torch
import transformers
import xllamacpp
from tokenizer_goldens import TEXTS, random_texts

import gguf_models

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

    def __init__(self, path):
        p = xllamacpp.CommonParams()
        p.model.path = str(path)
        p.n_ctx, p.n_parallel, p.port, p.warmup = 512, 1, 0, False
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


def read_back(path, folder, kind):
    """Fields and tensors by the gguf package; gives how many there are."""
    reader = gguf.GGUFReader(path)
    tensors = {t.name: t for t in reader.tensors}
    weights = gguf_models.weights_of(folder)
    wanted = gguf_models.expected_tensors(folder, weights)
    require(set(tensors) == set(wanted), f"tensors differ: {sorted(set(tensors) ^ set(wanted))[:6]}")
    for name, value in wanted.items():
        tensor = tensors[name]
        stays = value.ndim < 2 or name == "position_embd.weight"
        want_type = gguf.GGMLQuantizationType.F32 if stays else gguf_models.TYPES[kind]
        if kind == "q8_0" and not stays and value.shape[-1] % 32:
            want_type = gguf.GGMLQuantizationType.F16
        require(tensor.tensor_type == want_type, f"{name} is {tensor.tensor_type.name}, wanted {want_type.name}")
        require(list(tensor.shape) == list(reversed(value.shape)), f"{name}: shape {list(tensor.shape)}")
        encoded = gguf_models.encoded(value.astype(np.float32), want_type)
        require(np.array_equal(encoded.reshape(-1).view(np.uint8), np.asarray(tensor.data).reshape(-1).view(np.uint8)),
                f"{name}: other bytes than gguf's own")
    fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    for name, field in fields.items():
        field.contents()
    return len(fields), len(tensors), sum(t.n_bytes for t in reader.tensors)


def same_tokens(llama, tokenizer, encode, nfc):
    texts = [t for t in TEXTS + random_texts(200, 7) if t]
    differ = [t for t in texts if llama.tokens(t) != encode(t, False)]
    composed = [t for t in differ if nfc and llama.tokens(gguf_models.to_nfc(t)) == encode(t, False)]
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


def same_probabilities(llama, model, encode):
    """The largest difference over the vocabulary's likely tokens, behind prefixes of a text."""
    ids = encode("Once upon a time, there was a little girl who loved 3 red balls. She said: \"Hello!\"\n", True)
    worst, compared = 0.0, 0
    want = log_probabilities(model, ids)
    for length in sorted({1, 2, 5, len(ids) // 2, len(ids)}):
        answer = llama.complete(ids[:length], 1, 200)
        for entry in answer["completion_probabilities"][0]["top_logprobs"]:
            ours = want[length - 1, entry["id"]].item()
            if ours < math.log(LEAST_PROBABILITY):
                continue
            worst, compared = max(worst, abs(ours - entry["logprob"])), compared + 1
    require(compared > 100, f"only {compared} numbers were compared")
    require(worst < LOG_PROBABILITY_MAX, f"log-probabilities differ by {worst:.2e}")
    return f"{compared} numbers, {worst:.1e} apart"


def same_greedy(llama, model, tokenizer, encode):
    """Tokens that are written, up to the first choice that the two engines cannot tell apart; then from there on."""
    ids = encode("Once upon a time", True)
    start, ties = len(ids), 0
    while len(ids) < start + GREEDY_TOKENS:
        got = llama.complete(ids, start + GREEDY_TOKENS - len(ids), 1)["tokens"]
        if not got:
            break
        want = log_probabilities(model, ids + got)[len(ids) - 1:-1]
        for place, token in enumerate(got):
            best = want[place].max().item()
            if want[place, token].item() == best:
                continue
            require(best - want[place, token].item() < TIE, f"token {len(ids) - start + place} is another")
            ties += 1
        ids += got
        if ids[-1] in gguf_models.ends(tokenizer, model):
            break
    return f"{len(ids) - start} tokens" + (f", {ties} of them ties" if ties else "")


def same_template(llama, tokenizer):
    conversations = [[{"role": "user", "content": "Hi"}],
                     [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2+2?"},
                      {"role": "assistant", "content": "4."}, {"role": "user", "content": " And\n3+3? "}]]
    for messages in conversations:
        want = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        bos = tokenizer.bos_token or ""
        got = llama.template(messages)
        require(got in (want, want.removeprefix(bos)), f"{got!r} for {want!r}")
    return f"{len(conversations)} conversations"


def export(windlass, source, target, kind):
    target.unlink(missing_ok=True)
    done = subprocess.run([windlass, "export", source, "--to", target, "--type", kind], text=True, capture_output=True)
    require(done.returncode == 0, f"windlass export: {done.stderr.strip()}")


def check(windlass, name, folder, work):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    files = {kind: work / f"{name}-{kind}.gguf" for kind in gguf_models.TYPES}
    encode = gguf_models.encoder(folder, tokenizer)
    nfc = '"NFC"' in (folder / "tokenizer.json").read_text() if (folder / "tokenizer.json").exists() else True

    def read(kind):
        export(windlass, folder, files[kind], kind)
        fields, tensors, size = read_back(files[kind], folder, kind)
        return f"{fields} fields, {tensors} tensors, {size} bytes"

    checks = [(f"reads back as {kind}", functools.partial(read, kind)) for kind in files]
    llama = []

    def load():
        llama.append(LlamaCpp(files["f32"]))
        return "loaded"

    checks += [("llama.cpp", load), ("tokens", lambda: same_tokens(llama[0], tokenizer, encode, nfc)),
               ("log-probabilities", lambda: same_probabilities(llama[0], model, encode)),
               ("greedy", lambda: same_greedy(llama[0], model, tokenizer, encode))]
    if tokenizer.chat_template:
        checks.append(("template", lambda: same_template(llama[0], tokenizer)))
    failed = 0
    for what, run in checks:
        try:
            print(f"{name}: {what}: {run()}", flush=True)
        except Exception as error:  # a check that breaks is one that failed
            failed += 1
            print(f"{name}: {what}: FAILED: {error}", flush=True)
            if not isinstance(error, Failed):
                traceback.print_exc()
    for path in files.values():
        path.unlink(missing_ok=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windlass", required=True, type=pathlib.Path)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--smollm2", type=pathlib.Path)
    parser.add_argument("--only", nargs="*")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, xllamacpp {xllamacpp.__version__}")
    failed = 0
    for name, folder in gguf_models.folders(args.data, args.work, args.smollm2, args.only):
        failed += check(args.windlass, name, folder, args.work)
    print("all checks passed" if failed == 0 else f"{failed} checks FAILED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
