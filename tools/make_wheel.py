#!/usr/bin/env python3
"""Makes a wheel of the Python module and the portable program (tools/package calls it; no other package is needed).

    tools/make_wheel.py --version V --glibc 2.34 --stage FOLDER --to FOLDER [--cuda 13]

FOLDER has bin/windlass, lib/ and share/doc/windlass as the portable archive has them. The program is windlass_train/bin/windlass,
and finds its libraries in windlass_train/lib. A wheel holds no links: each library is there under the one name by which others
ask for it. --cuda: the program has kernels for this version of CUDA, and the extra [cuda] installs NVIDIA's package with cuBLASLt,
which no wheel of ours contains. Entries are sorted, and have the time SOURCE_DATE_EPOCH.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import stat
import time
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
NAME = "windlass_train"
METADATA = """Metadata-Version: 2.1
Name: windlass-train
Version: {version}
Summary: Fine-tunes language models that are bigger than memory
License: Apache-2.0
Requires-Python: >=3.9
{extra}Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

{page}"""
WHEEL = """Wheel-Version: 1.0
Generator: windlass
Root-Is-Purelib: false
Tag: {tag}
"""
ENTRY_POINTS = """[console_scripts]
windlass = windlass_train._program:main
"""


def extra_of(cuda: int) -> str:
    """Of CUDA 13 the package is named without the version."""
    if cuda == 0:
        return ""
    package = f"nvidia-cublas-cu{cuda}" if cuda < 13 else f"nvidia-cublas (>={cuda},<{cuda + 1})"
    return f'Provides-Extra: cuda\nRequires-Dist: {package} ; extra == "cuda"\n'


def libraries(folder: pathlib.Path) -> "dict[str, bytes]":
    """Name and content; of a file and the links to it, the link that programs ask for."""
    by_file = {}
    for path in sorted(folder.iterdir()):
        by_file.setdefault(path.resolve(), []).append(path.name)
    return {min(names, key=len): path.read_bytes() for path, names in by_file.items()}


def contents(stage: pathlib.Path) -> "dict[str, tuple[bytes, bool]]":
    """Path in the wheel: bytes, and whether it is a program."""
    files = {f"{NAME}/{path.name}": (path.read_bytes(), False) for path in sorted((SOURCE / "python" / NAME).glob("*.py"))}
    files[f"{NAME}/bin/windlass"] = ((stage / "bin/windlass").read_bytes(), True)
    for name, text in libraries(stage / "lib").items():
        files[f"{NAME}/lib/{name}"] = (text, False)
    return files


def about(version: str, tag: str, stage: pathlib.Path, cuda: int) -> "dict[str, tuple[bytes, bool]]":
    info = f"{NAME}-{version}.dist-info"
    # A page that is read outside of the repository: its links lead nowhere there.
    page = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", (SOURCE / "docs/guide/python.md").read_text(encoding="utf-8"))
    files = {
        f"{info}/METADATA": METADATA.format(version=version, page=page, extra=extra_of(cuda)).encode(),
        f"{info}/WHEEL": WHEEL.format(tag=tag).encode(),
        f"{info}/entry_points.txt": ENTRY_POINTS.encode(),
        f"{info}/licenses/LICENSE": (SOURCE / "LICENSE").read_bytes(),
    }
    for path in sorted((stage / "share/doc/windlass/libraries").iterdir()):
        files[f"{info}/licenses/libraries/{path.name}"] = path.read_bytes()
    return {name: (text, False) for name, text in files.items()}


def record(files: "dict[str, tuple[bytes, bool]]", name: str) -> bytes:
    lines = []
    for path, (text, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text)}\n")
    return ("".join(lines) + f"{name},,\n").encode()


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes a wheel of the Python module and the portable program.")
    for flag in ("--version", "--glibc", "--stage", "--to"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--cuda", type=int, default=0)
    given = parser.parse_args()
    stage = pathlib.Path(given.stage)
    tag = f"py3-none-manylinux_{given.glibc.replace('.', '_')}_x86_64"
    files = {**contents(stage), **about(given.version, tag, stage, given.cuda)}
    name = f"{NAME}-{given.version}.dist-info/RECORD"
    files[name] = (record(files, name), False)
    when = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))[:6]
    with zipfile.ZipFile(pathlib.Path(given.to) / f"{NAME}-{given.version}-{tag}.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for path, (text, is_program) in files.items():
            entry = zipfile.ZipInfo(path, when)
            entry.create_system = 3  # Unix, for the mode
            entry.external_attr = (stat.S_IFREG | (0o755 if is_program else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, text)


if __name__ == "__main__":
    main()
