#!/usr/bin/env python3
"""Compares what Windlass learns of conversations with the masks of TRL's training templates.

    check_chat_masks.py WINDLASS MODEL_FOLDER

MODEL_FOLDER: a Llama with a byte-level tokenizer, such as SmolLM2-135M; its tokenizer is copied and gets every mark of the
templates as a special token. For each template that TRL ships with a training variant (x.jinja beside x_training.jinja,
which marks {% generation %}), conversations are given to `windlass data show` and to transformers' apply_chat_template with
the variant. Texts must be equal, and so must the masks up to the end-of-turn token: what the variant marks behind it is not
learned, and where it leaves that token out, ours has it. A second column gives the stock template to Windlass, which then
finds the answers itself: headers that both write before every answer (the line end behind "assistant") may be learned
by one and not by the other. Needs trl and transformers.
"""
import argparse
import json
import pathlib
import re
import subprocess
import tempfile

import transformers
import trl

import chats

TEMPLATES = pathlib.Path(trl.__file__).parent / "chat_templates"


def shown(windlass, model, template, conversation, folder):
    """The samples that Windlass makes: lists of (learned, text)."""
    rows = folder / "rows.jsonl"
    rows.write_text(json.dumps({key: conversation[key] for key in ("messages", "tools") if key in conversation}) + "\n",
                    encoding="utf-8")
    command = [windlass, "data", "show", "--json", "--samples", "50", "--model", model, "--train-data", str(rows),
               "--chat-template", str(template), "--max-length", "4096"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[-1]
    return [[(p["learned"], p["text"]) for p in s["pieces"]] for s in json.loads(done.stdout)["samples"]]


def forms(messages):
    """The messages as they are, and as templates want them that transformers gives them to by other ways: as parts (of
    images' processors), with the texts of parts joined, with the arguments of calls read. Windlass finds out which."""
    def each(change):
        return [change(dict(message)) for message in messages]

    def as_parts(message):
        if isinstance(message.get("content"), str):
            message["content"] = [{"type": "text", "text": message["content"]}]
        return message

    def joined(message):
        if isinstance(message.get("content"), list):
            message["content"] = "".join(part["text"] for part in message["content"])
        return message

    def read(message):
        calls = [dict(call, function=dict(call["function"])) for call in message.get("tool_calls") or []]
        for call in calls:
            if isinstance(call["function"].get("arguments"), str):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        return message | ({"tool_calls": calls} if calls else {})

    return [messages, each(as_parts), each(joined), each(read), each(lambda message: read(joined(message)))]


def texts_of(messages):
    for message in messages:
        content = message.get("content") or ""
        yield from [content] if isinstance(content, str) else [part["text"] for part in content]


def rendered(tokenizer, template, conversation):
    """Of the first form that the template takes without losing what the first message says."""
    failure = None
    probe = next(text.strip() for text in texts_of(conversation["messages"]))
    for messages in forms(conversation["messages"]):
        try:
            made = tokenizer.apply_chat_template(messages, tools=conversation.get("tools"), chat_template=template,
                                                 return_assistant_tokens_mask=True, return_dict=True)
        except Exception as error:  # noqa: BLE001: whatever the template raises
            failure = failure or error
            continue
        if probe in tokenizer.decode(made["input_ids"], clean_up_tokenization_spaces=False):
            return made
    raise failure or ValueError("no form of the messages keeps their texts")


def marked(tokenizer, template, conversation, ends):
    """The same of transformers, cut behind the token that ends a turn."""
    made = rendered(tokenizer, template, conversation)
    ids, mask = made["input_ids"], list(made["assistant_masks"])
    for i in range(len(ids)):
        run_begins = i > 0 and mask[i] and not mask[i - 1]
        if not run_begins:
            continue
        end = next((j for j in range(i, len(ids)) if not mask[j]), len(ids))
        last = max((j for j in range(i, end) if ids[j] in ends), default=None)
        if last is not None:
            mask[last + 1 : end] = [0] * (end - last - 1)
    pieces = []
    for token, learned in zip(ids, mask):
        if not pieces or pieces[-1][0] != bool(learned):
            pieces.append((bool(learned), []))
        pieces[-1][1].append(token)
    return [(learned, tokenizer.decode(part, clean_up_tokenization_spaces=False)) for learned, part in pieces]


ENDS = ["</s>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|call|>", "<|eot|>",
        "<end_of_turn>", "<turn|>", "<|END_OF_TURN_TOKEN|>", "<end_of_utterance>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|user|>", "<|observation|>"]


MARKS = r"<\|[\w/]+\|>|<\|?turn\|?>|<\uff5c[^<>]+\uff5c>|<(?:start|end)_of_(?:turn|utterance)>"


def make_folder(model, folder):
    """A copy of the model's configuration and tokenizer, with the marks of all templates; no weights."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    marks = set(ENDS) | {"<s>"}
    for template in TEMPLATES.glob("*.jinja"):
        marks |= set(re.findall(MARKS, template.read_text(encoding="utf-8")))
    tokenizer.add_special_tokens({"additional_special_tokens": sorted(marks)})
    tokenizer.add_special_tokens({"bos_token": "<s>", "eos_token": "</s>"})
    tokenizer.save_pretrained(folder)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    config = json.loads((pathlib.Path(model) / "config.json").read_text(encoding="utf-8"))
    config |= {"vocab_size": len(tokenizer), "max_position_embeddings": 8192}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    ids = [tokenizer.convert_tokens_to_ids(end) for end in ENDS]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ids}), encoding="utf-8")
    return transformers.AutoTokenizer.from_pretrained(folder), set(ids)


def answers(pieces):
    """(where each learned piece begins, where it ends, without the token of an end of turn)"""
    at, spans = 0, []
    for is_learned, part in pieces:
        said = part
        for end in ENDS:
            said = said.removesuffix(end)
        if is_learned:
            spans.append((at, at + len(said)))
        at += len(part)
    return spans


def verdict(ours, theirs):
    if isinstance(ours, str) or isinstance(theirs, str):
        return "refused by both" if isinstance(ours, str) and isinstance(theirs, str) else "refused by one"
    if len(ours) > 1:
        return "a sample for each answer"
    if ours[0] == theirs:
        return "equal"
    # An end-of-turn token that the variant does not mark: GLM's is the mark of the next role.
    text = lambda pieces: "".join(part for _, part in pieces)
    learned = lambda pieces: [part for is_learned, part in pieces if is_learned]
    pairs = list(zip(learned(ours[0]), learned(theirs)))
    if text(ours[0]).startswith(text(theirs)) and len(learned(ours[0])) == len(learned(theirs)) and all(
        a == b or any(a == b.rstrip() + end or a == b + end for end in ENDS) for a, b in pairs):
        return "equal, and the end of turns"
    # The variant marks from behind a header that stands before every answer, or the other way round.
    mine, other = answers(ours[0]), answers(theirs)
    if text(ours[0]).startswith(text(theirs)) and [end for _, end in mine] == [end for _, end in other]:
        return "begins elsewhere"
    return "different"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("windlass")
    parser.add_argument("model")
    parser.add_argument("--show", action="store_true", help="print what differs")
    parser.add_argument("--only", metavar="NAME,...", help="templates, as TRL names them")
    args = parser.parse_args()
    totals = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tokenizer, ends = make_folder(args.model, folder / "model")
        for training in sorted(TEMPLATES.glob("*_training.jinja")):
            stock = training.with_name(training.name.replace("_training", ""))
            if not stock.exists() or (args.only and stock.stem not in args.only.split(",")):
                continue
            mine, found = {}, {}
            for one in chats.CHATS:
                if one.get("add_generation_prompt"):
                    continue
                ours = shown(args.windlass, str(folder / "model"), training, one, folder)
                alone = shown(args.windlass, str(folder / "model"), stock, one, folder)
                try:
                    theirs = marked(tokenizer, training.read_text(encoding="utf-8"), one, ends)
                except Exception as error:  # noqa: BLE001: whatever the template raises
                    theirs = str(error)
                said = verdict(ours, theirs)
                mine[said] = mine.get(said, 0) + 1
                said_alone = verdict(alone, theirs)
                found[said_alone] = found.get(said_alone, 0) + 1
                totals[said] = totals.get(said, 0) + 1
                for which, verdict_of, pieces in (("variant", said, ours), ("stock", said_alone, alone)):
                    if args.show and verdict_of in ("different", "refused by one"):
                        print(f"  {one['name']}, {which}\n    ours   {pieces}\n    theirs {theirs}")
            listed = [", ".join(f"{count} {said}" for said, count in sorted(each.items())) for each in (mine, found)]
            print(f"{stock.stem:28} {listed[0]:60} | {listed[1]}", flush=True)
    print(f"{'all':28} {', '.join(f'{count} {said}' for said, count in sorted(totals.items()))}")


if __name__ == "__main__":
    main()
