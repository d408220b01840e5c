#!/bin/sh
# changed_parts.sh: tries tools/changed-parts on a small repository: which parts of the project each change names.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
put() {
    mkdir -p "$(dirname "$1")"
    printf '%s\n' "$2" >>"$1"
}
mkdir tools
cp "$root/tools/changed-parts" tools/
put src/op/add.cpp "int a;"
put src/base/file.h "int b;"
put tests/unit/run/engine_fixture.h "int c;"
put tests/unit/run/engine_fixture.cpp '#include "tests/unit/run/engine_fixture.h"'
put tests/train/train_fixture.h '#include "tests/unit/run/engine_fixture.h"'
put tests/cli/resume_test.cpp '#include "tests/train/train_fixture.h"'
put bench/a_bench.cpp "int d;"
put docs/dev/testing.md "text"
put docs/results/predicted-and-measured.md "<!-- printed by: zo2 --check -->"
put tests/golden/a.json "{}"
put presets/machines/a.machine "x"
put presets/a.json "{}"
put python/a.py ""
put new_thing/file "x"
git init -q .
git add .
commit() { git -c user.name=t -c user.email=t@t -c commit.gpgsign=false commit -q "$@"; }
commit -m first

failed=0
# Changes the file and expects these parts; then takes the change back.
expect() {
    put "$1" "more"
    got=$(tools/changed-parts HEAD | tr '\n' ' ')
    if [ "$got" != "$2 " ]; then
        echo "$1: expected '$2', got '$got'"
        failed=1
    fi
    git checkout -q . && git clean -qfd
}
expect src/op/add.cpp "op"
expect src/op/new.cpp "op"
expect src/base/file.h "all"
expect src/app/main.cpp "app"
expect tests/unit/run/engine_fixture.cpp "tests/cli tests/train tests/unit/run"
expect tests/cli/resume_test.cpp "tests/cli"
expect tests/simt/block.cpp "tests/simt"
expect tests/golden/a.json "all"
expect tests/main.cpp "all"
expect bench/a_bench.cpp "bench"
expect docs/dev/testing.md "docs"
expect docs/results/predicted-and-measured.md "docs pages"
expect presets/machines/a.machine "schedule"
expect presets/a.json "config"
expect python/a.py "python"
expect CITATION.cff "docs"
expect mkdocs.yml "docs"
expect tools/trace "tools"
expect src/op/CMakeLists.txt "all"
expect new_thing/file "all"

# What is committed counts, and so does a file that is gone.
git rm -q src/op/add.cpp
commit -m second
[ "$(tools/changed-parts HEAD~1)" = op ] || { echo "a removed file is missed"; failed=1; }
[ -z "$(tools/changed-parts HEAD)" ] || { echo "without a change there are parts"; failed=1; }
if tools/changed-parts nowhere 2>message; then echo "a revision that does not exist passed"; failed=1; fi
grep -q 'Try: ' message || failed=1
exit $failed
