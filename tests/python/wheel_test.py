"""tools/make_wheel.py on a small program: what is in the wheel, and what pip makes of it. The first argument is the repository."""

import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
NAME = "windlass_train-1.2.3-py3-none-manylinux_2_34_x86_64.whl"


class Wheel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        stage = self.folder / "stage"
        for each in ("bin", "lib", "share/doc/windlass/libraries"):
            (stage / each).mkdir(parents=True)
        program = stage / "bin/windlass"
        program.write_text('#!/bin/sh\necho "$0 was asked: $*"\n')
        program.chmod(0o755)
        (stage / "lib/libmany.so.2.6").write_bytes(b"\x7fELF many")
        (stage / "lib/libmany.so.2").symlink_to("libmany.so.2.6")
        (stage / "lib/libone.so.1").write_bytes(b"\x7fELF one")
        (stage / "share/doc/windlass/libraries/libmany.txt").write_text("free\n")
        self.stage = stage

    def make(self, to, *flags):
        to = self.folder / to
        to.mkdir()
        subprocess.run([sys.executable, SOURCE / "tools/make_wheel.py", "--version", "1.2.3", "--glibc", "2.34", "--stage", self.stage, "--to", to, *flags],
                       check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
        return to / NAME

    def test_each_entry_is_recorded_and_the_program_is_executable(self):
        with zipfile.ZipFile(self.make("a")) as wheel:
            names = wheel.namelist()
            record = dict(line.split(",", 1) for line in wheel.read("windlass_train-1.2.3.dist-info/RECORD").decode().splitlines())
            self.assertEqual(sorted(record), sorted(names))
            for name in names:
                if name.endswith("/RECORD"):
                    continue
                digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b"=").decode()
                self.assertEqual(record[name], f"sha256={digest},{wheel.getinfo(name).file_size}", name)
            self.assertEqual(wheel.getinfo("windlass_train/bin/windlass").external_attr >> 16 & 0o777, 0o755)
            self.assertEqual(wheel.read("windlass_train/lib/libmany.so.2"), b"\x7fELF many")
            self.assertNotIn("windlass_train/lib/libmany.so.2.6", names)
            for module in (SOURCE / "python/windlass_train").glob("*.py"):
                self.assertIn(f"windlass_train/{module.name}", names)
            self.assertIn("windlass_train-1.2.3.dist-info/licenses/libraries/libmany.txt", names)
            self.assertIn(b"Tag: py3-none-manylinux_2_34_x86_64\n", wheel.read("windlass_train-1.2.3.dist-info/WHEEL"))

    def test_an_extra_names_the_vendors_library(self):
        def metadata(*flags):
            with zipfile.ZipFile(self.make("m" + "".join(flags[1:]), *flags)) as wheel:
                return wheel.read("windlass_train-1.2.3.dist-info/METADATA").decode()

        self.assertNotIn("extra", metadata().split("\n\n")[0])
        self.assertIn('Requires-Dist: nvidia-cublas (>=13,<14) ; extra == "cuda"\n', metadata("--cuda", "13"))
        self.assertIn('Requires-Dist: nvidia-cublas-cu12 ; extra == "cuda"\n', metadata("--cuda", "12"))

    def test_two_are_the_same_bytes(self):
        self.assertEqual(self.make("a").read_bytes(), self.make("b").read_bytes())

    def test_pip_installs_it_and_the_command_is_the_program(self):
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
            self.skipTest("this Python has no pip")
        to = self.folder / "installed"
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-cache-dir", "--target", to, self.make("a")], check=True,
                       capture_output=True)
        said = subprocess.run([to / "bin/windlass", "plan", "x y"], env={**os.environ, "PYTHONPATH": str(to)}, capture_output=True, text=True)
        self.assertEqual(said.stdout, f"{to}/windlass_train/bin/windlass was asked: plan x y\n", said.stderr)
        found = subprocess.run([sys.executable, "-c", "import windlass_train._program as p; print(p.find_program())"], capture_output=True, text=True,
                               env={**{k: v for k, v in os.environ.items() if k != "WINDLASS"}, "PYTHONPATH": str(to)})
        self.assertEqual(found.stdout, f"{to}/windlass_train/bin/windlass\n", found.stderr)


if __name__ == "__main__":
    unittest.main()
