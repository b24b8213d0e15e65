#!/bin/sh
# python.sh - the tests of the Python package against the module in the build folder.
#
# Usage: python.sh [BUILD] [OPTION OF PYTEST...]. Ends with "python: N passed, N failed". Left out,
# with a sentence, where the build made no module or its interpreter has no NumPy or pytest.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
build=$(CDPATH='' cd -- "${1:-$root/build}" && pwd -P) || exit 1
[ $# -eq 0 ] || shift
. "$root/test/check.sh"

python=$(sed -n 's/^WEIR_PYTHON_EXECUTABLE:INTERNAL=//p' "$build/CMakeCache.txt")
missing=
[ -n "$python" ] || missing="the build has no Python module (its summary says why)"
[ -n "$missing" ] || "$python" -c 'import numpy, pytest' 2>/dev/null ||
    missing="$python has no NumPy or no pytest (cmake -DPython_EXECUTABLE=... names another)"
if [ -n "$missing" ]; then
    echo "python: left out, $missing"
    echo "python: 0 passed, 0 failed"
    exit 0
fi
for checker in mypy basedpyright; do
    command -v $checker >/dev/null || echo "python: the checks of types by $checker are left out"
done
cd "$root/test/python" || exit 1
PYTHONPATH="$build/python" "$python" -m pytest -q -p no:cacheprovider "$@" . >"$work/log" 2>&1
code=$?
cat "$work/log"

pytest_counts "$work/log" "$code"
printf 'python: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
