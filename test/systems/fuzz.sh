#!/bin/sh
# fuzz.sh - damaged files of every kind that Weir reads, under AddressSanitizer and
# UndefinedBehaviorSanitizer: a result or a sentence, never a crash. The suite takes a few of them.
#
# Usage: fuzz.sh [BUILD]. BUILD (default: build-asan) is configured with the sanitizers if it is not
# there yet. WEIR_TEST_SEED=7 damages otherwise. The last line is "fuzz: N passed, N failed".
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P) || exit 1
build=${1:-$root/build-asan}
. "$root/test/check.sh"
[ -f "$build/CMakeCache.txt" ] ||
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DWEIR_CUDA=OFF \
        -DWEIR_PYTHON=OFF -DWEIR_SANITIZE=address,undefined || exit 1
grep -q '^WEIR_SANITIZE:.*address' "$build/CMakeCache.txt"
check "$?" "$build is built with AddressSanitizer"
cmake --build "$build" --parallel --target test_model test_graph >"$work/log" 2>&1
check "$?" "the tests are built: $(tail -n 3 "$work/log")"
export WEIR_TEST_FULL=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

# fuzz SUITE CASES: adds the counts of its last line.
fuzz() {
    "$build/test_$1" "$2" >"$work/log" 2>&1
    counts=$(sed -n "s/^test_$1: \([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p" "$work/log")
    [ -n "$counts" ]
    check "$?" "test_$1 $2 ends by itself: $(tail -n 30 "$work/log")"
    counts=${counts:-0 0}
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
    printf 'test_%s %s: %s\n' "$1" "$2" "$(tail -n 1 "$work/log")"
}

fuzz model file_fuzz/
fuzz model graph_fuzz/
fuzz model data_fuzz/
fuzz model onnx_fuzz/
fuzz model onnx_ops/damaged
fuzz graph check_file/
fuzz graph stepfile/
printf 'fuzz: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
