"""tools/make_sbom.py: the libraries of a built program, and of small ones with a fault each. Arguments: the repository, the build."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(2)).resolve()
PROGRAM = BUILD / "windlass"
SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
LICENCES = {
    "fmt": "MIT",
    "nlohmann-json": "MIT",
    "Boost": "BSL-1.0",
    "Chart.js": "MIT",
    "yaml-cpp": "MIT",
    "CLI11": "BSD-3-Clause",
    "Random123": "BSD-3-Clause",
    "zlib": "Zlib",
    "liblzma": "public domain",
    "libcsv": "LGPL-2.1-or-later",
    "libstdc++, libgcc, libgomp": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later",
}


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def packages_of_loader(program):
    """Packages of the libraries that the loader finds, by dpkg's lists alone."""
    found = set()
    for line in output("ldd", program).splitlines():
        if "=>" in line:
            path = line.split()[2]
            said = subprocess.run(["dpkg-query", "-S", path, f"/usr{path}", path.removeprefix("/usr")], capture_output=True, text=True).stdout
            found.add(said.split(":")[0])
    return found


def packages_of_headers():
    """Packages of the headers that the compiler has read for the program, and the source package of each."""
    headers = set()
    for block in output("ninja", "-C", BUILD, "-t", "deps").split("\n\n"):
        target, _, lines = block.partition("\n")
        if re.match(r"CMakeFiles/windlass[a-z_]*\.dir/", target) and "_sanitized.dir" not in target:
            headers.update(os.path.realpath(line.strip()) for line in lines.splitlines() if line.startswith("    /usr/"))
    said = subprocess.run(["dpkg-query", "-S", *sorted(headers)], capture_output=True, text=True).stdout
    packages = {line.split(":")[0] for line in said.splitlines()}
    return {package: output("dpkg-query", "-W", "-f", "${source:Package}\n", package).split()[0] for package in packages}


