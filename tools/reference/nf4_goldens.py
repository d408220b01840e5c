#!/usr/bin/env python3
"""Records what bitsandbytes makes of numbers in NF4, for the tests that compare src/tensor/nf4.h with it.

    nf4_goldens.py [--out tests/golden/nf4.json]

Needs bitsandbytes, torch and numpy; its CPU path is used. Blocks of 64 numbers, absmax in f32, not quantised again.
"""

import argparse
import json
import pathlib

import bitsandbytes
import bitsandbytes.functional
import numpy as np
import torch

BLOCK = 64


def bits(values: np.ndarray) -> list:
    return [int(x) for x in np.ascontiguousarray(values, np.float32).view(np.uint32)]


def levels() -> np.ndarray:
    """What each of the sixteen codes is decoded to, with a scale of 1."""
    codes = torch.arange(16, dtype=torch.uint8)
    packed = (codes[::2] << 4 | codes[1::2]).reshape(-1, 1)  # the first of a pair in the upper bits
    _, state = bitsandbytes.functional.quantize_4bit(torch.ones(16), quant_type="nf4", blocksize=BLOCK)
    return bitsandbytes.functional.dequantize_4bit(packed, state).numpy().reshape(-1)


def quantised(numbers: np.ndarray) -> dict:
    packed, state = bitsandbytes.functional.quantize_4bit(
        torch.from_numpy(numbers), quant_type="nf4", blocksize=BLOCK, compress_statistics=False
    )
    pairs = packed.numpy().reshape(-1)
    codes = np.stack([pairs >> 4, pairs & 15], axis=1).reshape(-1)
    return {
        "numbers": bits(numbers),
        "scales": bits(state.absmax.numpy()),
        "codes": [int(code) for code in codes[: numbers.size]],
    }


def exact() -> np.ndarray:
    """Blocks whose largest magnitude is a power of two: each quotient is exact, in either way of dividing."""
    rng = np.random.default_rng(2)
    blocks = []
    for exponent in [-30, -9, -6, -3, 0, 0, 1, 4, 7, 20]:
        share = np.clip(rng.normal(0, 0.35, 2 * BLOCK), -1, 1).astype(np.float32)
        share[::BLOCK] = rng.choice([-1.0, 1.0], 2)
        blocks.append(share * np.float32(2.0**exponent))
    near = levels()
    between = ((near[:-1].astype(np.float64) + near[1:]) / 2).astype(np.float32)
    zero, infinity = np.float32(0), np.float32(np.inf)
    tight = np.concatenate([near, np.nextafter(between, -infinity), np.nextafter(between, infinity)])
    blocks.append(np.concatenate([tight, np.full(BLOCK - tight.size, zero, np.float32)]))
    return np.concatenate(blocks).astype(np.float32)


def any_numbers() -> np.ndarray:
    """Numbers like weights; the last block is not full."""
    rng = np.random.default_rng(3)
    sizes = np.repeat(np.exp2(rng.uniform(-9, 2, 24)), BLOCK)
    return (rng.normal(0, 1, sizes.size) * sizes).astype(np.float32)[: sizes.size - 27]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/golden/nf4.json"))
    out = parser.parse_args().out
    golden = {
        "made_with": f"bitsandbytes {bitsandbytes.__version__}, torch {torch.__version__}",
        "levels": bits(levels()),
        "exact": quantised(exact()),
        "any": quantised(any_numbers()),
    }
    out.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
