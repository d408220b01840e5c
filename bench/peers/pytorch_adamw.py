#!/usr/bin/env python3
"""Plain PyTorch on a CPU: AdamW training of GPT-2 124M or Llama 1.1B shapes, to set our own figures beside.

    pytorch_adamw.py --shape gpt2-124m  --precision autocast              # 8 x 512 tokens
    pytorch_adamw.py --shape llama-1.1b --precision bf16 [--checkpoint]   # 2 x 512 tokens

What a competent user writes and nothing more: nn.Module, torch.optim.AdamW, all parameters trained, clip at 1.0, random
tokens, no data loading, no dropout. Needs torch alone (1.13 or later); pick the package that users of the machine have.

Precisions: `fp32`; `autocast`, fp32 weights with matrices multiplied in bf16; `bf16`, weights and moments in bf16
without a master copy, which is a reference for speed and memory only: it does not train the same model as the others.

Environment. run_peers.sh sets it; measured alone on the machine, with nothing else running:
  OMP_NUM_THREADS=<cores> OMP_WAIT_POLICY=PASSIVE
  ATEN_CPU_CAPABILITY=avx512     torch 1.13 stays on AVX2 unless told
  OPENBLAS_CORETYPE=SKYLAKEX     for a torch built with an OpenBLAS that does not know the processor
  GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.arena_max=1:
                 glibc.malloc.trim_threshold=30000000000:glibc.malloc.top_pad=268435456
Without the last, glibc returns every large tensor to the kernel and faults it in again, and steps take about twice as
long. The first step is slower (first touch of memory and moments) and is not timed. The peak of torch.matmul is
measured in the same process before and after the steps, since it drifts by several percent on shared machines; two runs
that differ by less than 10 % are equal.

FLOP per token = 6 N + 6 L h T: N parameters without lookup-only tables (Llama's input embedding, GPT-2's positions), L
layers, hidden size h, T tokens a row, the attention term halved for causality. Recomputation is not counted.
"""

import argparse
import dataclasses
import json
import os
import resource
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint


@dataclasses.dataclass(frozen=True)
class Shape:
    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    batch: int  # rows of a step unless told otherwise
    tokens: int = 512


SHAPES = {
    "gpt2-124m": Shape("gpt2", 768, 12, 12, 12, 3072, 50257, batch=8),
    "llama-1.1b": Shape("llama", 2048, 22, 32, 4, 5632, 32000, batch=2),
    "gpt2-tiny": Shape("gpt2", 64, 2, 4, 4, 256, 260, batch=2, tokens=64),
    "llama-tiny": Shape("llama", 64, 2, 4, 2, 128, 260, batch=2, tokens=64),
}


def attend(q, k, v):
    """Causal attention; q [B, H, T, D], k and v [B, K, T, D] with K dividing H; returns [B, T, H * D]."""
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    if hasattr(F, "scaled_dot_product_attention"):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        tokens = q.shape[2]
        future = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).triu(1)
        scores = (q @ k.transpose(2, 3)) * q.shape[3] ** -0.5
        out = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
    return out.transpose(1, 2).flatten(2)


