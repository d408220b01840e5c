"""Small models with real tokenizers for check_gguf.py, and what a GGUF file of each must hold."""

import json
import math
import shutil
import unicodedata

import gguf
import numpy as np
import safetensors.torch
import torch
import transformers
from tokenizers import Tokenizer, processors

TYPES = {"f32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16,
         "bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0}
LLAMA3_ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}
CHATML = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content | trim }}<|im_end|>\n"
          "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
SIZES = dict(hidden_size=64, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=512, initializer_range=0.1)


def to_nfc(text):
    return unicodedata.normalize("NFC", text)


# ---- models ----

def qwen_tokenizer(data, folder):
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        shutil.copy(data / "tokenizer-qwen3" / name, folder)


def gpt2_tokenizer(data, folder):
    shutil.copy(data / "tokenizer-gpt2/tokenizer.json", folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>",
        "chat_template": CHATML}))


def llama2_tokenizer(data, folder):
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
    merges = [pair for _, *pair in sorted(merges, key=lambda m: -pieces.get_score(m[0]))]
    added = [{"id": i, "content": t, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False} for i, t in enumerate(["<unk>", "<s>", "</s>"])]
    mark = "\u2581"
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": mark}, {
            "type": "Replace", "pattern": {"String": " "}, "content": mark}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {
            "Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {
                "Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": mark}, "content": " "}, {
            "type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": vocab, "merges": [" ".join(pair) for pair in merges]}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
        "chat_template": "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}"
                         "{% endfor %}"}))


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
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": specials[0], "eos_token": "<|eot_id|>",
        "chat_template": (data / "chat-templates/meta-llama-Llama-3.2-3B-Instruct.jinja").read_text()}))


def llama(**more):
    return transformers.LlamaConfig(**{**SIZES, **more})


# name: (configuration, tokenizer)
MODELS = {
    "llama": (llama, llama2_tokenizer),
    "llama-biases": (lambda: llama(attention_bias=True, mlp_bias=True, tie_word_embeddings=True), gpt2_tokenizer),
    "llama-linear": (lambda: llama(rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}),
                     gpt2_tokenizer),
    "llama3": (lambda: llama(rope_parameters={**LLAMA3_ROPE, "rope_theta": 500000.0}, tie_word_embeddings=True),
               llama3_tokenizer),
    "mistral": (lambda: transformers.MistralConfig(**SIZES, head_dim=32, sliding_window=None), llama2_tokenizer),
    "qwen2": (lambda: transformers.Qwen2Config(**SIZES), qwen_tokenizer),
    "qwen3": (lambda: transformers.Qwen3Config(**SIZES, head_dim=32, tie_word_embeddings=True), qwen_tokenizer),
    "gpt2": (lambda: transformers.GPT2Config(n_embd=64, n_layer=3, n_head=4, n_positions=512, initializer_range=0.1),
             gpt2_tokenizer),
}


def make(name, data, folder):
    """A model of the family whose vocabulary has more rows than the tokenizer has tokens, as many have."""
    configuration, write_tokenizer = MODELS[name]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_tokenizer(data, folder)
    tokens = len(transformers.AutoTokenizer.from_pretrained(folder))
    torch.manual_seed(1)
    config = configuration()
    config.vocab_size = -(-tokens // 64) * 64
    config.bos_token_id = config.eos_token_id = config.pad_token_id = None
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():  # norms and biases that are not all one and zero
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return folder


def folders(data, work, smollm2, only):
    wanted = lambda name: not only or name in only
    if wanted("stories260K"):
        yield "stories260K", data / "model-stories260K-hf"
    if smollm2 and wanted("smollm2-135m"):
        yield "smollm2-135m", smollm2
    for name in MODELS:
        if wanted(name):
            folder = work / name
            yield name, make(name, data, folder)
            shutil.rmtree(folder, ignore_errors=True)


def encoder(folder, tokenizer):
    """Text to ids as tokenizer.json says; transformers' classes change some of what it says."""
    if not (folder / "tokenizer.json").exists():
        return lambda text, special: tokenizer(text, add_special_tokens=special)["input_ids"]
    plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda text, special: plain.encode(text, add_special_tokens=special).ids


def ends(tokenizer, model):
    named = model.generation_config.eos_token_id
    return {tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])} - {None}


# ---- what a file must hold ----

def weights_of(folder):
    weights = {}
    for path in sorted(folder.glob("*.safetensors")):
        weights.update(safetensors.torch.load_file(path))
    return {name: tensor.float().numpy() for name, tensor in weights.items()}


def encoded(value, kind):
    """gguf's own numbers; bf16 rounds halves away from zero here, as everywhere in Windlass, and in gguf to even."""
    if kind == TYPES["f32"]:
        return value
    if kind == TYPES["bf16"]:
        return ((value.view(np.uint32).astype(np.uint64) + 0x8000) >> 16).astype(np.uint16)
    return gguf.quantize(value, kind)


def neighbours(value, heads):
    rows = value.reshape(heads, 2, value.shape[0] // heads // 2, -1)
    return rows.swapaxes(1, 2).reshape(value.shape)


def expected_tensors(folder, weights):
    """By the gguf package's own map of names."""
    config = transformers.AutoConfig.from_pretrained(folder)
    arch = {"llama": "llama", "mistral": "llama"}.get(config.model_type, config.model_type)
    number = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    tensors = {}
    for name, value in weights.items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if name.endswith((".attn.bias", ".rotary_emb.inv_freq")):
            continue
        if arch == "llama" and ".q_proj." in name:
            value = neighbours(value, config.num_attention_heads)
        if arch == "llama" and ".k_proj." in name:
            value = neighbours(value, config.num_key_value_heads)
        if arch == "gpt2" and value.ndim == 2 and any(part in name for part in ("c_attn", "c_fc", "c_proj")):
            value = value.T
        tensors[names.get_name(name, try_suffixes=(".weight", ".bias"))] = np.ascontiguousarray(value)
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "llama3":
        tensors["rope_freqs.weight"] = llama3_factors(config, rope)
    return tensors


def llama3_factors(config, rope):
    """Before over after, by transformers' own frequencies."""
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    before = 1.0 / rope["rope_theta"] ** (np.arange(0, size, 2) / size)
    length, factor = rope["original_max_position_embeddings"], rope["factor"]
    low, high = length / rope["low_freq_factor"], length / rope["high_freq_factor"]
    factors = []
    for frequency in before:
        wave = 2 * math.pi / frequency
        smooth = (length / wave - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
        middle = 1 / ((1 - smooth) / factor + smooth)
        factors.append(1.0 if wave < high else factor if wave > low else middle)
    return np.array(factors, dtype=np.float32)
