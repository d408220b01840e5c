#!/usr/bin/env python3
"""Draws traces of `windlass plan --trace` and `windlass train --trace` as SVG: a row per lane, a colour per kind of work.

    trace_svg.py TRACE.json... [--titles A|B...] [--width 1200] [--from MS] [--to MS] > picture.svg

All steps of all traces are drawn one below the other on one scale: give a predicted and a measured trace to compare
them. A box has the number of its layer, or e and h for embedding and head, if there is room. Hovering over a task shows
its name and how long it takes.
"""
import argparse
import json
import re
from xml.sax.saxutils import escape

ROW, GAP, LEFT, TITLE = 22, 4, 104, 26
FORWARD, REVERSE = "#4c78a8", "#2f4b7c"
# Of moves by what they carry, of work on parameters by its kernel.
COLOURS = {"run": FORWARD, "weights": "#f2a54a", "state": "#eeca3b", "gradients": "#e45756", "activations": "#ff9da6",
           "update": "#54a24b", "squares": "#b279a2", "materialize": "#76b7b2"}
OTHERS = "#bab0ac"


def read_steps(path):
    """[(title, {lane number: name}, [task event])], in the order of the file; lanes without tasks are left out."""
    steps = {}
    with open(path, encoding="utf-8") as file:
        for event in json.load(file)["traceEvents"]:
            step = steps.setdefault(event["pid"], {"title": "", "lanes": {}, "tasks": []})
            if event["ph"] == "X":
                step["tasks"].append(event)
            elif event["name"] == "process_name":
                step["title"] = event["args"]["name"]
            elif event["name"] == "thread_name":
                step["lanes"][event["tid"]] = event["args"]["name"]
    result = []
    for step in steps.values():
        used = {task["tid"] for task in step["tasks"]}
        lanes = {number: name for number, name in sorted(step["lanes"].items()) if number in used}
        result.append((step["title"], lanes, step["tasks"]))
    return result


def colour_of(task):
    if task["cat"] == "move":
        words = task["name"].replace("low halves", "state").split()
        return COLOURS.get(words[1], OTHERS)
    return REVERSE if task["name"].startswith("backward") else COLOURS.get(task["cat"], OTHERS)


def label_of(name, wide):
    """What fits into a box of this width: "3" of layers.3."""
    layer = re.search(r"layers\.(\d+)|(embedding|head)", name)
    text = "" if layer is None else layer[1] or layer[2][0]
    return text if text and wide >= 7 * len(text) + 3 else ""


def time_text(us):
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.4g} {unit}"
    return f"{us:.4g} us"


def merged(tasks, scale):
    """Neighbours of one colour that are narrower than a tenth of a pixel together become one box."""
    boxes = []
    for task in tasks:
        begin, end, colour = task["ts"], task["ts"] + task["dur"], colour_of(task)
        if boxes and boxes[-1][2] == colour and (end - boxes[-1][0]) * scale < 1 and (begin - boxes[-1][1]) * scale < 0.1:
            boxes[-1] = (boxes[-1][0], end, colour, f"{boxes[-1][3]} ...")
        else:
            boxes.append((begin, end, colour, task["name"]))
    return boxes


def draw_step(step, top, first, last, width):
    title, lanes, tasks = step
    scale = (width - LEFT - 10) / (last - first)
    out = [f'<text x="4" y="{top + 16}" font-weight="bold">{escape(title)}</text>']
    top += TITLE
    for row, (number, name) in enumerate(lanes.items()):
        y = top + row * (ROW + GAP)
        shown = [t for t in tasks if t["tid"] == number and t["ts"] < last and t["ts"] + t["dur"] > first]
        busy = sum(min(t["ts"] + t["dur"], last) - max(t["ts"], first) for t in shown) / (last - first)
        out.append(f'<text x="4" y="{y + 15}">{escape(name)} {busy:.0%}</text>')
        out.append(f'<rect x="{LEFT}" y="{y}" width="{width - LEFT - 10}" height="{ROW}" fill="#f3f3f3"/>')
        for begin, end, colour, label in merged(shown, scale):
            x = LEFT + (max(begin, first) - first) * scale
            wide = max((min(end, last) - max(begin, first)) * scale, 0.05)
            out.append(f'<rect x="{x:.2f}" y="{y}" width="{wide:.2f}" height="{ROW}" fill="{colour}">'
                       f"<title>{escape(label)}: {time_text(end - begin)}</title></rect>")
            if text := label_of(label, wide):
                out.append(f'<text x="{x + wide / 2:.2f}" y="{y + 15}" text-anchor="middle" fill="white" '
                           f'font-size="11" pointer-events="none">{text}</text>')
    return out, top + len(lanes) * (ROW + GAP) + 8


def legend(y, steps):
    used = {colour_of(task) for _, _, tasks in steps for task in tasks}
    entries = [("forward", FORWARD), ("backward", REVERSE)] + [(v, c) for v, c in COLOURS.items() if v != "run"]
    entries = [(name, colour) for name, colour in entries + [("others", OTHERS)] if colour in used]
    out = []
    for index, (name, colour) in enumerate(entries):
        x = LEFT + index * 90
        out.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{x + 16}" y="{y + 11}">{name}</text>')
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", metavar="TRACE.json")
    parser.add_argument("--titles", default="", help="of the steps, in order, with | between them")
    parser.add_argument("--width", type=int, default=1200)
    parser.add_argument("--from", dest="first", type=float, default=0, help="milliseconds")
    parser.add_argument("--to", dest="last", type=float, help="milliseconds")
    args = parser.parse_args()
    steps = [step for trace in args.traces for step in read_steps(trace)]
    titles = args.titles.split("|") if args.titles else [title for title, _, _ in steps]
    if len(titles) != len(steps):
        parser.error(f"{len(titles)} titles for {len(steps)} steps")
    steps = [(title, lanes, tasks) for title, (_, lanes, tasks) in zip(titles, steps)]
    end = max((task["ts"] + task["dur"] for _, _, tasks in steps for task in tasks), default=1)
    first, last = args.first * 1e3, args.last * 1e3 if args.last else end
    body, y = [], 0
    for step in steps:
        lines, y = draw_step(step, y, first, last, args.width)
        body += lines
    body += legend(y, steps)
    body.append(f'<text x="{args.width - 10}" y="{y + 11}" text-anchor="end">{time_text(last - first)}</text>')
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{args.width}" height="{y + 22}" '
          f'font-family="sans-serif" font-size="12">')
    print('<rect width="100%" height="100%" fill="white"/>')
    print("\n".join(body))
    print("</svg>")


if __name__ == "__main__":
    main()
