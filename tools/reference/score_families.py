#!/usr/bin/env python3
"""Whether models that Windlass has trained are, for transformers and peft, the models that Windlass evaluates.

    score_families.py --windlass PROGRAM --work DIR [--only CASE ...]

Makes the tiny random model of each case in --work, with a tokenizer of characters, and trains it by AdamW, LoRA, QLoRA and
LSP through the command line. What comes out is opened by transformers, adapters by peft on their base, and scored on rows
that were held out: their loss must be that of `windlass eval`. Whole models that `export --merged` makes of adapters are
scored too. Prints a line for each check and a table, and exits with 1 if one failed. Needs torch, transformers, peft.
"""

import argparse
import copy
import json
import pathlib
import random
import shutil
import subprocess
import sys
import warnings

import peft
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models

import cases
import make_goldens as golden
import quantities as q

# Means of some 500 token losses around 5, in f32 by two engines that sum in different orders.
LOSS_DIFFERENCE_MAX = 1e-6
FAMILIES = [cases.smollm3, cases.olmo2, cases.granite, cases.phi3, cases.phi4_mini, cases.gemma2, cases.gemma3_text,
            cases.gemma3]
TRAINING = dict(max_steps=12, per_device_train_batch_size=4, gradient_accumulation_steps=1, max_length=60, seed=3,
                lr_scheduler_type="constant", add_eos="false", threads=1, ram="2GiB", weight_decay=0.01)
METHODS = {
    "adamw": dict(learning_rate=2e-3),
    "lora": dict(adapter="lora", lora_r=4, learning_rate=1e-2),
    "qlora": dict(adapter="qlora", lora_r=4, learning_rate=1e-2),
    "lsp": dict(adapter="lsp", lsp_d=16, lsp_r=4, lsp_refresh=6, learning_rate=1e-2),
}
WORDS = ["the", "winch", "lifts", "a", "great", "load", "by", "small", "steps", "and", "holds", "it", "while", "we",
         "rest", "then", "again"]


def write_tokenizer(folder):
    """A printable character to an id, of 96; the last one ends a text."""
    vocab = {chr(32 + i): i for i in range(cases.VOCAB - 1)}
    made = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    made.decoder = decoders.Fuse()
    made.add_special_tokens([AddedToken("<end>", special=True, normalized=False)])
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>"}))


