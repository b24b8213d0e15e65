#!/bin/sh
# gpu.sh - builds Weir on a machine with an NVIDIA card and tries it there; within nine minutes.
#
# Usage: gpu.sh [--build FOLDER] [--out FOLDER] [--only PARTS]
#   --build FOLDER   where to build, or what was built before (used as it is if there is no
#                    compiler, or with WEIR_GPU_PREBUILT=1); default: build-gpu
#   --out FOLDER     tables (markdown, CSV) and logs; default: bench/tables/gpu
#   --only PARTS     of: build op suites sanitizer bench; default: all
# Environment:
#   WEIR_CUDA_ROOT       a toolkit, or a folder with wheels of one (see cmake/cuda_find.cmake)
#   WEIR_CUDA_LIBS       folders of NVRTC, cuBLASLt, cuDNN, separated by ':'
#   WEIR_GPU_PYTHON      interpreter that may have torch and jax (default: python3)
#   WEIR_GPU_SECONDS     for all of it (default: 530)
#   WEIR_PLUGINS         a folder with another libweir_cuda.so; that of the emulated card is one
#   WEIR_GPU_QUICK=1     the smallest networks and few rounds, to try the script itself
#
# Needs neither OpenBLAS nor SWIG. Every part has a time limit and ends with "part: N passed, N
# failed"; a part that is cut short or runs out of time counts as one more failure. A missing tool
# is named and left out. The last line is "N passed, N failed".
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
build="$root/build-gpu"
out="$root/bench/tables/gpu"
only="build op suites sanitizer bench"
while [ $# -gt 0 ]; do
    case $1 in
        --build) build=$2 ;;
        --out) out=$2 ;;
        --only) only=$2 ;;
        *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"; exit 2 ;;
    esac
    shift 2 || exit 2
done
mkdir -p "$build" "$out" || exit 1
build=$(CDPATH='' cd -- "$build" && pwd -P)
out=$(CDPATH='' cd -- "$out" && pwd -P)
python=${WEIR_GPU_PYTHON:-python3}
quick=${WEIR_GPU_QUICK:-}
cores=$(getconf _NPROCESSORS_ONLN)
begin=$(date +%s)
total=${WEIR_GPU_SECONDS:-530}

passed=0
failed=0
trap 'printf "%s passed, %s failed\n" "$passed" "$failed"' EXIT

say() {
    printf '== %s s: %s\n' "$(($(date +%s) - begin))" "$*"
}

has_part() {
    case " $only " in *" $1 "*) return 0 ;; esac
    return 1
}

# limit SECONDS [LATER]: the seconds of a part; less if only LATER seconds would be left; >= 1.
limit() {
    left=$((total - ($(date +%s) - begin) - ${2:-0}))
    [ "$left" -lt "$1" ] || left=$1
    [ "$left" -ge 1 ] || left=1
    echo "$left"
}