@unittest.skipUnless(shutil.which("dpkg-query"), "packages are made on Debian")
class Sbom(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "package").write_bytes(b"packed")

    def run_on(self, program, kind="deb"):
        to = self.folder / "sbom.json"
        said = subprocess.run([sys.executable, SOURCE / "tools/make_sbom.py", "--version", "1.2.3", "--to", to, f"--{kind}", self.folder / "package", program],
                              capture_output=True, text=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
        return said, to

    def document(self, program, kind="deb"):
        said, to = self.run_on(program, kind)
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(to.read_text(encoding="utf-8"))

    def small_program(self, *libraries, licences=LICENCES):
        """A program that is linked with these libraries, and says these licences."""
        said = {"commit": "1234", "compiler": output("c++", "-dumpfullversion").strip(), "cuda": {"text": ""},
                "libraries": [{"name": name, "licence": licence} for name, licence in licences.items()]}
        (self.folder / "bin").mkdir(exist_ok=True)
        program = self.folder / "bin/windlass"
        text = f"#include <cstdio>\nint main() {{ std::puts(R\"({json.dumps(said)})\"); }}\n"
        subprocess.run(["c++", "-x", "c++", "-", "-o", program, "-Wl,--no-as-needed,--disable-new-dtags,-rpath,$ORIGIN/../lib",
                        *(f"-l:{library}" for library in libraries)], input=text, text=True, check=True)
        return program

    def related(self, document, what, one="SPDXRef-deb"):
        names = {package["SPDXID"]: package["name"] for package in document["packages"]}
        return {names[each["relatedSpdxElement"]] for each in document["relationships"]
                if each["relationshipType"] == what and one in (None, each["spdxElementId"])}

    def assertRefused(self, program, words, kind="deb"):
        said, to = self.run_on(program, kind)
        self.assertEqual(said.returncode, 1, said.stdout)
        for word in words:
            self.assertIn(word, said.stderr)
        self.assertIn("Try: ", said.stderr)
        self.assertFalse(to.exists())

    def test_names_what_the_built_program_loads_and_nothing_else(self):
        document = self.document(PROGRAM)
        self.assertEqual(self.related(document, "DYNAMIC_LINK", None), packages_of_loader(PROGRAM))
        names = {package["name"] for package in document["packages"]}
        self.assertEqual(names, self.related(document, "DYNAMIC_LINK", None) | self.related(document, "STATIC_LINK") | {"windlass"})
        self.assertEqual(self.related(document, "CONTAINS"), set())

    @unittest.skipUnless(shutil.which("ninja") and (BUILD / "build.ninja").exists(), "only ninja says what the compiler has read")
    def test_names_each_library_whose_headers_the_program_was_compiled_with(self):
        document = self.document(PROGRAM)
        read = packages_of_headers()
        self.assertIn("nlohmann-json3-dev", read)
        sources = {package["sourceInfo"].split()[3] for package in document["packages"] if package["supplier"] == "Organization: Debian"}
        self.assertEqual(set(read.values()) - sources, {"linux"})  # the kernel's own interface
        no_headers = {"libcudart_static", "libjs-chart.js"}  # the second is the page's script
        self.assertLessEqual(self.related(document, "STATIC_LINK") - no_headers, set(read))

    def test_says_version_licence_and_source_of_each(self):
        document = self.document(self.small_program("libz.so.1", "libcsv.so.3"))
        by_name = {package["name"]: package for package in document["packages"]}
        version, source, source_version = output("dpkg-query", "-W", "-f", "${Version} ${source:Package} ${source:Version}", "zlib1g").split()
        self.assertEqual(by_name["zlib1g"]["versionInfo"], version)
        self.assertEqual(by_name["zlib1g"]["licenseDeclared"], "Zlib")
        self.assertEqual(by_name["zlib1g"]["downloadLocation"], f"https://snapshot.debian.org/package/{source}/{source_version.replace(':', '%3A')}/")
        self.assertEqual(by_name["libcsv3"]["licenseDeclared"], "LGPL-2.1-or-later")
        self.assertLessEqual({"zlib1g", "libcsv3", "libc6", "libstdc++6"}, self.related(document, "DYNAMIC_LINK"))
        self.assertEqual(by_name["windlass"]["checksums"][0]["checksumValue"], "88cb8a087b6e8cebfc9ae5602f5a2159a6bcf923e7f2c56809bcda6cad1727a7")

    def test_a_licence_without_a_name_of_spdx_has_its_text(self):
        document = self.document(self.small_program("liblzma.so.5"))
        (xz,) = (package for package in document["packages"] if package["name"] == "liblzma5")
        (text,) = document["hasExtractedLicensingInfos"]
        self.assertEqual(xz["licenseDeclared"], text["licenseId"])
        self.assertEqual(text["extractedText"], pathlib.Path("/usr/share/doc/liblzma5/copyright").read_text(encoding="utf-8"))

    def test_two_are_the_same_bytes_with_the_given_time(self):
        program = self.small_program("libz.so.1")
        document = self.document(program)
        first = self.run_on(program)[1].read_bytes()
        self.assertEqual(self.run_on(program)[1].read_bytes(), first)
        self.assertEqual(document["creationInfo"]["created"], "2023-11-14T22:13:20Z")

    def test_libraries_in_lib_come_with_the_package_unchanged(self):
        program = self.small_program("libz.so.1", "liblzma.so.5")
        carried = self.folder / "lib/libz.so.1"
        carried.parent.mkdir()
        system = next(line.split()[2] for line in output("ldd", program).splitlines() if "libz.so.1" in line)
        shutil.copy(system, carried)
        self.assertEqual(self.related(self.document(program, "archive"), "CONTAINS", "SPDXRef-archive"), {"zlib1g"})
        (self.folder / "sbom.json").unlink()
        with carried.open("ab") as file:
            file.write(b"\0")
        self.assertRefused(program, ["lib/libz.so.1", "zlib1g"], "archive")

    def test_an_unlisted_library_is_an_error(self):
        self.assertRefused(self.small_program("libz.so.1", "libcrypt.so.1"), ["libcrypt1", "not a known library"])
        self.assertRefused(self.small_program("libz.so.1", licences={k: v for k, v in LICENCES.items() if k != "zlib"}), ["does not name zlib"])

    def test_a_licence_that_is_not_allowed_is_an_error(self):
        self.assertRefused(self.small_program("libz.so.1", licences={**LICENCES, "zlib": "AGPL-3.0-only"}), ["zlib1g", "AGPL-3.0-only"])
        self.assertRefused(self.small_program("libz.so.1", licences={**LICENCES, "zlib": "Zlib AND SSPL-1.0"}), ["zlib1g", "SSPL-1.0"])
        self.document(self.small_program("libz.so.1", licences={**LICENCES, "zlib": "AGPL-3.0-only OR Zlib"}))

    def test_libcsv_s_licence_is_allowed_for_shared_libraries_only(self):
        self.assertRefused(self.small_program("libz.so.1", licences={**LICENCES, "fmt": "LGPL-2.1-or-later"}), ["libfmt-dev", "inside of the program"])


if __name__ == "__main__":
    unittest.main()
