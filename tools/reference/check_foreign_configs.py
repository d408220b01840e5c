#!/usr/bin/env python3
"""Training files of LLaMA-Factory and axolotl, as they are published: whether each translates, and its result plans.

    tools/reference/check_foreign_configs.py FOLDER --model MODEL --rows FILE --pairs FILE [--windlass build/release/windlass]

FOLDER holds .yaml and .yml files of either tool, in folders or not. Their models and data are not here: MODEL, whose
context is as long as their rows, and the rows, or pairs where a file learns preferences, stand for them. Prints a row of
a Markdown table for each file, and fails where one does not translate or plan.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout, done.stderr


def keys_in(text):
    return re.findall(r"^(\w+):", text, flags=re.MULTILINE)


def check(path, args, folder):
    """(a row of the table, whether all went well)"""
    name = os.path.relpath(path, args.folder)
    ok, yaml, notes = run(args.windlass, "config", "from", path)
    if not ok:
        return f"| {name} | | | | {notes.strip().splitlines()[-1]} |", False
    dropped = re.findall(r"not taken over: ([^:]+): (.*)", notes)
    unknown = [key for key, reason in dropped if reason.startswith("nothing here has that name")]
    translated = os.path.join(folder, "translated.yaml")
    with open(translated, "w", encoding="utf-8") as file:
        file.write(yaml)
    rows = args.pairs if "objective" in keys_in(yaml) else args.rows
    words = [f"model={args.model}", f"train_data=[{rows}]", f"output_dir={folder}/out", "--alone"]
    if "eval_data" in keys_in(yaml):
        words.append(f"eval_data=[{rows}]")
    ok, _, error = run(args.windlass, "plan", translated, *words)
    said = "plans" if ok else error.strip().splitlines()[-1]
    return f"| {name} | {len(keys_in(yaml))} | {len(dropped)} | {', '.join(unknown) or 'none'} | {said} |", ok


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", required=True)
    parser.add_argument("--pairs", required=True)
    parser.add_argument("--windlass", default="build/release/windlass")
    args = parser.parse_args()
    paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(args.folder) for name in names
                   if name.endswith((".yaml", ".yml")))
    print("| file | keys written | dropped, with a reason | dropped as unknown | |\n| --- | ---: | ---: | --- | --- |")
    good = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            row, ok = check(path, args, folder)
            print(row, flush=True)
            good += ok
    print(f"\n{good} of {len(paths)} translate and plan")
    return 0 if good == len(paths) > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
