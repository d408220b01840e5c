#!/usr/bin/env python3
"""Plain PyTorch on a CPU: a MeZO step (two-sided zeroth order, in place) on the shapes of pytorch_adamw.py.

    pytorch_mezo.py --shape llama-1.1b --precision bf16        # 4 x 256 tokens

The step walks the parameters as MeZO does (Malladi et al., NeurIPS 2023, algorithm 1): + eps, forward, - 2 eps, forward,
+ eps, update; noise comes again from the seed each time. `--noise f32` draws with torch.randn in f32 and rounds, which
is several times faster on a CPU than drawing in bf16 (`--noise same`), the obvious code. Nothing is kept for a backward
pass. Environment and how to measure: as in pytorch_adamw.py; run_peers.sh sets it.
"""

import argparse
import os
import resource
import statistics
import time

import torch

from pytorch_adamw import SHAPES, Model, matmul_peak, run


class Mezo:
    """MeZO's estimator and update over all parameters; seconds spent are counted by part."""

    def __init__(self, model, eps, rate, noise):
        self.params = list(model.parameters())
        self.model, self.eps, self.rate, self.noise = model, eps, rate, noise
        self.seconds = {}

    def walk(self, seed, scale, part):
        start = time.perf_counter()
        torch.manual_seed(seed)
        for param in self.params:
            dtype = torch.float32 if self.noise == "f32" else param.dtype
            param.add_(torch.randn(param.shape, dtype=dtype).to(param.dtype), alpha=scale)
        self.count(part, start)

    def loss(self, batch):
        start = time.perf_counter()
        value = self.model(*batch).item()
        self.count("forward", start)
        return value

    def count(self, part, start):
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - start

    def step(self, batch, seed):
        self.walk(seed, self.eps, "perturb")
        above = self.loss(batch)
        self.walk(seed, -2 * self.eps, "perturb")
        below = self.loss(batch)
        self.walk(seed, self.eps, "perturb")
        self.walk(seed, -self.rate * (above - below) / (2 * self.eps), "update")
        return above


def measure(args):
    shape = SHAPES[args.shape]
    torch.manual_seed(args.seed)
    dtype = torch.bfloat16 if args.precision == "bf16" else torch.float32
    model = Model(shape, args.tokens, checkpoint=False).to(dtype)
    ids = torch.randint(shape.vocab, (args.batch, args.tokens + 1))
    batch = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    mezo = Mezo(model, eps=1e-3, rate=1e-6, noise=args.noise)
    peaks, times = [matmul_peak(dtype)], []
    with torch.no_grad():
        for step in range(args.warmup + args.steps):
            if step == args.warmup:
                mezo.seconds.clear()
            start = time.perf_counter()
            mezo.step(batch, seed=step)
            times.append(time.perf_counter() - start)
    timed = times[args.warmup :]
    peaks.append(matmul_peak(dtype))
    seconds = statistics.median(timed)
    return {
        "shape": args.shape, "rows": args.batch, "tokens": args.tokens, "precision": args.precision,
        "noise": args.noise, "torch": torch.__version__, "threads": torch.get_num_threads(), "step_s": seconds,
        "step_s_each": timed, "part_s": {part: total / len(timed) for part, total in mezo.seconds.items()},
        "tokens_per_s": args.batch * args.tokens / seconds, "matmul_gflops": peaks,
        "rss_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }  # fmt: skip


def show(result):
    parts = "  ".join(f"{name} {seconds:.3f}" for name, seconds in result["part_s"].items())
    each = ", ".join(f"{seconds:.3f}" for seconds in result["step_s_each"])
    before, after = result["matmul_gflops"]
    print(f"PyTorch {result['torch']}, {result['threads']} threads: {result['shape']}, "
          f"{result['rows']} x {result['tokens']} tokens, {result['precision']}, MeZO, noise {result['noise']}")  # fmt: skip
    print(f"  step        {result['step_s']:.3f} s ({each}): {parts}")
    print(f"  speed       {result['tokens_per_s']:.1f} tokens/s; matmul {before:.0f} GFLOP/s before, {after:.0f} after")
    print(f"  memory      {result['rss_peak_bytes'] / 2**30:.2f} GiB peak resident")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="llama-1.1b")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--noise", choices=["f32", "same"], default="f32", help="the type that noise is drawn in")
    parser.add_argument("--batch", type=int, default=4, help="rows of a step")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of a row")
    parser.add_argument("--steps", type=int, default=3, help="timed steps")
    parser.add_argument("--warmup", type=int, default=1, help="steps before them")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of a table")
    run(parser.parse_args(), measure, show)


if __name__ == "__main__":
    main()
