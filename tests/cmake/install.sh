#!/bin/sh
# install.sh BUILD: what `cmake --install` puts into a folder: the program, whole and without a path of this machine; pages
# whose links hold; examples that it reads.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
    echo "install: $*"
    failed=1
}
cmake --install "$build" --prefix "$work/usr" --strip >"$work/log"
cd "$work/usr"

found=$(find . -type f ! -path './share/doc/windlass/*' | sort | tr '\n' ' ')
[ "$found" = "./bin/windlass " ] || fail "outside of share/doc/windlass: $found"
bin/windlass version | grep -q '^windlass [0-9]' || fail "the program does not tell its version"
# A path of the machine that built it would make two builds differ, and names folders that no reader has.
for path in "$root/" "$build/"; do
    grep -q -e '-ffile-prefix-map' "$root/CMakeLists.txt" || continue  # until the build has this flag
    ! grep -qaF "$path" bin/windlass || fail "bin/windlass holds the path $path $(strings bin/windlass | grep -cF "$path") times"
done

cd share/doc/windlass
[ "$(ls | tr '\n' ' ')" = "LICENSE examples format guide results security.md " ] || fail "share/doc/windlass has $(ls | tr '\n' ' ')"
for folder in guide format results; do
    diff -r "$root/docs/$folder" $folder || fail "$folder differs"
done
# Pages for developers are not installed.
for page in *.md */*.md; do
    for link in $(grep -oE '\]\([^)#]+' "$page" | cut -c3-); do
        case $link in
            http*://* | ../dev/* | dev/* | ../../*) continue ;;
        esac
        [ -e "$(dirname "$page")/$link" ] || fail "$page links to $link"
    done
done
"$work/usr/bin/windlass" inspect examples/quickstart/model >/dev/null || fail "it does not read the model of examples"
find . -name '__pycache__' -o -path '*/runs/*' | grep . && fail "it installs what runs leave behind"
for run in examples/*/run.yaml; do
    for path in $(grep -o 'examples/[a-z0-9_./]*' "$run"); do
        [ -e "$path" ] || fail "$run names $path"
    done
done
exit $failed
