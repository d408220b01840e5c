#!/usr/bin/env python3
"""Lists the libraries of the packages that tools/package makes, as an SPDX 2.3 document (tools/package calls it).

    tools/make_sbom.py --version V --to FILE [--deb FILE PROGRAM] [--archive FILE PROGRAM] [--wheel FILE PROGRAM]

FILE is a package and PROGRAM the program in it, as it was before it was packed; libraries that come with it are in ../lib from
there. The loader says which libraries a program uses, dpkg says whose they are, `windlass version` says their licences. A library
that this file does not know, a licence that Apache-2.0 does not go with, and a library that is not Debian's file are errors.
Needs Debian, binutils, and no Python package. The same packages give the same bytes; the time is SOURCE_DATE_EPOCH.
"""

import argparse
import filecmp
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.parse

# Debian's source package: the name in `windlass version --licences`.
NAMES = {
    "boost1.74": "Boost",
    "boost1.83": "Boost",
    "cli11": "CLI11",
    "fmtlib": "fmt",
    "glibc": "glibc",
    "libbsd": "libbsd, libmd (of libedit)",
    "libcsv": "libcsv",
    "libedit": "libedit",
    "libisal": "ISA-L",
    "libmd": "libbsd, libmd (of libedit)",
    "librandom123": "Random123",
    "liburing": "liburing",
    "libzstd": "zstd",
    "ncurses": "ncurses (of libedit)",
    "node-chart.js": "Chart.js",
    "nlohmann-json3": "nlohmann-json",
    "ocl-icd": "ocl-icd (of oneDNN)",
    "onednn": "oneDNN",
    "pcre2": "PCRE2",
    "utf8proc": "utf8proc",
    "xxhash": "xxHash",
    "xz-utils": "liblzma",
    "yaml-cpp": "yaml-cpp",
    "zlib": "zlib",
}
GCC = "libstdc++, libgcc, libgomp"  # of the source packages gcc-12, gcc-14 and so on
CUDA = "CUDA runtime"

# Code from these is inside the program: headers in each, the page's script, and in the portable one the whole library.
INSIDE = ["libcli11-dev", "libfmt-dev", "libjs-chart.js", "librandom123-dev", "libyaml-cpp-dev", "nlohmann-json3-dev"]

# Licences that a program under Apache-2.0 may be linked with and shipped under.
ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "GPL-3.0-or-later WITH GCC-exception-3.1",
    "LicenseRef-NVIDIA-CUDA-Toolkit-EULA",  # its attachment A lets programs contain libcudart_static
    "MIT",
    "Unicode-DFS-2015",
    "X11",
    "Zlib",
    "public domain",
    "BSD-3-Clause and other permissive ones",
}
# Only as a shared library, which a user may replace.
SHARED_ONLY = {"LGPL-2.1-or-later"}


class Refused(Exception):
    """A library or a licence that may not be in a package."""


