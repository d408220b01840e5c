#!/bin/sh
# find_cuda.sh: what cmake/find_cuda.cmake says of compilers of every kind, and which architectures it takes for which cards.
# Compilers and nvidia-smi are scripts made here.
set -eu
module=$(cd "$(dirname "$0")/../.." && pwd)/cmake/find_cuda.cmake
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >ask.cmake <<END
cmake_minimum_required(VERSION 3.21)
include($module)
message("\${WINDLASS_CUDA_LINE}.")
END

# nvcc FOLDER VERSION [ERROR]: a compiler of that version in FOLDER/bin, which compiles, or fails with ERROR.
nvcc() {
    mkdir -p "$1/bin"
    cat >"$1/bin/nvcc" <<END
#!/bin/sh
if [ "\$1" = --version ]; then
    echo "Cuda compilation tools, release $2, V$2.1"
elif [ -n "${3:-}" ]; then
    echo "trial.cu(1): ${3:-}" >&2
    exit 2
fi
END
    chmod +x "$1/bin/nvcc"
}
nvcc old 12.4
nvcc good 12.8
nvcc newer 99.9
nvcc broken 99.10 "fatal error: cublasLt.h: No such file or directory"
mkdir -p mute/bin smi
printf '#!/bin/sh\necho hello\n' >mute/bin/nvcc
printf '#!/bin/sh\n[ -f %s/cards ] && cat %s/cards\n' "$work" "$work" >smi/nvidia-smi
chmod +x mute/bin/nvcc smi/nvidia-smi

# says WORDS cmake arguments...: the one line contains WORDS; environment comes from the caller.
says() {
    words=$1
    shift
    # shellcheck disable=SC2086  # none, or a list of assignments
    said=$(env -u CUDACXX PATH="$work/smi:$PATH" ${given:-} cmake "$@" -P ask.cmake 2>&1) || true
    case "$said" in
        *"$words"*) ;;
        *)
            printf 'find_cuda: %s\n    said     %s\n    expected %s\n' "${given:-} $*" "$said" "$words" >&2
            exit 1
            ;;
    esac
}
all="8.0, 8.6, 8.9, 9.0, 10.0, 12.0 and newer"

says "CUDA: built without, WINDLASS_CUDA is off" -DWINDLASS_CUDA=off
says "old/bin/nvcc is of CUDA 12.4, and 12.8 is the oldest that will do" -DWINDLASS_NVCC="$work/old/bin/nvcc"
says "mute/bin/nvcc does not say which version it is" -DWINDLASS_NVCC="$work/mute/bin/nvcc"
says "no/nvcc is not there" -DWINDLASS_NVCC="$work/no/nvcc"
says "does not compile a small program: trial.cu(1): fatal error: cublasLt.h: No such file" \
    -DWINDLASS_NVCC="$work/broken/bin/nvcc"
says "WINDLASS_CUDA is on, but" -DWINDLASS_CUDA=on -DWINDLASS_NVCC="$work/broken/bin/nvcc"
says "CUDA 12.8 ($work/good/bin/nvcc): kernels for cards of compute capability $all" -DWINDLASS_NVCC="$work/good/bin/nvcc"
given="CUDACXX=$work/good/bin/nvcc" says "CUDA 12.8 ($work/good/bin/nvcc)"
# The newest that will do; the newest of all does not compile.
given="CUDA_HOME=$work/good CUDA_PATH=$work/newer" says "CUDA 99.9 ($work/newer/bin/nvcc)"
given="CUDA_HOME=$work/broken CUDA_PATH=$work/newer" says "CUDA 99.9 ($work/newer/bin/nvcc)"

# Cards, and the kernels that run on them: with none that does, all.
for pair in "8.9=8.9" "8.7=8.6" "9.0=9.0" "10.3=10.0" "12.1=12.0 and newer" "7.5=$all" "11.0=$all"; do
    echo "${pair%%=*}" >cards
    says "compute capability ${pair#*=}" -DWINDLASS_NVCC="$work/good/bin/nvcc"
done
printf '8.6\n9.0\n8.6\n' >cards
says "compute capability 8.6, 9.0" -DWINDLASS_NVCC="$work/good/bin/nvcc"
says "compute capability 12.0 and newer" -DWINDLASS_NVCC="$work/good/bin/nvcc" -DWINDLASS_CUDA_TARGETS=120-virtual
says "compute capability 9.0." -DWINDLASS_NVCC="$work/good/bin/nvcc" -DWINDLASS_CUDA_TARGETS=90a
echo "find_cuda: passed"
