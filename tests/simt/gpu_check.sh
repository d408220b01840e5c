#!/bin/sh
# gpu_check.sh: runs tools/gpu-check on the emulated device: that the script does what it says, with programs of this build.
#
#   gpu_check.sh BUILD
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in agree device_bench step_bench; do ln -s "$build/${name}_simt" "$work/$name"; done
ln -s "$build/unit_exact_simt" "$work/exact_cuda"
ln -s "$build/unit_engine_simt" "$work/engine_cuda"
# What says that there is a card, and which.
printf '#!/bin/sh\n[ $# -eq 0 ] || echo "Emulated, 13.0, 16384 MiB"\n' >"$work/nvidia-smi"
chmod +x "$work/nvidia-smi"
cd "$root"
check() { PATH=$work:$PATH OUT=$work GPU_CHECK_SMALL=yes GPU_CHECK_SECONDS=1800 tools/gpu-check "$work" "$@"; }

check placements bench steps more_steps
grep -q '^## steps: passed' "$work"/emulated-*.md
grep -q '^## more_steps: passed' "$work"/emulated-*.md
# Programs that are not there fail, and the script says so.
rm "$work/device_bench"
if check bench; then
    echo "gpu_check.sh: a benchmark that is not there passed" >&2
    exit 1
fi
