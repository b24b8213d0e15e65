#!/bin/sh
# aarch64.sh - builds for Linux on 64-bit ARM with a cross compiler and runs the suites of core,
# device, graph and planner, and a training example, under qemu-user.
#
# Usage: aarch64.sh [--whole]. By default an eighth of device and planner and a fortieth of graph,
# which WEIR_SEED draws; --whole runs every case, about half an hour. Prints a line for each suite
# and ends with "aarch64: N passed, N failed". Builds in build-aarch64. Needs Debian's packages
# gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user; without them it says so and fails
# nothing.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P) || exit 1
. "$root/test/check.sh"
build=$root/build-aarch64
system=/usr/aarch64-linux-gnu
seed=${WEIR_SEED:-0}

finish() {
    printf 'aarch64: %s passed, %s failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
    exit
}

for program in cmake aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v "$program" >/dev/null 2>&1 && continue
    echo "aarch64: left out, there is no $program"
    finish
done

cd "$root" || exit 1
mkdir -p "$build"
cmake -S . -B "$build" -DCMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64.cmake" -DWEIR_CUDA=OFF \
    -DWEIR_PYTHON=OFF -DWEIR_THREADS=pthread -DWEIR_WERROR=ON >"$build/setup.log" 2>&1 &&
    cmake --build "$build" --parallel "$(getconf _NPROCESSORS_ONLN)" --target test_core \
        test_device test_graph test_planner shortest >>"$build/setup.log" 2>&1
code=$?
[ "$code" -eq 0 ] || tail -n 40 "$build/setup.log"
check "$code" "the suites build for aarch64"
[ "$code" -eq 0 ] || finish

# limits/little_address_space starts its own program within a limit. qemu-user can do neither, and
# this variable makes the case believe that it is that program.
WEIR_TEST_LIMIT_MB=0
export WEIR_TEST_LIMIT_MB

# cases SUITE N: runs every Nth case; adds the counts of its last line.
cases() {
    WEIR_TEST_PART=$((seed % $2 + 1))/$2 qemu-aarch64 -L "$system" "$build/test_$1" \
        >"$work/out" 2>&1
    code=$?
    counts=$(sed -n "s/^test_$1: \([0-9]*\) passed, \([0-9]*\) failed\$/\1 \2/p" "$work/out")
    [ "$code" -eq 0 ] || tail -n 20 "$work/out"
    if [ -z "$counts" ]; then
        check 1 "test_$1 ended with code $code"
        return
    fi
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
    printf 'test_%s, part %s of %s: %s passed, %s failed\n' "$1" $((seed % $2 + 1)) "$2" \
        "${counts% *}" "${counts#* }"
}

if [ "${1:-}" = --whole ]; then
    set -- 1 1 1
else
    set -- 8 8 40
fi
cases core 1
cases device "$1"
cases planner "$2"
cases graph "$3"
qemu-aarch64 -L "$system" "$build/shortest" >"$work/out" 2>&1 && grep -q '^step 200 ' "$work/out"
check "$?" "the shortest example trains: $(tail -n 1 "$work/out")"
finish
