#!/bin/sh
# site.sh: builds the pages as a site without a warning, and finds each fault that is planted into a copy of them.
# Skipped (77) without MkDocs; continuous integration must have it.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
command -v mkdocs >/dev/null || {
    echo "site: there is no mkdocs. Try: tools/install-packages --tests"
    [ "${CI:-}" != true ] || exit 1
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
    echo "site: $*"
    failed=1
}

"$root/tools/site" --to "$work/site" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
grep -q '](guide/quickstart.md): ' "$work/site/llms.txt" || fail "llms.txt does not name the quickstart"
[ -s "$work/site/guide/quickstart.md" ] || fail "llms.txt names a page that is not there"
grep -q 'href="repository/ARCHITECTURE.html"' "$work/site/index.html" || fail "a page outside docs/ is not linked"

# A copy with one fault of each kind.
mkdir "$work/copy"
cd "$root"
find . \( -path ./build -o -path ./.git -o -path ./shared \) -prune -o \( -name '*.md' -o -name LICENSE -o -name mkdocs.yml \
    -o -path './tools/site*' -o -path './docs/*' \) -type f -exec cp --parents -t "$work/copy" {} +
cd "$work/copy"
printf '\n[a](gpu.md#no-such-heading)\n\n![b](https://example.org/b.png)\n\ntext:\n- c\n' >>docs/guide/limits.md
echo '# Lost' >docs/guide/lost.md
if tools/site --to "$work/faults" >"$work/log" 2>&1; then fail "no fault was found"; fi
for fault in 'limits.html: gpu.html#no-such-heading has no such anchor' 'limits.html: loads from another host' \
    'limits.html: a list or table needs an empty line' 'lost.md: mkdocs.yml does not have it in nav'; do
    grep -q "$fault" "$work/log" || fail "not found: $fault: $(cat "$work/log")"
done
printf '\n[a](nowhere.md)\n' >>docs/guide/limits.md
if tools/site --to "$work/faults" >"$work/log" 2>&1; then fail "a link that leads nowhere passed"; fi
mkdir "$work/full"
touch "$work/full/file"
if tools/site --to "$work/full" >"$work/log" 2>&1; then fail "a folder of other files was replaced"; fi
[ -e "$work/full/file" ] || fail "a file of others is gone"
exit $failed
