# debian-root.sh: bare Debian systems to try things in. bare-root and try-package read this file. Needs root, and mmdebstrap.
# shellcheck shell=sh

# make_root SUITE FOLDER: a bare Debian in this folder. Packages come from the mirrors that this machine's own apt takes
# Debian's from, in either of apt's two forms, with its suite replaced; sources of anything else are left out.
make_root() {
    own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    parts=$(mktemp -d)
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
        grep -E "^deb (\[[^]]*\] )?[^ ]+ $own(-updates|-security)? " | sed "s/ $own/ $1/" >"$parts/debian.list" || true
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] || continue
        awk -v RS= -v ORS='\n\n' -v own="$own" '
            match($0, /(^|\n)Suites:[^\n]*/) {
                count = split(substr($0, RSTART, RLENGTH), words, /[ \t\n]+/)
                for (i = 1; i <= count; ++i)
                    if (words[i] != "" && words[i] != "Suites:" && words[i] !~ "^" own "(-updates|-security)?$") next
                print
            }' "$file" | sed "/^Suites:/s/$own/$1/g"
    done >"$parts/debian.sources"
    apt-config dump | grep -E '^Acquire::(Check-|Retries|https?::)' >"$parts/settings" || true
    files=$(find "$parts" -name 'debian.*' -type f -size +0)
    [ -n "$own" ] && [ -n "$files" ] ||
        refuse "this machine's apt has no source of Debian's own release" "add one under /etc/apt/sources.list.d"
    chmod 755 "$2"
    # shellcheck disable=SC2086  # a list of files
    mmdebstrap --quiet --variant=minbase --aptopt="$parts/settings" "$1" "$2" $files
    rm -rf "$parts"
}

packages_in() { chroot "$1" dpkg-query -W -f '.' | wc -c; }
megabytes_in() { du -sm --one-file-system "$1" | cut -f1; }

# inside ROOT FOLDER CUDA words...: runs a command in this folder inside, with mounts and processes of its own, which end with
# it, and nothing of this environment. CUDA is a toolkit to mount in /usr/local/cuda, or empty.
inside() {
    # shellcheck disable=SC2016  # the inner shell expands it
    unshare --mount --pid --fork --kill-child sh -euc '
        root=$1
        folder=$2
        cuda=$3
        shift 3
        mount -t proc proc "$root/proc"
        mount -t sysfs -o ro sysfs "$root/sys"
        mount -t tmpfs tmpfs "$root/dev/shm"
        mkdir -p "$root/dev/pts"
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
        ln -sf pts/ptmx "$root/dev/ptmx"
        if [ -n "$cuda" ]; then
            mkdir -p "$root/usr/local/cuda"
            mount -o bind,ro "$cuda" "$root/usr/local/cuda"
        fi
        exec chroot "$root" env -i HOME=/root LANG=C.UTF-8 \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            ${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
            sh -euc "folder=\$1; shift; cd \"\$folder\" && exec \"\$@\"" sh "$folder" "$@"' sh "$@"
}
