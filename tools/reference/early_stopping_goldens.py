"""Which evaluations transformers takes for the best, and where it stops early: tests/golden/early_stopping.json.

Each case is a row of values as evaluations might give them, on a grid, so that some are equal and some differ by just the
threshold. They are shown to EarlyStoppingCallback and to the trainer's own search for the best, in the order in which a
trainer calls them.

    pip install torch transformers
    python tools/reference/early_stopping_goldens.py
"""

import json
import pathlib
import random
from types import SimpleNamespace

import transformers
from transformers import EarlyStoppingCallback, Trainer, TrainerControl, TrainerState
from transformers.trainer_utils import SaveStrategy

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "early_stopping.json"
METRIC = "eval_value"


def play(values, greater, patience, threshold):
    args = SimpleNamespace(metric_for_best_model=METRIC, greater_is_better=greater, save_strategy=SaveStrategy.STEPS)
    state, control = TrainerState(), TrainerControl()
    callback = EarlyStoppingCallback(patience, threshold)
    trainer = SimpleNamespace(args=args, state=state)
    bests, misses, stops = [], [], None
    for step, value in enumerate(values, start=1):
        state.global_step = step
        metrics = {METRIC: value}
        callback.on_evaluate(args, state, control, metrics)
        Trainer._determine_best_metric(trainer, metrics, None)
        bests.append(state.best_global_step or 0)
        misses.append(callback.early_stopping_patience_counter)
        if stops is None and control.should_training_stop:
            stops = step
    return {"values": [str(value) if value != value else value for value in values], "greater_is_better": greater,
            "patience": patience, "threshold": threshold, "bests": bests, "misses": misses, "stops": stops}


def main():
    draw = random.Random(17)
    cases = []
    for number in range(48):
        values = [draw.randint(0, 16) / 8 for _ in range(12)]
        if number % 6 == 5:
            values[draw.choice([0, 1, 5])] = float("nan")
        cases.append(play(values, number % 2 == 1, draw.randint(1, 4), draw.choice([0.0, 0.125, 0.5])))
    lines = ",\n  ".join(json.dumps(case) for case in cases)
    OUT.write_text(f'{{"made_with": "transformers {transformers.__version__}",\n "cases": [\n  {lines}\n ]}}\n')


main()
