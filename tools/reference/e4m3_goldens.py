#!/usr/bin/env python3
"""Records what ml_dtypes makes of 8-bit numbers, for the tests that compare src/tensor/e4m3.h with it.

    e4m3_goldens.py [--out tests/golden/e4m3.json]

Needs ml_dtypes and numpy. Beyond 448 float8_e4m3fn gives NaN; we cut off there, so numbers are clipped first.
"""

import argparse
import json
import pathlib

import ml_dtypes
import numpy as np

E4M3 = ml_dtypes.float8_e4m3fn


def decoded() -> list:
    """The f32 bits of all 256 patterns; null for NaN."""
    values = np.arange(256, dtype=np.uint8).view(E4M3).astype(np.float32)
    return [None if np.isnan(x) else int(x.view(np.uint32)) for x in values]


def numbers() -> np.ndarray:
    """All midpoints between neighbours and what lies beside them, and numbers of every size."""
    grid = np.arange(0x7F, dtype=np.uint8).view(E4M3).astype(np.float32)
    ties = (grid[:-1] + grid[1:]) / 2  # exact: one bit more than a number has
    rng = np.random.default_rng(1)
    some = np.exp2(rng.uniform(-14, 11, 400)).astype(np.float32)
    odd = np.array([0, 2**-149, 2**-126, 464, 480, 1e30, np.inf], np.float32)
    zero, infinity = np.float32(0), np.float32(np.inf)
    positive = np.concatenate([grid, ties, np.nextafter(ties, zero), np.nextafter(ties, infinity), some, odd])
    return np.concatenate([positive, -positive[::3]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/golden/e4m3.json"))
    out = parser.parse_args().out
    values = numbers()
    codes = np.clip(values, -448, 448).astype(E4M3).view(np.uint8)
    encoded = [[int(x), int(code)] for x, code in zip(values.view(np.uint32), codes)]
    golden = {"made_with": f"ml_dtypes {ml_dtypes.__version__}", "decoded": decoded(), "encoded": encoded}
    out.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
