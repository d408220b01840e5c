#!/usr/bin/env python3
"""Draws how good runs became, over forward passes and over time, as SVG: a line for each run.

    plot_evals.py NAME=RUN_DIR[:PASSES] ... [--measure eval_accuracy] [--title TEXT] [--start VALUE] > picture.svg
    plot_evals.py NAME=RUN_DIR[:PASSES] ... --table VALUE > table.md

RUN_DIR holds metrics.jsonl. PASSES: forward passes of a step over its rows (a backward pass counts as two); 1 without it.
START: what the runs began with, drawn at the left. --table: rows of Markdown instead, with what it took to reach VALUE. Time is that of the steps, without evaluating.
"""
import argparse
import json
import math
import os
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP, KEY = 460, 320, 56, 40, 48, 40, 170
COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#bab0ac", "#2f4b7c"]
DASHES = ["none", "5 3", "2 2"]  # where there are more lines than colours


def read_run(text, measure):
    """(name, [(passes, seconds, value)]) of NAME=RUN_DIR[:PASSES]."""
    name, _, rest = text.partition("=")
    folder, _, passes = rest.partition(":")
    points, seconds, last = [], 0.0, 0
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if row["step"] > last:  # lines of steps that only logged stand for those before them, too
                seconds += row["step_seconds"] * (row["step"] - last)
                last = row["step"]
            if measure in row:
                points.append((row["step"] * float(passes or 1), seconds, row[measure]))
    if not points:
        raise SystemExit(f"{folder}/metrics.jsonl has no {measure}: train with --eval-data and --eval-steps")
    return name, points


def table(runs, value):
    """A row for each run: its end, its best, and the passes and seconds until it first was as good as `value`."""
    out = ["| run | passes | seconds | at the end | best | passes until {0:g} | seconds until {0:g} |".format(value),
           "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name, points in runs:
        passes, seconds, end = points[-1]
        reached = next((point for point in points if point[2] >= value), None)
        until = "{:.0f} | {:.0f}".format(*reached[:2]) if reached else "- | -"
        best = max(point[2] for point in points)
        out.append(f"| {name} | {passes:.0f} | {seconds:.0f} | {end:.4f} | {best:.4f} | {until} |")
    return "\n".join(out)


def ticks(low, high):
    """Powers of ten between two numbers, and twice and five times those."""
    found = []
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        found += [m * 10.0**power for m in (1, 2, 5) if low <= m * 10.0**power <= high]
    return found


def short(value):
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def panel(out, left, runs, axis, label, low, high):
    xs = [point[axis] for _, points in runs for point in points]
    x_low, x_high = min(xs), max(xs)
    span = math.log(x_high / x_low) or 1.0

    def place(x, y):
        return (left + WIDTH * math.log(x / x_low) / span, TOP + HEIGHT * (high - y) / (high - low))

    out.append(f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>')
    for tick in ticks(x_low, x_high):
        x, y = place(tick, low)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{y:.1f}" stroke="#eee"/>')
        out.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{short(tick)}</text>')
    step = next(step for step in (0.01, 0.05, 0.1, 0.5, 1, 5, math.inf) if high - low < 10 * step)
    value = math.ceil(low / step) * step
    while value <= high:
        x, y = place(x_low, value)
        out.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#eee"/>')
        out.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.2f}</text>')
        value += step
    for row, (_, points) in enumerate(runs):
        colour, dash = COLOURS[row % len(COLOURS)], DASHES[row // len(COLOURS) % len(DASHES)]
        path = " ".join("{:.1f},{:.1f}".format(*place(point[axis], point[2])) for point in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
    out.append(f'<text x="{left + WIDTH / 2}" y="{TOP + HEIGHT + 38}" text-anchor="middle">{label}</text>')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--measure", default="eval_accuracy")
    parser.add_argument("--title", default="")
    parser.add_argument("--start", type=float)
    parser.add_argument("--table", type=float, metavar="VALUE")
    args = parser.parse_args()
    runs = [read_run(text, args.measure) for text in args.runs]
    if args.table is not None:
        print(table(runs, args.table))
        return
    if len(runs) > len(COLOURS):
        raise SystemExit(f"{len(runs)} runs, at most {len(COLOURS)} have a colour of their own")
    values = [point[2] for _, points in runs for point in points] + ([args.start] if args.start is not None else [])
    low, high = min(values), max(values)
    low, high = low - 0.05 * (high - low or 1), high + 0.05 * (high - low or 1)
    width = LEFT + 2 * WIDTH + GAP + LEFT + KEY
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{TOP + HEIGHT + BOTTOM}" '
           'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="22" font-size="14">{escape(args.title)}</text>']
    panel(out, LEFT, runs, 0, "forward passes over a step's rows", low, high)
    panel(out, 2 * LEFT + WIDTH + GAP, runs, 1, "seconds of training, one thread", low, high)
    for row, ((name, points), colour) in enumerate(zip(runs, COLOURS)):
        x, y = 2 * LEFT + 2 * WIDTH + GAP + 16, TOP + 14 + 22 * row
        out.append(f'<line x1="{x}" x2="{x + 22}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="3"/>')
        out.append(f'<text x="{x + 28}" y="{y}">{escape(name)} {points[-1][2]:.3f}</text>')
    if args.start is not None:
        for left in (LEFT, 2 * LEFT + WIDTH + GAP):
            y = TOP + HEIGHT * (high - args.start) / (high - low)
            out.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#000" '
                       'stroke-dasharray="4 3"/>')
    out.append("</svg>")
    print("\n".join(out))


if __name__ == "__main__":
    main()
