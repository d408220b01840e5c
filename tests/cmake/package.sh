#!/bin/sh
# package.sh BUILD: what tools/package makes of a build: the same bytes twice, licences of all that comes along, and a
# program that runs where it is unpacked, on its own libraries. tools/try-package tries the packages in bare systems.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
    echo "package: $*"
    failed=1
}
. /etc/os-release
[ "${ID:-} ${VERSION_ID:-}" = "debian 12" ] || {
    echo "package: skipped, packages are made on Debian 12"
    exit 0
}
"$root/tools/package" --wheel --build "$build" --to "$work/first" >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
"$root/tools/package" --wheel --build "$build" --to "$work/second" >"$work/log" 2>&1
cmp "$work/first/SHA256SUMS" "$work/second/SHA256SUMS" || fail "the same build makes other packages the second time"
(cd "$work/first" && sha256sum --quiet --check SHA256SUMS) || fail "SHA256SUMS has other sums"
[ "$(wc -l <"$work/first/SHA256SUMS")" = 4 ] || fail "there are $(wc -l <"$work/first/SHA256SUMS") files, not 3 packages and the list of libraries"

mkdir "$work/a b"
tar -xJf "$work/first"/windlass-*.tar.xz -C "$work/a b"
mv "$work/a b"/windlass-* "$work/a b/w"
cd "$work/a b/w"
[ "$(bin/windlass version)" = "$("$build/windlass" version)" ] || fail "the program of the archive tells another version"
ldd bin/windlass >"$work/ldd"
for library in lib/*.so.[0-9]; do
    grep -qF "$PWD/bin/../$library " "$work/ldd" || fail "the program does not load $library"
done
for library in $(awk '/=>/ { print $1 }' "$work/ldd"); do
    case $library in
        libc.so.6 | libm.so.6 | libstdc++.so.6 | libgcc_s.so.1) continue ;;  # the system's
    esac
    [ -e "lib/$library" ] || fail "$library does not come along"
done
# Of the C++ runtimes, the program has its own; oneDNN uses the system's.
! readelf -d bin/windlass | grep -E 'NEEDED.*lib(stdc|fmt|yaml)' || fail "the program needs these"
newest=$(objdump -T bin/windlass lib/* | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
[ "$newest" = GLIBC_2.34 ] || fail "needs $newest, of a newer glibc than the guide says"
texts=share/doc/windlass/libraries
[ "$(find $texts -name '*.txt' | wc -l)" = "$(wc -l <$texts/VERSIONS)" ] || fail "VERSIONS names other packages than have licences"
[ "$(wc -l <$texts/VERSIONS)" -ge "$(find lib -type f | wc -l)" ] || fail "a library has no licence"
[ -s $texts/LGPL-2.1 ] || fail "libcsv's licence is not there"

# The list of libraries names, of the archive, the files of lib/ and the packages whose licences it has.
cat >"$work/listed.py" <<'END'
import json, sys
document = json.load(open(sys.argv[1], encoding="utf-8"))
names = {package["SPDXID"]: package["name"] for package in document["packages"]}
for each in document["relationships"]:
    if each["spdxElementId"] == sys.argv[2] and each["relationshipType"] in sys.argv[3:]:
        print(names[each["relatedSpdxElement"]])
END
listed() { python3 "$work/listed.py" "$work/first"/windlass_*.spdx.json "$@" | sort -u; }
listed SPDXRef-archive CONTAINS STATIC_LINK | grep -v libcudart_static >"$work/listed"
awk '{ sub(/:.*/, "", $2); print $2 }' $texts/VERSIONS | sort -u | diff - "$work/listed" || fail "the list of libraries differs from VERSIONS (<)"
[ "$(listed SPDXRef-archive CONTAINS | wc -l)" = "$(find lib -type f | wc -l)" ] || fail "the list of libraries differs from lib/"
[ "$(listed SPDXRef-wheel CONTAINS STATIC_LINK)" = "$(listed SPDXRef-archive CONTAINS STATIC_LINK)" ] || fail "the wheel's list of libraries differs from the archive's"
for package in "$work/first"/*.deb "$work/first"/*.xz "$work/first"/*.whl; do
    grep -q "$(sha256sum "$package" | cut -c1-64)" "$work/first"/*.spdx.json || fail "the list of libraries has another sum of $(basename "$package")"
done

dpkg-deb -f "$work/first"/*.deb Depends >"$work/depends"
for package in libdnnl2 libcsv3 libc6; do
    grep -q "$package" "$work/depends" || fail "the .deb does not depend on $package"
done
exit $failed
