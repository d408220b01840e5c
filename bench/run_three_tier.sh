#!/bin/sh
# run_three_tier.sh: predicted beside measured, and how much of the bound is reached, over runs of all policies.
#
#   bench/run_three_tier.sh BUILD_DIR WORK_DIR [seconds are not limited: some ten minutes on two cores]
#
# The link and the disk are slowed to 2 GB/s and 0.3 GB/s, far below what machines have, so that nobody else's traffic
# shows. Run it where nothing else computes; `chrt -f 10 bench/run_three_tier.sh ...` keeps other processes away.
set -eu
build=$1
work=$2
model=$work/three-tier-model
[ -d "$model" ] || "$build/make_model" --family llama --dtype bf16 --hidden 512 --layers 10 --heads 8 --ffn 1536 \
    --vocab 4096 --out "$model" >/dev/null

bench() {
    echo "== $*"
    "$build/step_bench" --model "$model" --store "$work" --rows 2 --length 512 --steps 5 "$@" | grep -v '^[a-z_]*:'
}

slow="--link 2GB --disk 300MB"
apart="--device cpu:emulate --device-memory 256MiB"
bench --policy in_memory --micro 1,4
bench --policy three_tier --ram 250MiB --disk 300MB --micro 1,4,8
bench --policy host_stream $apart --ram 800MiB $slow --micro 1,4
bench --policy three_tier $apart --ram 300MiB $slow --micro 1,4,8,16
bench --policy three_tier $apart --ram 300MiB $slow --state s3 --micro 1,4
