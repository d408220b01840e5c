#!/usr/bin/env python3
"""Table and picture of what examples/methods_compared has run: one row, one line for each method.

    compare_runs.py DIR/sst2 [--measure eval_loss] [--pace NAME] > table.md
    compare_runs.py DIR/sst2 --svg [--measure eval_loss] [--pace NAME] [--title TEXT] > picture.svg

Numbers behind +- are standard deviations over seeds; of accuracy also the standard error of a share of so many rows.
Seconds are measured and without evaluating: in the runs, or with --pace in steps that were timed by themselves. A rate with a star is the first or last of those that were tried.
"""
import argparse
import json
import math
import os
import statistics
from xml.sax.saxutils import escape

from plot_evals import BOTTOM, COLOURS, DASHES, HEIGHT, LEFT, TOP, WIDTH, panel

KEY = 220


def pace_of(folder, name):
    """What methods_compared --pace found of the method whose run this is; None: it is told by the run itself."""
    if not name:
        return None
    with open(os.path.join(os.path.dirname(folder), f"pace-{name}.json"), encoding="utf-8") as file:
        return json.load(file)


def refresh_seconds(folder):
    """{step: seconds} of the refreshes before these steps."""
    found = {}
    for name in os.listdir(folder):
        if name.startswith("refresh-"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                refresh = json.load(file)
            found[refresh["step"]] = refresh["seconds"]
    return found


def read_run(folder, pace=None):
    """Points [(step, seconds, {measure: value})] of one run."""
    points, seconds, last = [], 0.0, 0
    timed, refreshes = pace_of(folder, pace), refresh_seconds(folder)
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["step"] > last:
                of_step = timed["step"] if timed else row["step_seconds"]
                seconds += of_step * (row["step"] - last)
                between = [step for step in refreshes if last < step <= row["step"]]
                seconds += sum(timed["refresh"] if timed else refreshes[step] for step in between)
                last = row["step"]
            if row.get("eval_loss") is not None:
                points.append((row["step"], seconds, row))
    if not points:
        raise SystemExit(f"{folder} has no evaluations")
    return points


def plan_of(folder):
    """{owner: text} of the placement that the run's log names."""
    owners = {}
    with open(folder + ".log", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            for owner in ("optimizer state", "gradients", "predicted peak"):
                if line.startswith(f"  {owner} ") and len(words) >= len(owner.split()) + 2:
                    owners[owner] = " ".join(words[len(owner.split()):len(owner.split()) + 2])
    return owners


def eval_rows(folder):
    """Rows of an evaluation, as the run's log says."""
    with open(folder + ".log", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if line.startswith("evaluation after") and "rows" in words:
                return int(words[words.index("rows") - 1])
    return 0


def trained(folder):
    """Numbers that the run trains, as its log says; all of them where it says nothing."""
    with open(folder + ".log", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("Note") and " parameters are trained" in line:
                return line.split(" of ")[0].removeprefix("Note").strip()
    return "all"


def read_methods(folder):
    """[(name, rate, runs)], those with the lowest loss first."""
    runs = os.path.join(folder, "runs")
    found = []
    for entry in os.listdir(runs):
        path = os.path.join(runs, entry, "rate.json")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            about = json.load(file)
        seeds = sorted(seed for seed in os.listdir(os.path.join(runs, entry)) if os.path.isdir(os.path.join(runs, entry, seed)))
        found.append((about, [os.path.join(runs, entry, seed) for seed in seeds]))
    return sorted(found, key=lambda each: statistics.mean(read_run(run)[-1][2]["eval_loss"] for run in each[1]))


def spread(values, digits=4):
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {deviation:.{digits}f}"


def table(methods, pace):
    out = ["| method | rate | trained | state | gradients | loss | accuracy | s.e. | seconds |",
           "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for about, runs in methods:
        ends = [read_run(run, pace)[-1] for run in runs]
        plan = plan_of(runs[0])
        accuracies = [end[2]["eval_accuracy"] for end in ends if end[2].get("eval_accuracy") is not None]
        accuracy, error = "-", "-"
        if accuracies:
            mean = statistics.mean(accuracies)
            rows = eval_rows(runs[0])
            accuracy = spread(accuracies, 3)
            error = f"{math.sqrt(mean * (1 - mean) / rows):.3f}" if rows else "-"
        out.append("| " + " | ".join([
            about["name"], f"{about['rate']:g}{'*' if about['at_end'] else ''}", trained(runs[0]), plan.get("optimizer state", "-"),
            plan.get("gradients", "-"), spread([end[2]["eval_loss"] for end in ends]), accuracy, error,
            spread([end[1] for end in ends], 1)]) + " |")
    return "\n".join(out)


def mean_line(runs, measure, pace):
    """Means over seeds, point by point: (1, seconds, value)."""
    return [(1.0, statistics.mean(p[1] for p in points), statistics.mean(p[2][measure] for p in points))
            for points in zip(*(read_run(run, pace) for run in runs))]


def picture(methods, measure, title, pace):
    lines = [(about["name"], mean_line(runs, measure, pace)) for about, runs in methods]
    values = [point[2] for _, points in lines for point in points]
    low, high = min(values), max(values)
    low, high = low - 0.05 * (high - low or 1), high + 0.05 * (high - low or 1)
    height = max(TOP + HEIGHT + BOTTOM, TOP + 14 + 18 * len(lines))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * LEFT + WIDTH + KEY}" height="{height}" '
           'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>']
    shown = lines
    panel(out, LEFT, shown, 1, "seconds of training, measured", low, high)
    for row, (name, points) in enumerate(shown):
        x, y = 2 * LEFT + WIDTH, TOP + 14 + 18 * row
        colour, dash = COLOURS[row % len(COLOURS)], DASHES[row // len(COLOURS)]
        out.append(f'<line x1="{x}" x2="{x + 22}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="3" stroke-dasharray="{dash}"/>')
        out.append(f'<text x="{x + 28}" y="{y}">{escape(name)} {points[-1][2]:.3f}</text>')
    out.append("</svg>")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--measure", default="eval_loss")
    parser.add_argument("--svg", action="store_true")
    parser.add_argument("--title", default="")
    parser.add_argument("--pace", metavar="NAME")
    args = parser.parse_args()
    methods = read_methods(args.dir)
    print(picture(methods, args.measure, args.title, args.pace) if args.svg else table(methods, args.pace))


if __name__ == "__main__":
    main()
