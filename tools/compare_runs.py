#!/usr/bin/env python3
"""Table and picture of what examples/methods_compared has run: one row, one line for each method.

    compare_runs.py DIR/sst2 [--measure eval_loss] [--pace NAME] > table.md
    compare_runs.py DIR/sst2 --svg [--measure eval_loss] [--pace NAME] [--title TEXT] > picture.svg
    compare_runs.py DIR/sst2 --keep FILE.json    adds what was run to FILE
    compare_runs.py FILE.json [...]              table and picture of what FILE holds

A kept file has each run's evaluations and no more, so that what several machines have run adds up; runs that it holds
already stay as they are, and a method at another rate than there is refused.
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
MEASURES = ("eval_loss", "eval_accuracy")


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def refresh_seconds(folder):
    """{step: seconds} of the refreshes before these steps."""
    files = [name for name in os.listdir(folder) if name.startswith("refresh-")]
    return {found["step"]: found["seconds"] for found in (read_json(os.path.join(folder, name)) for name in files)}


def read_run(folder):
    """Its evaluations: {"step", "seconds", "refreshes" so far, and what was measured}."""
    points, seconds, last = [], 0.0, 0
    refreshes = refresh_seconds(folder)
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["step"] > last:
                seconds += row["step_seconds"] * (row["step"] - last)
                seconds += sum(refreshes[step] for step in refreshes if last < step <= row["step"])
                last = row["step"]
            if row.get("eval_loss") is not None:
                point = {"step": last, "seconds": round(seconds, 3), "refreshes": sum(step <= last for step in refreshes)}
                points.append(point | {name: row[name] for name in MEASURES if row.get(name) is not None})
    if not points:
        raise SystemExit(f"{folder} has no evaluations")
    return points


def about_run(folder):
    """What the run's log says of machine, placement, numbers that are trained and rows that are evaluated."""
    about = {"trained": "all", "state": "-", "gradients": "-", "eval_rows": 0, "machine": ""}
    with open(folder + ".log", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if line.startswith("Machine "):
                about["machine"] = " ".join(words[1:]).split(",")[0]
            elif line.startswith("  optimizer state "):
                about["state"] = " ".join(words[2:4])
            elif line.startswith("  gradients ") and words[1][0].isdigit():  # not those on their way
                about["gradients"] = " ".join(words[1:3])
            elif line.startswith("Note") and " parameters are trained" in line:
                about["trained"] = line.split(" of ")[0].removeprefix("Note").strip()
            elif line.startswith("evaluation after") and "rows" in words:
                about["eval_rows"] = int(words[words.index("rows") - 1])
    return about


def read_methods(folder):
    """{name: {"rate", "at_end", what about_run says, "runs": {seed: points}, "paces": {name: seconds}}}"""
    methods = {}
    for entry in sorted(os.listdir(os.path.join(folder, "runs"))):
        path = os.path.join(folder, "runs", entry)
        if not os.path.exists(os.path.join(path, "rate.json")):
            continue
        method = read_json(os.path.join(path, "rate.json"))
        seeds = sorted(seed for seed in os.listdir(path) if os.path.isdir(os.path.join(path, seed, "final")))
        if seeds:
            method |= about_run(os.path.join(path, seeds[0]))
        method["runs"] = {seed: read_run(os.path.join(path, seed)) for seed in seeds}
        method["paces"] = {file.removeprefix("pace-").removesuffix(".json"): read_json(os.path.join(path, file))
                           for file in sorted(os.listdir(path)) if file.startswith("pace-")}
        methods[method.pop("name")] = method
    return methods


def keep(methods, path):
    """Adds methods, seeds and paces to those that the file holds; of a method without any run there is nothing to keep."""
    kept = read_json(path) if os.path.exists(path) else {}
    for name, method in methods.items():
        if name not in kept and not method["runs"]:
            continue
        held = kept.setdefault(name, method)
        if held["rate"] != method["rate"]:
            raise SystemExit(f"{path}: {name} was run at rate {held['rate']:g}, here at {method['rate']:g}")
        held["runs"] = method["runs"] | held["runs"]
        held["paces"] = held["paces"] | method["paces"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dict(sorted(kept.items())), file, indent=1)
        file.write("\n")


def seconds_at(point, method, pace):
    """Measured in the run, or by steps that were timed by themselves."""
    if not pace:
        return point["seconds"]
    if pace not in method["paces"]:
        raise SystemExit(f"no steps were timed as {pace}: examples/methods_compared --pace {pace} does that")
    timed = method["paces"][pace]
    return timed["step"] * point["step"] + timed["refresh"] * point["refreshes"]


def spread(values, digits=4):
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {deviation:.{digits}f}"


def row_of(name, method, pace, seeds):
    """Of a method with fewer seeds than others, their number."""
    ends = [points[-1] for points in method["runs"].values()]
    accuracies = [end["eval_accuracy"] for end in ends if "eval_accuracy" in end]
    accuracy, error = "-", "-"
    if accuracies:
        mean, rows = statistics.mean(accuracies), method["eval_rows"]
        accuracy = spread(accuracies, 3)
        error = f"{math.sqrt(mean * (1 - mean) / rows):.3f}" if rows else "-"
    few = "" if len(ends) == seeds else f" ({len(ends)} of {seeds} seeds)"
    return [name + few, f"{method['rate']:g}{'*' if method['at_end'] else ''}", method["trained"], method["state"], method["gradients"],
            spread([end["eval_loss"] for end in ends]), accuracy, error,
            spread([seconds_at(end, method, pace) for end in ends], 1)]


def table(methods, pace):
    out = ["| method | rate | trained | state | gradients | loss | accuracy | s.e. | seconds |",
           "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    seeds = max(len(method["runs"]) for _, method in methods)
    return "\n".join(out + ["| " + " | ".join(row_of(name, method, pace, seeds)) + " |" for name, method in methods])


def mean_line(method, measure, pace):
    """Means over seeds, point by point: (1, seconds, value)."""
    return [(1.0, statistics.mean(seconds_at(point, method, pace) for point in points),
             statistics.mean(point[measure] for point in points)) for points in zip(*method["runs"].values())]


def picture(methods, measure, title, pace):
    lines = [(name, mean_line(method, measure, pace)) for name, method in methods]
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
    parser.add_argument("runs", help="a task's folder, or a kept file")
    parser.add_argument("--measure", default="eval_loss")
    parser.add_argument("--svg", action="store_true")
    parser.add_argument("--title", default="")
    parser.add_argument("--pace", metavar="NAME")
    parser.add_argument("--keep", metavar="FILE")
    args = parser.parse_args()
    found = read_methods(args.runs) if os.path.isdir(args.runs) else read_json(args.runs)
    if args.keep:
        return keep(found, args.keep)
    found = {name: method for name, method in found.items() if method["runs"]}
    if not found:
        raise SystemExit(f"{args.runs} has no run that came to its end")
    methods = sorted(found.items(), key=lambda each: statistics.mean(points[-1]["eval_loss"] for points in each[1]["runs"].values()))
    print(picture(methods, args.measure, args.title, args.pace) if args.svg else table(methods, args.pace))


if __name__ == "__main__":
    main()
