#!/bin/sh
# onnx.sh - what needs the package onnx: its backend's cases, its checker, models as its messages.
#
# Usage: onnx.sh BUILD. Ends with "onnx: N passed, N failed". A case whose outputs, graph off and
# on, are those expected counts as passed, one whose outputs differ as failed; a refused case counts
# as neither, but fewer that pass than with COUNTED_WITH's package before are a failure. Left out,
# with a sentence, where no interpreter has the package: WEIR_ONNX_PYTHON, that of BUILD/onnx, which
# .ci/run makes, or python3.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P) || exit 1
build=$(CDPATH='' cd -- "${1:-$root/build}" && pwd -P) || exit 1
. "$root/test/check.sh"

if [ ! -f "$build/libweir.so" ]; then
    echo "onnx: left out, there is no shared library"
    echo "onnx: 0 passed, 0 failed"
    exit 0
fi
python=
for file in "${WEIR_ONNX_PYTHON:-}" "$build/onnx/bin/python" python3; do
    if [ -n "$file" ] && "$file" -c 'import numpy, onnx' 2>/dev/null; then
        python=$file
        break
    fi
done
if [ -z "$python" ]; then
    echo "onnx: left out, no Python has the package onnx"
    echo "onnx: 0 passed, 0 failed"
    exit 0
fi

COUNTED_WITH=1.23
version=$("$python" -c 'import onnx; print(onnx.__version__)')
echo "onnx: the package's version is $version"

# cases SET LEAST: runs a set of the cases, of which LEAST must pass.
cases() {
    "$python" -W ignore "$root/bench/onnx/backend.py" "$build/libweir.so" --set "$1" --list wrong \
        >"$work/log" 2>&1
    code=$?
    counts=$(sed -n "s/^$1: [0-9]* cases, //p" "$work/log" |
        sed 's/^\([0-9]*\) passed, \([0-9]*\) refused, \([0-9]*\) wrong$/\1 \2 \3/')
    if [ "$code" -ne 0 ] || [ -z "$counts" ]; then
        cat "$work/log"
    fi
    # shellcheck disable=SC2086
    set -- "$1" "$2" ${counts:-0 0 1}
    echo "$1: $3 passed, $4 refused, $5 wrong"
    passed=$((passed + $3))
    failed=$((failed + $5))
    case $version in
    "$COUNTED_WITH".*)
        [ "$3" -ge "$2" ]
        check $? "$1: $3 cases pass, fewer than the $2 of before"
        ;;
    esac
}

cases node 1648
cases pytorch-converted 81
cases pytorch-operator 35

# Every row of the op table as Weir writes it, by the package's checker in full.
if [ -x "$build/test_op" ]; then
    mkdir "$work/ops"
    WEIR_TEST_ONNX="$work/ops" "$build/test_op" ": onnx" >"$work/log" 2>&1
    check $? "test_op writes every row" || tail -n 5 "$work/log"
    "$python" -W ignore "$root/bench/onnx/written.py" "$work/ops" >"$work/log" 2>&1
    check $? "the package's checker takes what Weir writes" || tail -n 5 "$work/log"
    tail -n 1 "$work/log"
fi

# The messages of the package, where that interpreter has what the module's tests need.
if [ -d "$build/python/weir" ] && "$python" -c 'import pytest' 2>/dev/null &&
    PYTHONPATH="$build/python" "$python" -c 'import weir' 2>/dev/null; then
    PYTHONPATH="$build/python" "$python" -m pytest -q -p no:cacheprovider \
        "$root/test/python/singa/test_sonnx.py" "$root/test/python/test_onnx.py" >"$work/log" 2>&1
    check $? "test_sonnx.py and test_onnx.py with the package onnx"
    tail -n 1 "$work/log"
else
    echo "onnx: tests of weir.onnx left out: $python has no pytest or cannot load the module"
fi
printf 'onnx: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