def output(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def boost_package() -> str:
    """Of Boost's headers; each release of Debian has another version."""
    listed = output("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", "libboost1.*-dev")
    found = re.findall(r"^installed (libboost1\.\d+-dev)$", listed, re.M)
    return found[0] if found else "libboost-dev"


def check_licence(name: str, licence: str, inside: bool) -> None:
    allowed = ALLOWED if inside else ALLOWED | SHARED_ONLY
    for choice in licence.split(" OR "):
        if all(part in allowed for part in choice.split(" AND ")):
            return
    how = "inside of the program" if inside else "as a shared library"
    raise Refused(f"{name} has the licence '{licence}', which is not allowed {how}\n    Try: another library, or ALLOWED in tools/make_sbom.py")


@functools.lru_cache(None)
class Library:
    """An installed package of Debian."""

    def __init__(self, package: str):
        self.package = package.split(":")[0]
        form = "${Version}\n${source:Package}\n${source:Version}\n${Architecture}"
        try:
            said = output("dpkg-query", "-W", "-f", form, package)
        except subprocess.CalledProcessError:
            raise Refused(f"the package {package} is not installed\n    Try: tools/install-packages") from None
        self.version, self.source, self.source_version, self.architecture = said.split("\n")

    def name(self) -> str:
        """Its name in `windlass version`."""
        if re.fullmatch(r"gcc-\d+", self.source):
            return GCC
        if self.source not in NAMES:
            raise Refused(f"{self.package}, of Debian's source package {self.source}, is not a known library\n"
                          "    Try: add it to src/app/cli/libraries.cpp and to NAMES in tools/make_sbom.py")
        return NAMES[self.source]


def owners(paths: "list[str]") -> "dict[str, str]":
    """Packages of shared libraries by path; Debian 12 lists some below / and some below /usr."""
    places = {place: path for path in paths for place in (path, path.removeprefix("/usr"), "/usr" + path.removeprefix("/usr"))}
    lines = subprocess.run(["dpkg-query", "-S", *places], capture_output=True, text=True).stdout.splitlines()
    found = {places[place]: package for package, place in (line.split(": ", 1) for line in lines) if place in places}
    for path in paths:
        if path not in found:
            raise Refused(f"no package has {path}, which the program needs\n    Try: build where all libraries come from Debian")
    return found


def loaded(program: pathlib.Path) -> "dict[str, pathlib.Path]":
    """The name and the file of each library that the loader finds."""
    lines = [line.split() for line in output("ldd", str(program)).splitlines() if "=>" in line]
    missing = [words[0] for words in lines if "not" in words]
    if missing:
        raise Refused(f"{program} needs {', '.join(missing)}, which is not there\n    Try: ldd {program}")
    return {words[0]: pathlib.Path(words[2]) for words in lines}


def needed(file: pathlib.Path) -> "list[str]":
    """Names of the libraries that this file itself asks for."""
    return re.findall(r"^\s*NEEDED\s+(\S+)$", output("objdump", "-p", str(file)), re.MULTILINE)


@functools.lru_cache(None)
def own_file(soname: str) -> pathlib.Path:
    """The system's library of this name."""
    for line in output("/sbin/ldconfig", "-p").splitlines():
        words = line.split()
        if words[0] == soname and "x86-64" in line:
            return pathlib.Path(words[-1])
    raise Refused(f"this system has no {soname}\n    Try: tools/install-packages")


class Document:
    def __init__(self, version: str):
        self.version = version
        self.packages = {}  # SPDX identifier: package
        self.relationships = set()
        self.texts = {}  # LicenseRef of a licence without an SPDX name: its text
        self.licences = {}

    def relate(self, one: str, what: str, other: str) -> None:
        if one != other:
            self.relationships.add((one, what, other))

    def licence_of(self, library: Library, inside: bool) -> str:
        name = library.name()
        if name not in self.licences:
            raise Refused(f"`windlass version` does not name {name}\n    Try: add it to src/app/cli/libraries.cpp")
        licence = self.licences[name]
        check_licence(library.package, licence, inside)
        if re.fullmatch(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*", licence):
            return licence
        reference = f"LicenseRef-{library.package}"
        self.texts[reference] = (name, pathlib.Path(f"/usr/share/doc/{library.package}/copyright").read_text(encoding="utf-8"))
        return reference

    def add_library(self, package: str, inside: bool = False) -> str:
        """Adds a package of Debian, and returns its identifier."""
        library = Library(package)
        licence = self.licence_of(library, inside)
        identifier = f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', library.package)}"
        quoted = urllib.parse.quote(library.version, safe="")
        source = urllib.parse.quote(library.source_version, safe="")
        self.packages[identifier] = {
            "SPDXID": identifier,
            "name": library.package,
            "versionInfo": library.version,
            "supplier": "Organization: Debian",
            "downloadLocation": f"https://snapshot.debian.org/package/{library.source}/{source}/",
            "sourceInfo": f"Debian's source package {library.source} {library.source_version}",
            "filesAnalyzed": False,
            "licenseConcluded": licence,
            "licenseDeclared": licence,
            "copyrightText": "NOASSERTION",
            "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{urllib.parse.quote(library.package, safe='')}@{quoted}?arch={library.architecture}",
            }],
        }
        return identifier

    def add_cuda(self, text: str) -> str:
        licence = self.licences[CUDA]
        check_licence(CUDA, licence, inside=True)
        self.texts[licence] = (CUDA, "https://docs.nvidia.com/cuda/eula/")
        self.packages["SPDXRef-cudart"] = {
            "SPDXID": "SPDXRef-cudart",
            "name": "libcudart_static",
            "versionInfo": re.findall(r"CUDA (\d+\.\d+)", text)[0],
            "supplier": "Organization: NVIDIA",
            "downloadLocation": "https://developer.nvidia.com/cuda-toolkit",
            "filesAnalyzed": False,
            "licenseConcluded": licence,
            "licenseDeclared": licence,
            "copyrightText": "NOASSERTION",
        }
        return "SPDXRef-cudart"

    def add_artefact(self, kind: str, file: pathlib.Path, program: pathlib.Path) -> None:
        """Adds one of our packages, and all that its program is linked with."""
        said = json.loads(output(str(program), "version", "--json"))
        self.licences = {each["name"]: each["licence"] for each in said["libraries"]}
        artefact = f"SPDXRef-{kind}"
        self.packages[artefact] = {
            "SPDXID": artefact,
            "name": "windlass",
            "versionInfo": self.version,
            "packageFileName": file.name,
            "primaryPackagePurpose": "APPLICATION",
            "supplier": "Organization: Windlass developers",
            "downloadLocation": "NOASSERTION",
            "sourceInfo": f"commit {said['commit']}",
            "filesAnalyzed": False,
            "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(file.read_bytes()).hexdigest()}],
            "licenseConcluded": "Apache-2.0",
            "licenseDeclared": "Apache-2.0",
            "copyrightText": "NOASSERTION",
        }
        self.relate("SPDXRef-DOCUMENT", "DESCRIBES", artefact)
        for package in [*INSIDE, boost_package(), f"libstdc++-{said['compiler'].split('.')[0]}-dev"]:
            self.relate(artefact, "STATIC_LINK", self.add_library(package, inside=True))
        if CUDA in self.licences:
            self.relate(artefact, "STATIC_LINK", self.add_cuda(said["cuda"]["text"]))
        self.add_shared(artefact, program)

    def add_shared(self, artefact: str, program: pathlib.Path) -> None:
        files = loaded(program)
        folder = (program.parent.parent / "lib").resolve()
        carried = {soname for soname, file in files.items() if folder in file.resolve().parents}
        systems = {soname: own_file(soname) if soname in carried else file for soname, file in files.items()}
        packages = owners([str(file) for file in systems.values()])
        by_name = {}
        for soname, system in systems.items():
            package = packages[str(system)]
            by_name[soname] = self.add_library(package)
            if soname not in carried:
                continue
            if not filecmp.cmp(files[soname], system, shallow=False):
                raise Refused(f"{files[soname]} is not the file of {package}\n    Try: build where all libraries come from Debian")
            self.relate(artefact, "CONTAINS", by_name[soname])
        for one, file in [(artefact, program), *((by_name[soname], file) for soname, file in files.items())]:
            for soname in needed(file):
                if soname in by_name:  # not the loader itself
                    self.relate(one, "DYNAMIC_LINK", by_name[soname])

    def text(self) -> str:
        packages = [package for _, package in sorted(self.packages.items())]
        relationships = [{"spdxElementId": one, "relationshipType": what, "relatedSpdxElement": other}
                         for one, what, other in sorted(self.relationships)]
        digest = hashlib.sha256(json.dumps([packages, relationships]).encode()).hexdigest()
        when = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
        document = {
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"windlass-{self.version}",
            "documentNamespace": f"https://spdx.org/spdxdocs/windlass-{self.version}-{digest}",
            "creationInfo": {
                "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", when),
                "creators": ["Organization: Windlass developers", f"Tool: make_sbom.py-{self.version}"],
            },
            "comment": "Versions of libraries are those of the build. The system supplies the libraries that a package links and does not contain.",
            "packages": packages,
            "hasExtractedLicensingInfos": [{"licenseId": reference, "name": name, "extractedText": text}
                                           for reference, (name, text) in sorted(self.texts.items())],
            "relationships": relationships,
        }
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Lists the libraries of packages as an SPDX document.")
    for flag in ("--version", "--to"):
        parser.add_argument(flag, required=True)
    kinds = ("deb", "archive", "wheel")
    for kind in kinds:
        parser.add_argument(f"--{kind}", nargs=2, metavar=("FILE", "PROGRAM"), type=pathlib.Path)
    given = vars(parser.parse_args())
    document = Document(given["version"])
    try:
        for kind in kinds:
            if given[kind]:
                document.add_artefact(kind, *given[kind])
    except Refused as refused:
        sys.exit(f"make_sbom: {refused}")
    pathlib.Path(given["to"]).write_text(document.text(), encoding="utf-8")


if __name__ == "__main__":
    main()
