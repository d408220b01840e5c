"""Tokenizers of published models for gguf_models.py: real vocabularies, and the steps and templates of each family."""

import json
import pathlib
import shutil
import unicodedata

import trl
from tokenizers import Tokenizer, processors

# Templates of these families are not in the folders of data nor in trl: written here in their manner.
CHATML = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content | trim }}<|im_end|>\n"
          "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
GRANITE = ("{%- for message in messages %}{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + "
           "message['content'] + '<|end_of_text|>\n' }}{%- if loop.last and add_generation_prompt %}"
           "{{- '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif %}{%- endfor %}")
OLMO2 = ("{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] }}"
         "{% if not loop.last %}{{ '\n' }}{% endif %}{% endfor %}"
         "{% if add_generation_prompt %}{{ '\n<|assistant|>\n' }}{% endif %}")
PHI4 = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '<|im_sep|>' + message['content'] + "
        "'<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}")
PHI4_MINI = ("{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
             "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}")
GPT4O_SPLIT = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
               r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
               r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def to_nfc(text):
    return unicodedata.normalize("NFC", text)


def shipped(name):
    """A template that trl ships."""
    return (pathlib.Path(trl.__file__).parent / f"chat_templates/{name}.jinja").read_text()


def qwen_tokenizer(data, folder):
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        shutil.copy(data / "tokenizer-qwen3" / name, folder)


def write_config(folder, **settings):
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def gpt2_tokenizer(data, folder):
    shutil.copy(data / "tokenizer-gpt2/tokenizer.json", folder)
    write_config(folder, tokenizer_class="GPT2Tokenizer", bos_token="<|endoftext|>", eos_token="<|endoftext|>",
                 chat_template=CHATML)


def granite_tokenizer(data, folder):
    """GPT-2's, with each digit by itself, as Granite and StarCoder cut; its words are GPT-2's."""
    gpt2_tokenizer(data, folder)
    text = json.loads((folder / "tokenizer.json").read_text())
    text["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True},
                                                                   text["pre_tokenizer"]]}
    (folder / "tokenizer.json").write_text(json.dumps(text))
    write_config(folder, tokenizer_class="PreTrainedTokenizerFast", bos_token="<|endoftext|>",
                 eos_token="<|endoftext|>", chat_template=GRANITE)


def llama2_parts(data):
    """As published tokenizer.json files have it: merges for all pairs of a token, by its place in the vocabulary."""
    from sentencepiece import SentencePieceProcessor
    pieces = SentencePieceProcessor(model_file=str(data / "tokenizer-llama2/tokenizer.model"))
    vocab = {pieces.id_to_piece(i): i for i in range(len(pieces))}
    merges = []
    for piece, number in vocab.items():
        if pieces.is_control(number) or pieces.is_unknown(number) or pieces.is_byte(number):
            continue
        pairs = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in vocab and piece[i:] in vocab]
        merges += [(number, *pair) for pair in sorted(pairs, key=lambda p: (vocab[p[0]], vocab[p[1]]))]
    return vocab, [list(pair) for _, *pair in sorted(merges, key=lambda m: -pieces.get_score(m[0]))]


def write_llama2(data, folder, normalizer, pre_tokenizer, more=(), strips=()):
    vocab, merges = llama2_parts(data)
    words = ["<unk>", "<s>", "</s>"]
    added = [{"id": i, "content": t, "special": True, "single_word": False, "lstrip": False,
              "rstrip": t in strips, "normalized": False}
             for i, t in [*enumerate(words), *enumerate(more, len(vocab))]]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {
            "Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {
                "Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {
            "type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": vocab, "merges": [" ".join(pair) for pair in merges]}}))


MARK = "\u2581"
SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
WITH_SPACE = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, SPACES]}
LLAMA2 = dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def llama2_tokenizer(data, folder):
    write_llama2(data, folder, WITH_SPACE, None)
    write_config(folder, **LLAMA2, chat_template="{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}"
                                                 "{{ eos_token }}{% endfor %}")


