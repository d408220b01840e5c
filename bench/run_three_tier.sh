#!/bin/sh
# run_three_tier.sh: predicted beside measured, and how much of the bound is reached, over runs of all policies.
#
#   bench/run_three_tier.sh BUILD_DIR WORK_DIR    a quarter of an hour on two cores
#
# The link and the disk are slowed to 2 GB/s and 0.3 GB/s, far below what machines have, so that nobody else's traffic
# shows. Run it where nothing else computes. A real-time priority would keep other processes away, but also the threads
# that read and write from the cores, while those that compute have the same one.
set -eu
build=$1
work=$2
model=$work/three-tier-model
[ -d "$model" ] || "$build/make_model" --family llama --dtype bf16 --hidden 384 --layers 8 --heads 6 --ffn 1152 \
    --vocab 4096 --positions 2048 --out "$model" >/dev/null

bench() {
    echo "== $*"
    "$build/step_bench" --model "$model" --store "$work" --rows 2 --steps 7 "$@"
}

slow="--link 2GB --disk 300MB"
apart="--device cpu:emulate --device-memory 160MiB"
bench --policy in_memory --length 512 --micro 1,4
for length in 32 512; do
    bench --policy three_tier --ram 160MiB --disk 300MB --length $length --micro 1,8
    bench --policy three_tier $apart --ram 220MiB $slow --length $length --micro 1,8
done
bench --policy host_stream $apart --ram 500MiB $slow --length 512 --micro 1,4
bench --policy three_tier $apart --ram 220MiB $slow --state int8 --length 512 --micro 1,4
# Far beyond the critical batch, once.
bench --policy three_tier $apart --ram 220MiB $slow --length 1024 --micro 12 --steps 3 --table