# count NAME CODE FILE...: adds up "name: N passed, N failed" of the files, shows what failed.
count() {
    name=$1 code=$2
    shift 2
    good=0 bad=0
    for file in "$@"; do
        numbers=$(sed -n 's/^[a-z_]*: \([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed$/\1 \2/p' \
            "$file" | tail -n 1)
        if [ -z "$numbers" ]; then
            echo "$name: broke off: $file"
            tail -n 3 "$file"
            bad=$((bad + 1))
        else
            good=$((good + ${numbers% *}))
            bad=$((bad + ${numbers#* }))
        fi
        grep -h -B 3 '^FAILED' "$file" | head -n 20
    done
    [ "$code" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
    passed=$((passed + good))
    failed=$((failed + bad))
    printf '%s: %s passed, %s failed\n' "$name" "$good" "$bad"
}

# tests NAME SECONDS PARTS PROGRAM [FILTER]: the program's cases on the card, in PARTS processes.
tests() {
    name=$1 seconds=$2 parts=$3 program=$4 filter=${5:-}
    rm -f "$out/$name".*.log
    i=1
    pids=
    while [ "$i" -le "$parts" ]; do
        WEIR_TEST_PART=$i/$parts timeout "$seconds" "$build/$program" ${filter:+"$filter"} \
            >"$out/$name.$i.log" 2>&1 &
        pids="$pids $!"
        i=$((i + 1))
    done
    worst=0
    for pid in $pids; do
        wait "$pid" || worst=1
    done
    count "$name" "$worst" "$out/$name".*.log
}

# table NAME SECONDS COMMAND...: one benchmark, with its output in NAME.log.
table() {
    name=$1 seconds=$2
    shift 2
    say "$name (at most $seconds s)"
    if timeout "$seconds" "$@" >"$out/$name.log" 2>&1; then
        passed=$((passed + 1))
        grep '^|' "$out/$name.log"
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        tail -n 5 "$out/$name.log"
    fi
}

# ---- the card and its libraries ----

if [ -z "${WEIR_CUDA_LIBS:-}${WEIR_PLUGINS:-}" ] && command -v "$python" >/dev/null 2>&1; then
    WEIR_CUDA_LIBS=$("$python" -c 'import glob, sys
print(":".join(sorted(f for p in sys.path if p for f in glob.glob(p + "/nvidia/*/lib"))))')
    export WEIR_CUDA_LIBS
fi
if command -v nvidia-smi >/dev/null 2>&1; then
    nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv
else
    echo "nvidia-smi was not found"
fi

# ---- build ----

if has_part build && [ -z "${WEIR_GPU_PREBUILT:-}" ] && command -v cmake >/dev/null 2>&1 &&
    command -v "${CC:-cc}" >/dev/null 2>&1; then
    say "building"
    seconds=$(limit 200 300)
    # shellcheck disable=SC2086
    if timeout "$seconds" cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DWEIR_CUDA=ON \
        -DWEIR_CUDA_FLAGS=-lineinfo \
        -DWEIR_PYTHON=OFF -DWEIR_ONEDNN=OFF \
        -DWEIR_JANSSON=OFF ${WEIR_CMAKE_OPTIONS:-} >"$out/build.log" 2>&1 &&
        timeout "$seconds" cmake --build "$build" --parallel "$cores" --target weir_cuda weir_tool \
            test_op test_graph test_model test_device >>"$out/build.log" 2>&1; then
        passed=$((passed + 1))
    else
        tail -n 20 "$out/build.log"
        echo "FAILED build: see $out/build.log"
        failed=$((failed + 1))
    fi
else
    echo "nothing is built: using $build as it is"
fi
if [ ! -x "$build/weir" ]; then
    echo "FAILED: there is no $build/weir"
    failed=$((failed + 1))
    exit 1
fi
export WEIR_TEST_DEVICE=cuda OMP_WAIT_POLICY=passive WEIR_THREADS=2
if ! "$build/weir" info --device cuda >"$out/info.txt" 2>&1; then
    cat "$out/info.txt"
    echo "FAILED: no card can be used"
    failed=$((failed + 1))
    exit 1
fi
cat "$out/info.txt"

# ---- operations, graphs, budgets ----

parts=$((cores > 12 ? 12 : cores))
narrow=${quick:+sigmoid/(3,5)}
if has_part op; then
    say "operations, the card against the CPU"
    tests op_peer "$(limit 60 250)" "$parts" test_op "${narrow:+$narrow: }peer"
    cat "$out"/op_peer.*.log | grep 'worst NMSE' | sort >"$out/op_peer.txt"
    say "operations, all ways"
    tests op_table "$(limit 80 220)" "$parts" test_op "$narrow"
fi
if has_part suites; then
    say "graphs, budgets, models"
    tests graph "$(limit 70 190)" "$parts" test_graph "${quick:+simplify}"
    tests model "$(limit 50 175)" "$parts" test_model "${quick:+linear}"
fi
if has_part sanitizer; then
    if command -v compute-sanitizer >/dev/null 2>&1; then
        say "operations under compute-sanitizer"
        printf '#!/bin/sh\nexec compute-sanitizer --tool memcheck --error-exitcode 9 %s "$@"\n' \
            "'$build/test_op'" >"$build/memcheck"
        chmod +x "$build/memcheck"
        tests memcheck "$(limit 80 165)" "$parts" memcheck "${narrow:+$narrow: }values f32"
        grep -h 'ERROR SUMMARY' "$out"/memcheck.*.log | sort | uniq -c
    else
        echo "memcheck: left out, there is no compute-sanitizer"
    fi
fi

# ---- benchmarks ----

if has_part bench && ! command -v "$python" >/dev/null 2>&1; then
    echo "benchmarks: left out, there is no $python"
elif has_part bench; then
    for module in torch jax; do
        "$python" -c "import $module" 2>/dev/null || echo "$module: not installed, left out"
    done
    torch=$("$python" -c 'import torch' 2>/dev/null && echo "--python $python")
    jax=$("$python" -c 'import jax' 2>/dev/null && echo "--jax $python")
    rm -f "$out"/*.md "$out"/*.csv
    weir="--weir $build/weir --device cuda"
    # shellcheck disable=SC2086
    if [ -n "$quick" ]; then
        table singa 200 "$python" "$root/bench/cards.py" $weir --model tiny \
            --batches 8 --rounds 1 --steps 1 --budgets 0.9 --out "$out/singa.md" \
            --csv "$out/singa.csv"
        table peers 200 "$python" "$root/bench/compare.py" tiny $weir $torch $jax --rounds 1 \
            --steps 2 --out "$out/peers.md" --csv "$out/peers.csv"
        table capacity 200 "$python" "$root/bench/capacity.py" tiny $weir --capacity 1MB \
            --cases off auto --seconds 1 --start 256 --out "$out/capacity.md" \
            --csv "$out/capacity.csv"
    else
        table singa "$(limit 120 90)" "$python" "$root/bench/cards.py" $weir --out "$out/singa.md" \
            --csv "$out/singa.csv"
        table peers "$(limit 150 35)" "$python" "$root/bench/compare.py" resnet50 mlp lenet $weir \
            $torch $jax --batch 32 --rounds 5 --steps 10 --budgets 63% --out "$out/peers.md" \
            --csv "$out/peers.csv"
        for capacity in 16GB 11GB; do
            table "capacity_$capacity" "$(limit 60 5)" "$python" \
                "$root/bench/capacity.py" resnet50 $weir --capacity "$capacity" \
                --within 10 --seconds 12 --start 160 --out "$out/capacity.md" \
                --csv "$out/capacity_$capacity.csv"
        done
    fi
fi
say "done"
[ "$failed" -eq 0 ]
