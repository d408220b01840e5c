#!/bin/sh
# install.sh BUILD: what `cmake --install` puts into a folder: the program, whole and without a path of this machine; a man
# page for each verb; pages whose links hold; examples that it reads.
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
cmake --install "$build" --prefix "$work/local" --strip >"$work/log"
cd "$work/local"

found=$(find . -type f ! -path './share/doc/windlass/*' ! -path './share/man/man1/windlass-*.1.gz' | sort | tr '\n' ' ')
[ "$found" = "./bin/windlass ./share/bash-completion/completions/windlass ./share/fish/vendor_completions.d/windlass.fish \
./share/man/man1/windlass.1.gz ./share/zsh/site-functions/_windlass " ] || fail "outside of share/doc/windlass: $found"
bin/windlass help | sed '1,/^Verbs:/d; /^$/,$d' | awk '/^  [a-z]/ { print $1 }' >"$work/verbs"
[ "$(wc -l <"$work/verbs")" -ge 12 ] || fail "windlass help has $(wc -l <"$work/verbs") verbs"
while read -r verb; do
    gzip -dc "share/man/man1/windlass-$verb.1.gz" | grep -qi "^\.TH \"windlass.*$verb\"" || fail "there is no man page of $verb"
done <"$work/verbs"
[ "$(find share/man -name 'windlass-*' | wc -l)" = "$(wc -l <"$work/verbs")" ] || fail "there are man pages of no verb"
bash -n share/bash-completion/completions/windlass || fail "the completion for bash is no script"
bin/windlass version | grep -q '^windlass [0-9]' || fail "the program does not tell its version"
# A path of the machine that built it would make two builds differ, and names folders that no reader has.
for path in "$root/" "$build/"; do
    ! grep -qaF "$path" bin/windlass || fail "bin/windlass holds the path $path $(strings bin/windlass | grep -cF "$path") times"
done

cd share/doc/windlass
[ "$(ls | tr '\n' ' ')" = "CHANGELOG.md LICENSE examples format guide results security.md windlass.schema.json " ] || fail "share/doc/windlass has $(ls | tr '\n' ' ')"
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
"$work/local/bin/windlass" inspect examples/quickstart/model >/dev/null || fail "it does not read the model of examples"
[ "$(find examples -mindepth 1 -maxdepth 1 | sort | tr '\n' ' ')" = "examples/chat examples/plans examples/quickstart " ] ||
    fail "examples has $(find examples -mindepth 1 -maxdepth 1)"
for run in examples/*/run.yaml; do
    for path in $(grep -o 'examples/[a-z0-9_./]*' "$run"); do
        [ -e "$path" ] || fail "$run names $path"
    done
done

# As Debian wants it.
cmake --install "$build" --prefix "$work/usr" --component manual >"$work/log"
cd "$work/usr/share"
grep -q 'Apache License, version 2.0' doc/windlass/copyright || fail "a package would have no copyright"
gzip -dc doc/windlass/changelog.gz | grep -q '^## ' || fail "a package would have no changelog"
[ -e zsh/vendor-completions/_windlass ] || fail "a package would complete nothing in zsh"
exit $failed
