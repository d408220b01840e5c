#!/usr/bin/env python3
"""Records what TRL makes of pairs of answers: losses, rewards, gradients and twenty steps of DPO and ORPO.

    preference_goldens.py [--out tests/golden/preference]

Needs trl, torch, transformers, datasets and safetensors. The model is that of tests/golden/llama. Losses come from TRL's
own trainers (DPOTrainer.compute_loss, ORPOTrainer.get_batch_loss_metrics) for batches that are made here; the optimizer
is torch.optim.AdamW. ORPOTrainer's first term is over the prompt too: prompts of one token, which is no target, and
preferred answers of one length make it the mean over answers, which is what ours is. With prompts (orpo_prompt), which
are as long together with the preferred answers, its mean over all tokens is one over pairs.
"""
import argparse
import json
import pathlib
import random
import types

import safetensors.torch
import torch
import transformers
import trl
from trl.experimental.orpo import ORPOTrainer

ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCAB, LENGTH, PAIRS, STEPS = 96, 24, 4, 20
BETA = {"dpo": 0.3, "orpo": 0.2, "orpo_prompt": 0.2}
ADAMW = {"lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0, "clip_norm": 1.0}


def draw_pairs(rng, kind):
    """[(prompt, chosen, rejected)], none longer than LENGTH with its prompt."""
    pairs = []
    for _ in range(PAIRS):
        ids = lambda count: [rng.randrange(3, VOCAB) for _ in range(count)]
        prompt = ids(1 if kind == "orpo" else rng.randint(3, 8))
        chosen = {"orpo": 12, "orpo_prompt": 16 - len(prompt)}.get(kind) or rng.randint(4, 16)
        pairs.append((prompt, ids(chosen), ids(rng.randint(4, 16))))
    return pairs


def padded(pairs, side):
    """ids, attention and the mask of answers of one side, [PAIRS, LENGTH]."""
    ids, seen, answer = [], [], []
    for pair in pairs:
        prompt, tail = pair[0], pair[1 + side]
        rest = LENGTH - len(prompt) - len(tail)
        ids.append(prompt + tail + [0] * rest)
        seen.append([1] * (len(prompt) + len(tail)) + [0] * rest)
        answer.append([0] * len(prompt) + [1] * len(tail) + [0] * rest)
    return torch.tensor(ids), torch.tensor(seen), torch.tensor(answer)


def both(pairs):
    return [torch.cat(parts) for parts in zip(padded(pairs, 0), padded(pairs, 1))]


def log_likelihoods(model, pairs):
    """Of chosen and rejected answers, each [PAIRS]."""
    ids, seen, answer = both(pairs)
    logits = model(input_ids=ids, attention_mask=seen).logits[:, :-1].double()
    found = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0]
    return (found * answer[:, 1:]).sum(1).chunk(2)


def load():
    model = transformers.AutoModelForCausalLM.from_pretrained(ROOT / "tests/golden/llama/model", dtype=torch.float32)
    return model.train()


class Dpo:
    """DPOTrainer.compute_loss on a batch that is already there."""

    def __init__(self, model, pairs, references):
        args = trl.DPOConfig(output_dir="/tmp/preference_goldens", beta=BETA["dpo"], use_cpu=True, report_to="none",
                             gradient_checkpointing=False, bf16=False)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words(), pad_token="0", eos_token="2")
        rows = __import__("datasets").Dataset.from_list([{"prompt": "3", "chosen": "4", "rejected": "5"}])
        self.trainer = trl.DPOTrainer(model=model, ref_model=None, args=args, train_dataset=rows, processing_class=tokenizer)
        self.trainer.precompute_ref_logps = True
        ids, seen, answer = both(pairs)
        self.inputs = {"input_ids": ids, "attention_mask": seen, "completion_mask": answer,
                       "ref_chosen_logps": references[0].float(), "ref_rejected_logps": references[1].float()}
        self.model = self.trainer.model

    def loss(self):
        self.trainer._metrics["train"].clear()
        loss = self.trainer.compute_loss(self.model, self.inputs)
        return loss, {key: self.trainer._metrics["train"][f"rewards/{key}"][-1] for key in ("chosen", "rejected", "margins", "accuracies")}


