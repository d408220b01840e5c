#!/bin/sh
# Runs our training step and plain PyTorch on the same shapes, one after the other, and prints both.
#
#   bench/peers/run_peers.sh [gpt2-124m] [llama-1.1b] [mezo]        default: all of them
#
# mezo: two-sided zeroth order on llama-1.1b, 4 x 256 tokens in bf16.
#
# PYTHON     the interpreter that has torch (python3)
# BUILD      folder of our programs (build/release)
# PEERS_ENV  tuned (default) or plain: whether glibc is told to keep memory, see pytorch_adamw.py
# Let nothing else run on the machine meanwhile; the whole takes some minutes.
set -eu
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
BUILD=${BUILD:-build/release}
PEERS_ENV=${PEERS_ENV:-tuned}

if [ ! -x "$BUILD/step_bench" ]; then
    echo "run_peers: $BUILD/step_bench is missing. Try: cmake --preset release && cmake --build --preset release" >&2
    exit 1
fi
if ! "$PYTHON" -c 'import torch' 2>/dev/null; then
    echo "run_peers: $PYTHON cannot import torch. Try: PYTHON=<an interpreter that has it>" >&2
    exit 1
fi

peer() {
    environment="OMP_NUM_THREADS=$(nproc) OMP_WAIT_POLICY=PASSIVE"
    if grep -q avx512bw /proc/cpuinfo; then
        environment="$environment OPENBLAS_CORETYPE=SKYLAKEX ATEN_CPU_CAPABILITY=avx512"
    fi
    if [ "$PEERS_ENV" = tuned ]; then
        malloc=glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.arena_max=1
        malloc=$malloc:glibc.malloc.trim_threshold=30000000000:glibc.malloc.top_pad=268435456
        environment="$environment GLIBC_TUNABLES=$malloc"
    fi
    # Unquoted on purpose: each word is one assignment.
    env $environment "$PYTHON" bench/peers/"$@"
}

echo "$(date -u +%Y-%m-%dT%H:%MZ) $(uname -rm), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
[ $# -gt 0 ] || set -- gpt2-124m llama-1.1b mezo
for shape; do
    case $shape in
        gpt2-124m) options="--precision autocast --warmup 3" ;;
        llama-1.1b) options="--precision bf16" ;;
        *) options= ;;
    esac
    echo
    echo "== $shape"
    if [ "$shape" = mezo ]; then
        "$BUILD/step_bench" --store "$BUILD" --shape llama-1.1b --method zeroth_order --micro 1 --rows 4 --length 256
        peer pytorch_mezo.py
        continue
    fi
    "$BUILD/step_bench" --store "$BUILD" --shape "$shape"
    peer pytorch_adamw.py --shape "$shape" $options
done
