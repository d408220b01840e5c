#!/usr/bin/env python3
"""What transformers says of a model folder, for comparing with `windlass eval --dtype f32 --add-eos false`.

    score.py FOLDER rows.jsonl ["a question"]

Prints the token-weighted mean loss over the rows' `text` in f32, and the greedy answer to the question through the
folder's own chat template.
"""

import json
import sys

import torch
import transformers

import quantities as q


def mean_loss(model, tokenizer, path: str) -> tuple[float, int]:
    total, count = 0.0, 0
    for line in open(path, encoding="utf-8"):
        ids = tokenizer(json.loads(line)["text"], return_tensors="pt", add_special_tokens=False).input_ids
        logits = q.logits_of(model, ids)[:, :-1].double()
        total += q.loss_of(logits, ids[:, 1:]).item() * (ids.shape[1] - 1)
        count += ids.shape[1] - 1
    return total / count, count


def answer(model, tokenizer, question: str) -> tuple[str, str]:
    turns = [{"role": "user", "content": question}]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    tokens = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
    written = model.generate(**tokens, max_new_tokens=64, do_sample=False)[0][tokens.input_ids.shape[1] :]
    return prompt, tokenizer.decode(written)


def main() -> None:
    folder, rows, *questions = sys.argv[1:]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        loss, count = mean_loss(model, tokenizer, rows)
        print(f"loss {loss:.10f} over {count} tokens; torch {torch.__version__}, transformers {transformers.__version__}")
        for question in questions:
            print(repr(answer(model, tokenizer, question)))


if __name__ == "__main__":
    main()
