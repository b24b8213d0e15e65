#!/bin/sh
# wheel.sh - builds the wheel of the Python package as pip does, installs it, uses it.
#
# Usage: wheel.sh. Ends with "wheel: N passed, N failed". Left out, with a sentence, where there is
# no Python 3.11 or later with venv, or no way to the build's requirements. Environment:
#   WEIR_PYTHONS   interpreters to try the wheel on (default: those of python3.11 ... that run)
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
unset PYTHONPATH PYTHONHOME
. "$root/test/check.sh"

finish() {
    printf 'wheel: %s passed, %s failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
    exit
}

# good TEXT COMMAND...: ends with code 0; its words are shown when it does not.
good() {
    text=$1
    shift
    "$@" >"$work/out" 2>&1
    code=$?
    [ "$code" -eq 0 ] || tail -n 30 "$work/out"
    check "$code" "$text"
    return "$code"
}

usable() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

pythons=
for python in ${WEIR_PYTHONS:-python3.11 python3.12 python3.13 python3.14 /usr/bin/python3}; do
    usable "$python" && pythons="$pythons $(command -v "$python")"
done
# shellcheck disable=SC2086
set -- $pythons
if [ $# -eq 0 ]; then
    echo "wheel: left out, there is no Python 3.11 or later with venv"
    finish
fi
oldest=$1
for newest in "$@"; do :; done

pip="-m pip --disable-pip-version-check --no-input --retries 1 --timeout 15"
"$oldest" -m venv "$work/build" >"$work/out" 2>&1
# shellcheck disable=SC2086
if ! "$work/build/bin/python" $pip download -q --no-deps -d "$work/try" scikit-build-core numpy \
    >"$work/out" 2>&1; then
    echo "wheel: left out, its requirements cannot be had"
    finish
fi
# shellcheck disable=SC2086
good "pip wheel" "$work/build/bin/python" $pip wheel -q --no-deps -w "$work/wheel" "$root" || finish
wheel=$(find "$work/wheel" -name 'weir-*-cp311-abi3-*.whl')
[ -f "$wheel" ]
check "$?" "the wheel is for the stable ABI of 3.11: $(ls "$work/wheel")"

# try NAME PYTHON: a new environment with the wheel alone in it.
try() {
    "$2" -m venv "$work/$1" >"$work/out" 2>&1
    # shellcheck disable=SC2086
    good "$2: pip install" "$work/$1/bin/python" $pip install -q "$wheel" || return
    good "$2: python -c 'import weir; weir.show_config()'" \
        "$work/$1/bin/python" -c 'import weir; weir.show_config()'
    grep -q '^weir [0-9]' "$work/out" && grep -q 'CUDA' "$work/out" && grep -q 'NumPy' "$work/out"
    check "$?" "$2: show_config names version, CUDA, NumPy"
    good "$2: a graph runs" "$work/$1/bin/python" "$root/test/wheel_use.py"
    printf 'from singa import autograd, tensor\nprint(autograd.__name__)\n' >"$work/script.py"
    good "$2: python -m weir.singa" "$work/$1/bin/python" -m weir.singa "$work/script.py"
}
cd "$work" || exit 1
try oldest "$oldest"
[ "$newest" = "$oldest" ] || try newest "$newest"
finish