class Orpo:
    """ORPOTrainer.get_batch_loss_metrics on a batch that is already there."""

    def __init__(self, model, pairs, _):
        self.model = model
        self.batch = {}
        for side, name in enumerate(("chosen", "rejected")):
            ids, seen, answer = padded(pairs, side)
            self.batch |= {f"{name}_input_ids": ids, f"{name}_attention_mask": seen,
                           f"{name}_labels": torch.where(answer == 1, ids, -100)}
        self.trainer = types.SimpleNamespace(
            beta=BETA["orpo"], is_encoder_decoder=False, aux_loss_enabled=False, padding_value=0,
            accelerator=types.SimpleNamespace(device=torch.device("cpu"), gather_for_metrics=lambda x: x),
            concatenated_inputs=ORPOTrainer.concatenated_inputs, get_batch_logps=ORPOTrainer.get_batch_logps)
        for method in ("concatenated_forward", "odds_ratio_loss", "get_batch_loss_metrics"):
            setattr(self.trainer, method, types.MethodType(getattr(ORPOTrainer, method), self.trainer))

    def loss(self):
        loss, metrics = self.trainer.get_batch_loss_metrics(self.model, self.batch)
        return loss, {key: metrics[f"rewards/{key}"] for key in ("chosen", "rejected", "margins", "accuracies")}


def words():
    import tokenizers

    model = tokenizers.models.WordLevel({str(i): i for i in range(VOCAB)}, unk_token="1")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return made


def record(kind, out, tensors):
    rng = random.Random(5)
    pairs = draw_pairs(rng, kind)
    model = load()
    with torch.no_grad():  # a reference that is another model: from the first step on its part counts
        found = log_likelihoods(model, pairs)
    references = [side + torch.tensor([rng.uniform(-3, 3) for _ in range(PAIRS)]) for side in found]
    judge = (Dpo if kind == "dpo" else Orpo)(model, pairs, references)
    optimizer = torch.optim.AdamW(judge.model.parameters(), lr=ADAMW["lr"], betas=ADAMW["betas"], eps=ADAMW["eps"],
                                  weight_decay=ADAMW["weight_decay"])
    losses, rewards, norms = [], [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss, metrics = judge.loss()
        loss.backward()
        losses.append(loss.item())
        rewards.append(metrics)
        if step == 0:
            for name, param in judge.model.named_parameters():
                tensors[f"{kind}/grad/{name}"] = param.grad.clone()
        norms.append(torch.nn.utils.clip_grad_norm_(judge.model.parameters(), ADAMW["clip_norm"]).item())
        optimizer.step()
    rows = [row for pair in range(PAIRS) for row in (pair, PAIRS + pair)]  # ours: a pair's rows are neighbours
    ids, _, answer = both(pairs)
    tensors[f"{kind}/ids"], tensors[f"{kind}/answer"] = ids[rows].contiguous(), answer[rows].contiguous()
    flat = torch.cat(references)[rows]
    out[kind] = {"beta": BETA[kind], "reference_losses": [-x for x in flat.tolist()], "losses": losses,
                 "rewards": rewards, "norms": norms}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/golden/preference")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    tensors, out = {}, {"made_by": {"trl": trl.__version__, "torch": torch.__version__}, "adamw": ADAMW}
    for kind in BETA:
        record(kind, out, tensors)
    safetensors.torch.save_file(tensors, folder / "golden.safetensors")
    (folder / "golden.json").write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")
    print({kind: (out[kind]["losses"][0], out[kind]["losses"][-1]) for kind in BETA})


if __name__ == "__main__":
    main()