def write_rows(path, count, draw):
    """Texts of 6 to 58 characters: on both sides of every window, and of the 16 tokens that longrope began with."""
    with open(path, "w") as file:
        for index in range(count):
            text = ""
            while len(text) < 6 + index * 52 // max(1, count - 1):
                text += draw.choice(WORDS) + " "
            print(json.dumps({"text": text[: 6 + index * 52 // max(1, count - 1)]}), file=file)


def make_model(case, folder):
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(5)
    config = copy.deepcopy(case.config)
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    golden.randomise(model, torch.Generator().manual_seed(7), case.norm_weight)
    model.save_pretrained(folder)
    write_tokenizer(folder)


def texts(path):
    return [json.loads(line)["text"] for line in open(path)]


def loss_of(model, folder, rows):
    """In f32, row by row."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    total, count = 0.0, 0
    with torch.no_grad():
        for text in texts(rows):
            ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
            logits = q.logits_of(model, ids)[:, :-1].double()
            total += q.loss_of(logits, ids[:, 1:]).item() * (ids.shape[1] - 1)
            count += ids.shape[1] - 1
    return total / count, count


def open_model(folder):
    model, report = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                                      output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[kind], f"{kind} of {folder}: {sorted(report[kind])[:3]}"
    return model.eval()


def open_adapter(base, folder):
    model = open_model(base)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tuned = peft.PeftModel.from_pretrained(model, folder)
    said = [str(warning.message) for warning in caught if "missing" in str(warning.message).lower()]
    assert not said, said[0]
    return tuned.eval()


class Trial:
    def __init__(self, program, work, case):
        self.program, self.folder = program, work / case.name
        self.base = self.folder / "base"
        self.train, self.held_out = work / "train.jsonl", work / "held-out.jsonl"

    def windlass(self, *words):
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr.strip()[-400:]}"
        return done.stdout

    def evaluated(self, *words):
        found = json.loads(self.windlass("eval", *words, "--data", self.held_out, "--json", "add_eos=false"))
        return found["loss"], found["target_tokens"]

    def run(self, method):
        """(what, loss of windlass, loss of transformers or peft)"""
        out = self.folder / method
        settings = TRAINING | METHODS[method] | {"model": self.base, "train_data": self.train, "output_dir": out}
        self.windlass("train", *(f"{key}={value}" for key, value in settings.items()))
        exported = self.folder / f"{method}-exported"
        self.windlass("export", out, "--to", exported)
        if method in ("adamw", "lsp"):
            yield "final/", self.evaluated(out / "final"), loss_of(open_model(out / "final"), self.base, self.held_out)
            yield "export", self.evaluated(exported), loss_of(open_model(exported), self.base, self.held_out)
            return
        for what, folder in (("final/ by peft", out / "final"), ("export by peft", exported)):
            yield what, self.evaluated(folder), loss_of(open_adapter(self.base, folder), self.base, self.held_out)
        merged = self.folder / f"{method}-merged"
        self.windlass("export", out, "--merged", "--to", merged)
        yield "export --merged", self.evaluated(out / "final"), loss_of(open_model(merged), self.base, self.held_out)
        if method == "qlora":
            computed = self.folder / "qlora-computed"
            self.windlass("export", out, "--merged", "computed", "--to", computed)
            yield ("export --merged computed", self.evaluated(out / "final", "weight_storage=nf4"),
                   loss_of(open_model(computed), self.base, self.held_out))


def check_case(trial, case, table):
    passed = True
    make_model(case, trial.base)
    ours, theirs = trial.evaluated(trial.base), loss_of(open_model(trial.base), trial.base, trial.held_out)
    before = ours[0]
    found = [("base", "", ours, theirs)]
    for method in METHODS:
        try:
            found += [(method, what, ours, theirs) for what, ours, theirs in trial.run(method)]
        except Exception as error:  # whatever a program or a package says of it
            print(f"{case.name} {method}: FAILED, {error}", flush=True)
            passed = False
    for method, what, ours, theirs in found:
        name = f"{case.name} {method} {what}".strip()
        difference = abs(ours[0] - theirs[0])
        learned = method == "base" or abs(ours[0] - before) > 0.01
        holds = difference <= LOSS_DIFFERENCE_MAX and ours[1] == theirs[1] and learned
        print(f"{name}: {'ok' if holds else 'FAILED'}, windlass {ours[0]:.7f} of {ours[1]}, {theirs[0]:.7f} of "
              f"{theirs[1]}, {difference:.1e}{'' if learned else ', as before training'}", flush=True)  # fmt: skip
        table.append((case.name, method, what, ours[0], difference))
        passed &= holds
    return passed


COLUMNS = {"base": ("base", ""), "AdamW": ("adamw", "final/"), "LoRA, by peft": ("lora", "final/ by peft"),
           "LoRA, merged": ("lora", "export --merged"), "QLoRA, by peft": ("qlora", "final/ by peft"),
           "QLoRA, merged as computed": ("qlora", "export --merged computed"), "LSP": ("lsp", "final/")}  # fmt: skip


def print_table(table):
    """A row a case: losses by `windlass eval`, and how far those by transformers or peft were from any of them."""
    print("\n| case |", " | ".join(COLUMNS), "| furthest apart |")
    print("|", " | ".join(["---"] * (len(COLUMNS) + 2)), "|")
    for name in dict.fromkeys(row[0] for row in table):
        of = {row[1:3]: row[3] for row in table if row[0] == name}
        apart = [row[4] for row in table if row[0] == name]
        losses = (f"{of[key]:.6f}" if key in of else "failed" for key in COLUMNS.values())
        print(f"| {name} |", " | ".join(losses), f"| {max(apart):.1e} of {len(apart)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windlass", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    args = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    args.work.mkdir(parents=True, exist_ok=True)
    write_rows(args.work / "train.jsonl", 48, random.Random(1))
    write_rows(args.work / "held-out.jsonl", 16, random.Random(2))
    table, passed = [], True
    for make in FAMILIES:
        case = make()
        if args.only and case.name not in args.only:
            continue
        passed &= check_case(Trial(args.windlass.resolve(), args.work, case), case, table)
        shutil.rmtree(args.work / case.name, ignore_errors=True)
    print_table(table)
    print(f"\ntorch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