def split_heads(x, heads):
    return x.unflatten(2, (heads, x.shape[2] // heads)).transpose(1, 2)


class Gpt2Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(shape.hidden), nn.LayerNorm(shape.hidden)
        self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.out = nn.Linear(shape.hidden, shape.hidden)
        self.up, self.down = nn.Linear(shape.hidden, shape.ffn), nn.Linear(shape.ffn, shape.hidden)

    def forward(self, x, angles):
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(self.norm_attention(x)).chunk(3, dim=2))
        x = x + self.out(attend(q, k, v))
        return x + self.down(F.gelu(self.up(self.norm_mlp(x)), approximate="tanh"))


class RmsNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


def rotate(x, angles):
    """Turns channel pairs (i, i + D/2) of x [B, H, T, D]; angles are (cos, sin), each [T, D/2]."""
    cos, sin = (part.to(x.dtype) for part in angles)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class LlamaBlock(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        kv_width = shape.hidden // shape.heads * shape.kv_heads
        self.norm_attention, self.norm_mlp = RmsNorm(shape.hidden), RmsNorm(shape.hidden)
        self.q = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.k = nn.Linear(shape.hidden, kv_width, bias=False)
        self.v = nn.Linear(shape.hidden, kv_width, bias=False)
        self.out = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.gate = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.up = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.down = nn.Linear(shape.ffn, shape.hidden, bias=False)

    def forward(self, x, angles):
        h = self.norm_attention(x)
        q = rotate(split_heads(self.q(h), self.heads), angles)
        k = rotate(split_heads(self.k(h), self.kv_heads), angles)
        x = x + self.out(attend(q, k, split_heads(self.v(h), self.kv_heads)))
        h = self.norm_mlp(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, shape, tokens, checkpoint):
        super().__init__()
        gpt2 = shape.family == "gpt2"
        self.checkpoint = checkpoint
        self.table = nn.Embedding(shape.vocab, shape.hidden)
        self.positions = nn.Embedding(max(tokens, 1024), shape.hidden) if gpt2 else None
        self.blocks = nn.ModuleList((Gpt2Block if gpt2 else LlamaBlock)(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.hidden) if gpt2 else RmsNorm(shape.hidden)
        self.head = nn.Linear(shape.hidden, shape.vocab, bias=False)
        for param in self.parameters():
            if param.dim() == 2:
                nn.init.normal_(param, std=0.02)
        if gpt2:
            self.head.weight = self.table.weight
        self.angles = None if gpt2 else rotary_angles(tokens, shape.hidden // shape.heads)

    def forward(self, ids, targets):
        x = self.table(ids)
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            if self.checkpoint:
                x = torch.utils.checkpoint.checkpoint(block, x, self.angles, use_reentrant=False)
            else:
                x = block(x, self.angles)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def rotary_angles(tokens, head_dim, theta=10000.0):
    frequencies = theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.outer(torch.arange(tokens).float(), frequencies)
    return angles.cos(), angles.sin()


def matmul_peak(dtype):
    """GFLOP/s of torch.matmul, 1024 x 4096 x 4096 with random inputs: the median over the three layouts of training."""
    rates = []
    x, w, y = torch.randn(1024, 4096).to(dtype), torch.randn(4096, 4096).to(dtype), torch.randn(1024, 4096).to(dtype)
    for a, b in ((x, w), (x, w.t()), (y.t(), x)):
        times = []
        for _ in range(12):
            start = time.perf_counter()
            torch.matmul(a, b)
            times.append(time.perf_counter() - start)
        rates.append(2 * a.shape[0] * a.shape[1] * b.shape[1] / statistics.median(times) / 1e9)
    return statistics.median(rates)


def flop_per_token(model, shape, tokens):
    total = sum(param.numel() for param in model.parameters())
    lookup = model.positions.weight.numel() if shape.family == "gpt2" else model.table.weight.numel()
    return 6 * (total - lookup) + 6 * shape.layers * shape.hidden * tokens


def step(model, optimizer, batch, autocast):
    """One training step; returns its loss and the seconds of (forward, backward, clip, update)."""
    marks = [time.perf_counter()]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        loss = model(*batch)
    marks.append(time.perf_counter())
    loss.backward()
    marks.append(time.perf_counter())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    marks.append(time.perf_counter())
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    marks.append(time.perf_counter())
    return loss.item(), [after - before for before, after in zip(marks, marks[1:])]


def measure(args):
    shape = SHAPES[args.shape]
    rows, tokens = args.batch or shape.batch, args.tokens or shape.tokens
    torch.manual_seed(args.seed)
    model = Model(shape, tokens, args.checkpoint)
    if args.precision == "bf16":
        model = model.bfloat16()
    adamw = {"foreach": args.adamw == "foreach"}
    if args.adamw == "fused":
        adamw = {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **adamw)
    ids = torch.randint(shape.vocab, (rows, tokens + 1))
    batch = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    dtype = torch.float32 if args.precision == "fp32" else torch.bfloat16
    peaks = [matmul_peak(dtype)]
    losses, parts = [], []
    for _ in range(args.warmup + args.steps):
        loss, seconds = step(model, optimizer, batch, args.precision == "autocast")
        losses.append(loss)
        parts.append(seconds)
    rss_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    peaks.append(matmul_peak(dtype))

    timed = parts[args.warmup :]
    step_s = statistics.mean(sum(part) for part in timed)
    gflops = flop_per_token(model, shape, tokens) * rows * tokens / step_s / 1e9
    return {
        "shape": args.shape, "rows": rows, "tokens": tokens, "precision": args.precision,
        "checkpoint": args.checkpoint, "adamw": args.adamw, "torch": torch.__version__,
        "threads": torch.get_num_threads(), "step_s": step_s, "step_s_each": [sum(part) for part in timed],
        "part_s": dict(zip(("forward", "backward", "clip", "update"), map(statistics.mean, zip(*timed)))),
        "tokens_per_s": rows * tokens / step_s, "gflops": gflops, "matmul_gflops": peaks,
        "share_of_matmul": gflops / statistics.mean(peaks), "rss_peak_bytes": rss_bytes, "losses": losses,
    }  # fmt: skip


def show(result):
    parts = "  ".join(f"{name} {seconds:.3f}" for name, seconds in result["part_s"].items())
    each = ", ".join(f"{seconds:.3f}" for seconds in result["step_s_each"])
    before, after = result["matmul_gflops"]
    print(f"PyTorch {result['torch']}, {result['threads']} threads: {result['shape']}, "
          f"{result['rows']} x {result['tokens']} tokens, {result['precision']}, AdamW {result['adamw']}"
          f"{', checkpointing' if result['checkpoint'] else ''}")  # fmt: skip
    print(f"  step        {result['step_s']:.3f} s ({each}): {parts}")
    print(f"  speed       {result['tokens_per_s']:.1f} tokens/s, {result['gflops']:.0f} GFLOP/s, "
          f"{100 * result['share_of_matmul']:.0f} % of matmul ({before:.0f} before, {after:.0f} after)")  # fmt: skip
    print(f"  memory      {result['rss_peak_bytes'] / 2**30:.2f} GiB peak resident")
    print(f"  loss        {result['losses'][0]:.4f} -> {result['losses'][-1]:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="gpt2-124m")
    parser.add_argument("--precision", choices=["fp32", "autocast", "bf16"], default="autocast")
    parser.add_argument("--adamw", choices=["foreach", "loop", "fused"], default="foreach",
                        help="loop saves whole-model temporaries; fused needs torch 2.3 or later")  # fmt: skip
    parser.add_argument("--checkpoint", action="store_true", help="recompute each block in the backward pass")
    parser.add_argument("--batch", type=int, help="rows of a step")
    parser.add_argument("--tokens", type=int, help="tokens of a row")
    parser.add_argument("--steps", type=int, default=3, help="timed steps")
    parser.add_argument("--warmup", type=int, default=2, help="steps before them")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of a table")
    run(parser.parse_args(), measure, show)


def run(args, measure, show):
    """Measures with so many threads and prints one line of JSON, or what `show` makes of it."""
    torch.set_num_threads(args.threads)
    result = measure(args)
    if args.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
