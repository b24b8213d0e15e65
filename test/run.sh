#!/bin/sh
# run.sh - builds Weir and runs every test; the last line is "N passed, N failed".
#
# Usage: run.sh [PART...]. Parts are core planner device op graph model programs cuda emulated
# tool examples install python onnx wheel bench docs docs-long truth tree link vectors env
# check_python upgrade special optim torch mpi memory_faults drawn_faults one_hash aarch64;
# docs-long, which builds in a fresh clone, torch, which installs PyTorch, and aarch64, which needs
# a cross compiler and an emulator, run only where they are named. "graph/4" is a quarter of the
# cases of test_graph, which one WEIR_SEED draws; "docs-long/4" is README and a quarter of the other
# long pages. Works from any folder and a clean clone. Each part ends with a line "part: N passed,
# N failed"; a part that crashes, hangs or omits that line counts as one more failure.
# Environment: WEIR_SEED, and the variables of cmake/setup.sh.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
. "$root/cmake/setup.sh"

# A build that fails counts as one failure; the sum is printed however the script ends.
passed=0
failed=1
trap 'printf "%s passed, %s failed\n" "$passed" "$failed"' EXIT

# part NAME COMMAND...: runs, shows and counts one part.
part() {
    name=$1
    shift
    out="$build/$name.log"
    limit=
    command -v timeout >/dev/null 2>&1 && limit="timeout ${part_seconds:-900}"
    began=$(date +%s)
    $limit "$@" >"$out" 2>&1
    code=$?
    cat "$out"
    printf '== %s: %s s\n' "$name" "$(($(date +%s) - began))"
    counts=$(sed -n "s/^$name: \([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed\$/\1 \2/p" "$out" |
        tail -n 1)
    good=${counts% *}
    bad=${counts#* }
    if [ -z "$counts" ] || { [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; }; then
        printf '%s: ended with code %s\n' "$name" "$code"
        bad=$((${bad:-0} + 1))
    fi
    passed=$((passed + ${good:-0}))
    failed=$((failed + bad))
}

# cases FOLDER [N]: runs the test program of a folder: all cases, or every Nth, as drawn.
cases() {
    [ -x "$build/test_$1" ] || return 0
    if [ -n "${2:-}" ]; then
        WEIR_TEST_PART=$((${WEIR_SEED:-0} % $2 + 1))/$2
        export WEIR_TEST_PART
        echo "test_$1: part $WEIR_TEST_PART"
    fi
    part "test_$1" "$build/test_$1"
    unset WEIR_TEST_PART
}

# script NAME: a part that is not a test program.
script() {
    case $1 in
    emulated) [ ! -f "$build/emulated/libweir_cuda.so" ] ||
        part emulated sh test/emulated.sh "$build" ;;
    tool | examples | install | python | bench) part "$1" sh "test/$1.sh" "$build" ;;
    wheel) part wheel sh test/wheel.sh ;;
    memory_faults) part memory_faults sh test/systems/memory_faults.sh "$build" ;;
    onnx) part onnx sh test/systems/onnx.sh "$build" ;;
    drawn_faults) part drawn_faults "$build/drawn_faults" 7 ;;
    one_hash) part one_hash "$build/one_hash" 8 ;;
    mpi) part mpi sh test/systems/mpi.sh "$build" ;;
    aarch64) part aarch64 sh test/systems/aarch64.sh ;;
    torch)          # a download of gigabytes, then a few minutes of tests
        part_seconds=2400
        part torch sh test/systems/torch.sh "$build"
        part_seconds=
        ;;
    truth) part truth python3 test/truth.py "$build" ;;
    special) part special python3 test/pytorch/special_values.py "$build" ;;
    optim) part optim python3 test/pytorch/optim_torch.py "$build" ;;
    check_python) part check_python python3 test/check_python.py ;;
    upgrade) part check_upgrade python3 test/check_upgrade.py ;;
    tree) part check_tree python3 test/check_tree.py ;;
    link) part check_link python3 test/check_link.py "$build" ;;
    vectors) part check_vectors python3 test/systems/check_vectors.py "$build" ;;
    env) part check_env python3 test/check_env.py ;;
    docs) part docs python3 test/docs.py --build "$build" ;;
    docs-long | docs-long/*)        # README, which builds, and a share of the other long pages
        number=${1#docs-long}
        number=${number#/}
        part_seconds=2400
        part docs-long python3 test/docs.py --long \
            --part "$((${WEIR_SEED:-0} % ${number:-1} + 1))/${number:-1}"
        part_seconds=
        ;;
    *)
        echo "run.sh: unknown part '$1'"
        failed=$((failed + 1))
        ;;
    esac
}

weir_want_python=1
weir_want_cuda=${WEIR_WANT_CUDA:-}
setup_began=$(date +%s)
weir_setup
printf '== setup and build: %s s\n' "$(($(date +%s) - setup_began))"
cd "$root" || exit 1
failed=0
if [ $# -eq 0 ]; then
    set -- core planner device op graph model programs cuda emulated tool examples install python \
        onnx wheel memory_faults drawn_faults one_hash mpi
    if command -v python3 >/dev/null 2>&1; then
        set -- "$@" bench docs truth tree link vectors env check_python upgrade special optim
    else
        echo "bench, docs, truth, tree, link, vectors, env, check_python, upgrade, special," \
            "optim: left out, there is no python3"
    fi
fi
for wanted in "$@"; do
    case $wanted in
    docs-long/*) script "$wanted" ;;
    */*) cases "${wanted%/*}" "${wanted#*/}" ;;
    core | planner | device | op | graph | model | programs | cuda) cases "$wanted" ;;
    *) script "$wanted" ;;
    esac
done

[ "$failed" -eq 0 ]
