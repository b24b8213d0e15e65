#!/bin/sh
# run.sh - builds Weir and runs every test; the last line is "N passed, N failed".
#
# Works from any folder and a clean clone. Each part ends with a line "part: N passed, N failed"; a
# part that crashes, hangs or leaves that line out counts as one failure more.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
. "$root/cmake/setup.sh"

# Until the build is done one failure stands; the sum is printed however this ends.
passed=0
failed=1
trap 'printf "%s passed, %s failed\n" "$passed" "$failed"' EXIT

# part NAME COMMAND...: runs, shows and counts one part.
part() {
    name=$1
    shift
    out="$build/$name.log"
    limit=
    command -v timeout >/dev/null 2>&1 && limit="timeout 900"
    $limit "$@" >"$out" 2>&1
    code=$?
    cat "$out"
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

weir_want_python=1
weir_want_cuda=${WEIR_WANT_CUDA:-}
weir_setup
cd "$root" || exit 1
failed=0
for folder in core device op graph model; do
    part "test_$folder" "$build/test_$folder"
done
[ ! -x "$build/test_cuda" ] || part test_cuda "$build/test_cuda"
[ ! -f "$build/emulated/libweir_cuda.so" ] || part emulated sh test/emulated.sh "$build"
part tool sh test/tool.sh "$build"
part examples sh test/examples.sh "$build"
part install sh test/install.sh "$build"
part python sh test/python.sh "$build"
part wheel sh test/wheel.sh
if command -v python3 >/dev/null 2>&1; then
    part bench sh test/bench.sh "$build"
    part truth python3 test/truth.py "$build"
    part check_rooms python3 test/check_rooms.py
else
    echo "bench, truth, check_rooms: left out, there is no python3"
fi

[ "$failed" -eq 0 ]