def phi3_tokenizer(data, folder):
    """Llama 2's, with Phi-3's words, which take white space behind them along, and its template."""
    own = ["<|assistant|>", "<|system|>", "<|end|>", "<|user|>"]
    write_llama2(data, folder, WITH_SPACE, None, ["<|endoftext|>", *own], [*own, "</s>"])
    write_config(folder, **{**LLAMA2, "eos_token": "<|endoftext|>"}, chat_template=shipped("phi3"))


def gemma_tokenizer(data, folder, template):
    """Llama 2's words, cut as Gemma cuts: no space in front, pieces that keep the space behind them."""
    cut = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    write_llama2(data, folder, SPACES, cut, ["<start_of_turn>", "<end_of_turn>"])
    write_config(folder, **LLAMA2, chat_template=template)


def gemma2_tokenizer(data, folder):
    gemma_tokenizer(data, folder, (data / "chat-templates/google-gemma-2-2b-it.jinja").read_text())


def gemma3_tokenizer(data, folder):
    gemma_tokenizer(data, folder, shipped("gemma3"))


def llama3_tokenizer(data, folder):
    from transformers.convert_slow_tokenizer import TikTokenConverter
    from tokenizer_goldens import LLAMA3_SPLIT
    specials = [f"<|{name}|>" for name in ("begin_of_text", "end_of_text", "start_header_id", "end_header_id", "eot_id")]
    made = TikTokenConverter(vocab_file=str(data / "tokenizer-llama3/tokenizer.model"), pattern=LLAMA3_SPLIT,
                             extra_special_tokens=specials).converted()
    begin = made.token_to_id(specials[0])
    made.post_processor = processors.TemplateProcessing(single=f"{specials[0]} $A", special_tokens=[(specials[0], begin)])
    made.save(str(folder / "tokenizer.json"))
    text = json.loads((folder / "tokenizer.json").read_text())
    text["model"]["ignore_merges"] = True
    (folder / "tokenizer.json").write_text(json.dumps(text))
    write_config(folder, tokenizer_class="PreTrainedTokenizerFast", bos_token=specials[0], eos_token="<|eot_id|>",
                 chat_template=(data / "chat-templates/meta-llama-Llama-3.2-3B-Instruct.jinja").read_text())


def tiktoken_tokenizer(data, folder, name, pattern, template):
    """cl100k's and o200k's words under the patterns that OLMo 2 and Phi-4 have in their files."""
    from transformers.convert_slow_tokenizer import TikTokenConverter
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|user|>", "<|assistant|>", "<|system|>",
                "<|end|>"]
    TikTokenConverter(vocab_file=str(data / f"tokenizer-tiktoken/{name}.tiktoken"), pattern=pattern,
                      extra_special_tokens=specials).converted().save(str(folder / "tokenizer.json"))
    write_config(folder, tokenizer_class="PreTrainedTokenizerFast", bos_token="<|endoftext|>",
                 eos_token="<|endoftext|>", chat_template=template)


def olmo2_tokenizer(data, folder):
    from tokenizer_goldens import LLAMA3_SPLIT
    tiktoken_tokenizer(data, folder, "cl100k_base", LLAMA3_SPLIT, OLMO2)


def phi4_tokenizer(data, folder):
    from tokenizer_goldens import LLAMA3_SPLIT
    tiktoken_tokenizer(data, folder, "cl100k_base", LLAMA3_SPLIT, PHI4)


def phi4_mini_tokenizer(data, folder):
    tiktoken_tokenizer(data, folder, "o200k_base", GPT4O_SPLIT, PHI4_MINI)


def encoder(folder, tokenizer):
    """Text to ids as tokenizer.json says; transformers' classes change some of what it says."""
    if not (folder / "tokenizer.json").exists():
        return lambda text, special: tokenizer(text, add_special_tokens=special)["input_ids"]
    plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda text, special: plain.encode(text, add_special_tokens=special).ids


def ends(tokenizer, model):
    named = model.generation_config.eos_token_id
    return {tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])} - {None}
