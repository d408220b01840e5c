#!/bin/sh
# sign.sh: signs packages with a key made for this test, and verifies them with the commands of docs/guide/install.md. A byte
# that is changed, another key and another namespace must all be found.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
    echo "sign: $*"
    failed=1
}
command -v ssh-keygen >/dev/null || {
    echo "sign: skipped, there is no ssh-keygen"
    exit 0
}
cd "$work"
mkdir dist
ssh-keygen -q -t ed25519 -N '' -C test -f key
ssh-keygen -q -t ed25519 -N '' -C other -f other
printf 'windlass %s\n' "$(cat key.pub)" >dist/allowed_signers
echo first >dist/windlass_1_amd64.deb
(cd dist && sha256sum windlass_1_amd64.deb >SHA256SUMS)
"$root/tools/sign-packages" key dist >log || fail "$(cat log)"

# The commands that a reader of the guide types.
sed -n '/^## Signature/,/^## /{/^ssh-keygen/p}' "$root/docs/guide/install.md" >verify
grep -q -e '-Y verify' verify || fail "docs/guide/install.md has no command that verifies"
verified() { (cd dist && sh -eu ../verify) >log 2>&1; }

verified || fail "a good signature is refused: $(cat log)"
cp dist/SHA256SUMS sums
sed 's/^./x/' sums >dist/SHA256SUMS
! verified || fail "a changed byte is not found"
cp sums dist/SHA256SUMS
verified || fail "the same bytes are refused the second time"
printf 'windlass %s\n' "$(cat other.pub)" >dist/allowed_signers
! verified || fail "a signature with another key is accepted"
printf 'windlass %s\n' "$(cat key.pub)" >dist/allowed_signers
ssh-keygen -q -Y sign -f key -n file <dist/SHA256SUMS >dist/SHA256SUMS.sig 2>log
! verified || fail "a signature for another purpose is accepted"

# What is not what SHA256SUMS says is not signed, and an old signature does not stay.
"$root/tools/sign-packages" key dist >log
verified || fail "signed twice, it is refused: $(cat log)"
echo second >dist/windlass_1_amd64.deb
! "$root/tools/sign-packages" key dist >log 2>&1 || fail "a file that SHA256SUMS does not know is signed"
! "$root/tools/sign-packages" none dist >log 2>&1 || fail "no key signs"
grep -q 'Try: ' log || fail "without a key it says: $(cat log)"

# A folder with anything else in it is left alone by tools/package, which replaces what it made before.
echo mine >dist/thesis.txt
! "$root/tools/package" --to "$PWD/dist" >log 2>&1 || fail "packages go into a folder that has other files"
grep -q 'thesis.txt' log && [ -e dist/thesis.txt ] && [ -e dist/SHA256SUMS ] || fail "of a folder with other files it says: $(cat log)"
exit $failed
