"""Fine-tune language models that do not fit in memory, from Python.

    import windlass_train as wl

    plan = wl.plan(model="Qwen/Qwen3-0.6B", machine="rtx4090-desktop", max_length=2048)
    run = wl.train("runs/mine", model="Qwen/Qwen3-0.6B", train_data=rows, learning_rate=1e-5)
    for step in run:
        print(step.step, step.loss)
    print(run.result()["final"])

Keyword arguments are the keys of the configuration (docs/guide/config.md). The program `windlass` does the work in a process of its own, which
outlives this one; this module only reads its events (docs/guide/json.md). It needs nothing but Python 3.9.
"""

from ._chat import Chat, chat
from ._figure import watch
from ._program import WindlassError, find_program
from ._run import Run, Step, train
from ._verbs import Plan, evaluate, export, plan, runs, status

__all__ = [
    "Chat",
    "Plan",
    "Run",
    "Step",
    "WindlassError",
    "chat",
    "evaluate",
    "export",
    "find_program",
    "plan",
    "runs",
    "status",
    "train",
    "watch",
]
