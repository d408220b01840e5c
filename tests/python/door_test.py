"""The Python door on the real program: WINDLASS names it, the first argument is the repository."""

import importlib.util
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(SOURCE / "python"))

import windlass_train as wl  # noqa: E402

MODEL = SOURCE / "examples/quickstart/model"
CHATS = SOURCE / "examples/chat/chats.jsonl"
TEMPLATE = SOURCE / "examples/chat/template.jinja"
ROWS = [{"prompt": f"The name of number {i} is", "completion": f" {'abcdefgh'[i]}."} for i in range(8)]
SMALL = dict(model=MODEL, max_length=64, per_device_train_batch_size=4, threads=1, logging_steps=1000)


CACHE = tempfile.TemporaryDirectory()  # what is measured of the machine, once for all tests
os.environ["XDG_CACHE_HOME"] = CACHE.name


class Table:
    """As datasets.Dataset and pandas.DataFrame: something that writes itself."""

    def to_json(self, path, **options):
        with open(path, "w", encoding="utf-8") as file:
            for row in ROWS:
                file.write(json.dumps(row) + "\n")


class Door(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_plan_is_a_dict_with_figures(self):
        plan = wl.plan(**SMALL)
        self.assertTrue(plan.fits)
        self.assertGreater(plan.peak["memory"], 2**20)
        self.assertEqual(plan.peak["memory"], sum(row["memory_bytes"] for row in plan["placement"]))
        self.assertGreater(plan.step_seconds, 0)
        self.assertIn(plan["policy"], repr(plan))
        compared = wl.plan(compare=True, compare_seconds=0, **SMALL)
        self.assertIn("lomo", [each["method"] for each in compared.methods])

    def test_what_does_not_fit_is_an_error_with_ways_out(self):
        with self.assertRaises(wl.WindlassError) as caught:
            wl.plan(ram="2MiB", **SMALL)
        self.assertEqual((caught.exception.code, caught.exception.kind, caught.exception.place), (3, "no_fit", "plan"))
        with self.assertRaises(wl.WindlassError) as caught:
            for _ in wl.train(self.folder / "run", train_data=ROWS, learning_rat=1, **SMALL):
                pass
        self.assertEqual(caught.exception.code, 2)
        self.assertIn("learning_rate", str(caught.exception))

    def test_a_run_gives_its_steps_and_its_result(self):
        run = wl.train(self.folder / "run", train_data=Table(), eval_data=ROWS, eval_steps=2, max_steps=4, **SMALL)
        saved, evaluated = [], []
        run.on(checkpoint=saved.append, evaluation=evaluated.append)
        steps = list(run)
        self.assertEqual([step.step for step in steps], [1, 2, 3, 4])
        self.assertLess(steps[-1].loss, steps[0].loss)
        self.assertIn("grad_norm", steps[0].metrics)
        self.assertNotIn("step", steps[0].metrics)
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        for step, line in zip(steps, lines):
            line.pop("checksum", None)
            self.assertEqual(dict(step), line)
        self.assertEqual(len(evaluated), 2)
        self.assertTrue(saved)
        self.assertEqual(run.plan["method"], "adamw")
        final = pathlib.Path(run.result()["final"])
        self.assertTrue((final / "model.safetensors").exists())
        self.assertEqual(list(run), [], "it is over")
        self.assertEqual(wl.status(self.folder / "run")["state"], "done")
        self.assertEqual([each["state"] for each in wl.runs(self.folder)], ["done"])
        self.assertGreater(wl.evaluate(final, eval_data=self.folder / "run.eval_data.jsonl")["loss"], 0)
        exported = wl.export(self.folder / "run", self.folder / "model.gguf", type="q8_0")
        self.assertEqual(exported["bytes"], (self.folder / "model.gguf").stat().st_size)

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "pyarrow is not installed")
    def test_parquet_files_are_read_as_rows(self):
        import pyarrow
        import pyarrow.parquet

        paths = [self.folder / "a.parquet", str(self.folder / "b.parquet")]
        for path, rows in zip(paths, (ROWS[:5], ROWS[5:])):
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        run = wl.train(self.folder / "run", train_data=paths, eval_data=paths[0], max_steps=1, **SMALL)
        self.assertEqual([step.step for step in run], [1])
        read = [(self.folder / f"run.train_data.{i}.jsonl").read_text(encoding="utf-8").splitlines() for i in range(2)]
        self.assertEqual([json.loads(line) for line in read[0] + read[1]], ROWS)
        self.assertTrue((self.folder / "run.eval_data.jsonl").exists())

    def test_a_download_is_a_flag(self):
        with self.assertRaises(wl.WindlassError) as caught:
            wl.plan(model="models/none", download=True)
        self.assertEqual((caught.exception.kind, caught.exception.place), ("usage", "--download"))
        self.assertTrue(wl.plan(download=True, **SMALL).fits)

    def test_a_run_is_stopped_attached_to_and_resumed(self):
        run = wl.train(self.folder / "run", train_data=ROWS, max_steps=100000, **SMALL)
        next(iter(run))
        attached = wl.Run.attach(self.folder / "run")
        seen = next(iter(attached))
        self.assertEqual(seen.step, 1)
        attached.stop()
        stopped = run.result()
        self.assertIn("--resume", stopped["resume"])
        self.assertEqual(attached.result()["steps"], stopped["steps"])
        self.assertEqual(len(attached.steps), stopped["steps"])
        resumed = wl.train(self.folder / "run", train_data=self.folder / "run.train_data.jsonl", resume=True,
                           **{**SMALL, "max_steps": stopped["steps"] + 2})
        self.assertEqual([step.step for step in resumed], [stopped["steps"] + 1, stopped["steps"] + 2])

    def test_an_interrupt_stops_the_run_once_and_is_raised(self):
        run = wl.train(self.folder / "run", train_data=ROWS, max_steps=100000, **SMALL)
        steps = []
        with self.assertRaises(KeyboardInterrupt):
            for step in run:
                steps.append(step.step)
                if len(steps) == 2:
                    signal.setitimer(signal.ITIMER_REAL, 0.02)
                    signal.signal(signal.SIGALRM, signal.default_int_handler)
        self.assertEqual(run.result()["steps"], steps[-1])
        self.assertEqual(wl.status(self.folder / "run")["state"], "stopped")

    def test_a_run_outlives_the_process_that_began_it(self):
        child = os.fork()
        if child == 0:
            next(iter(wl.train(self.folder / "run", train_data=ROWS, max_steps=30, **SMALL)))
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(wl.Run.attach(self.folder / "run").result()["steps"], 30)

    def test_a_chat_answers(self):
        wl.train(self.folder / "run", train_data=CHATS, chat_template=TEMPLATE, max_steps=2, **SMALL).result()
        with wl.chat(self.folder / "run/final", max_new_tokens=6) as chat:
            pieces = list(chat.stream("Who are you?"))
            self.assertEqual("".join(pieces), chat.last_answer["content"])
            self.assertLessEqual(chat.last_answer["tokens"], 6)
            chat.undo()
            self.assertEqual(chat.say("Who are you?"), "".join(pieces))
            with self.assertRaises(wl.WindlassError):
                chat.say("long " * 2000)
            chat.save(self.folder / "more.jsonl")
        self.assertEqual(len(json.loads((self.folder / "more.jsonl").read_text())["messages"]), 2)
        with self.assertRaises(wl.WindlassError) as caught:
            wl.chat(self.folder / "absent")
        self.assertEqual(caught.exception.kind, "model")

    def test_a_picture_is_of_all_steps(self):
        run = wl.Run(self.folder / "run")
        self.assertIn("no step yet", run._repr_mimebundle_()["image/svg+xml"])
        run.steps = [wl.Step(step=i, loss=5 / i) for i in range(1, 2000)] + [wl.Step(step=2000, loss="NaN")]
        run.evaluations = [{"step": 1000, "eval_loss": 0.5}, {"step": 1999, "eval_loss": 0.25}]
        picture = run._repr_mimebundle_()["image/svg+xml"]
        self.assertEqual(len(xml.etree.ElementTree.fromstring(picture).findall("{http://www.w3.org/2000/svg}polyline")), 3)
        self.assertLess(len(picture), 40000)

    def test_watching_prints_lines_outside_a_notebook(self):
        result = wl.watch(wl.train(self.folder / "run", train_data=ROWS, max_steps=2, **SMALL))
        self.assertEqual(result["steps"], 2)


if __name__ == "__main__":
    unittest.main()
