#!/bin/sh
# wheel.sh - builds the wheel of the Python package as pip does, installs it, uses it.
#
# Usage: wheel.sh. Ends with "wheel: N passed, N failed". Left out, with a sentence, where there is
# no Python 3.11 or later with venv, or the build's requirements are not available. Environment:
#   WEIR_PYTHONS   interpreters to try the wheel on (default: those of python3.11 ... that run)
# The wheel is built once, with the first of them, and tried on one of each version.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
unset PYTHONPATH PYTHONHOME
. "$root/test/check.sh"

finish() {
    printf 'wheel: %s passed, %s failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
    exit
}

# good TEXT COMMAND...: checks that it exits with 0; otherwise shows its output.
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

version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'
}

# One interpreter of each version; `seen` has a blank on either side of each.
pythons=
seen=' '
for python in ${WEIR_PYTHONS:-/usr/bin/python3 python3.11 python3.12 python3.13 python3.14}; do
    usable "$python" || continue
    case $seen in *" $(version "$python") "*) continue ;; esac
    seen="$seen$(version "$python") "
    pythons="$pythons $(command -v "$python")"
done
# shellcheck disable=SC2086
set -- $pythons
if [ $# -eq 0 ]; then
    echo "wheel: left out, there is no Python 3.11 or later with venv"
    finish
fi
builder=$1

pip="-m pip --disable-pip-version-check --no-input --retries 1 --timeout 15"
"$builder" -m venv "$work/build" >"$work/out" 2>&1
# shellcheck disable=SC2086
if ! "$work/build/bin/python" $pip download -q --no-deps -d "$work/try" scikit-build-core \
    swig numpy >"$work/out" 2>&1; then
    echo "wheel: left out, its requirements are not available"
    finish
fi
# Without being asked pip builds no plugin for NVIDIA cards. Here the wheel gets the one that the
# build folder has: building it again would take minutes.
good "pip builds no plugin for NVIDIA cards" "$builder" -c 'import sys, tomllib
with open(sys.argv[1], "rb") as f:
    assert tomllib.load(f)["tool"]["scikit-build"]["cmake"]["define"]["WEIR_CUDA"] == "OFF"' \
    "$root/pyproject.toml"
plugin="${WEIR_BUILD:-$root/build}/libweir_cuda.so"
how=
[ ! -f "$plugin" ] || how="--config-settings cmake.define.WEIR_CUDA_LIBRARY=$plugin"
# shellcheck disable=SC2086
good "pip wheel" "$work/build/bin/python" $pip wheel -q --no-deps $how -w "$work/wheel" "$root" ||
    finish
wheel=$(find "$work/wheel" -name 'weir-*-cp311-abi3-*.whl')
[ -f "$wheel" ]
check "$?" "the wheel is for the stable ABI of 3.11: $(ls "$work/wheel")"

plugins=$("$builder" -m zipfile -l "$wheel" | grep -c 'weir/libweir_cuda.so')
[ "$plugins" -eq "$([ -f "$plugin" ] && echo 1 || echo 0)" ]
check "$?" "the wheel has the plugin if it was given one ($plugins)"

# The module needs libc, libgomp, oneDNN and jansson at most: no LZ4, BLAS or libpython.
"$builder" -m zipfile -e "$wheel" "$work/flat"
module=$(find "$work/flat/weir" -name '_swig*.so')
for field in Summary Author Keywords License-Expression License-File Classifier Requires-Python \
    Requires-Dist Provides-Extra Description-Content-Type; do
    grep -q "^$field: ." "$work"/flat/weir-*.dist-info/METADATA
    check "$?" "the wheel's metadata say $field"
done
if command -v readelf >/dev/null 2>&1; then
    others=$(readelf -d "$module" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -Ev '^(libc|libm|libdl|libpthread|libgomp|libdnnl|libjansson|ld-linux-[^.]*)\.so')
    [ -n "$module" ] && [ -z "$others" ]
    check "$?" "the module needs no other library: $others"
fi
! LC_ALL=C ldd "$module" | grep 'not found'
check "$?" "every library that the module needs is found"

# shellcheck disable=SC2086
if "$work/build/bin/python" $pip install -q abi3audit >"$work/out" 2>&1; then
    good "abi3audit --strict" "$work/build/bin/abi3audit" --strict "$wheel"
else
    echo "wheel: the stable ABI is not audited, abi3audit is not available"
fi

# try PYTHON NUMPY: uses the wheel in a new environment with that NumPy and nothing else.
try() {
    name="$1 with $2"
    rm -rf "$work/env"
    "$1" -m venv "$work/env" >"$work/out" 2>&1
    # shellcheck disable=SC2086
    good "$name: pip install" "$work/env/bin/python" $pip install -q "$wheel" "$2" || return
    good "$name: python -c 'import weir; weir.show_config()'" \
        "$work/env/bin/python" -c 'import weir; weir.show_config()'
    grep -q '^weir [0-9]' "$work/out" && grep -q 'CUDA' "$work/out" && grep -q 'NumPy' "$work/out"
    check "$?" "$name: show_config names version, CUDA, NumPy"
    if [ -f "$plugin" ]; then
        ! grep -E 'could not be opened|another build' "$work/out"
        check "$?" "$name: the plugin for cards can be opened"
    fi
    good "$name: the command weir" "$work/env/bin/weir" info
    good "$name: a graph runs" "$work/env/bin/python" "$root/test/systems/wheel_use.py"
    printf 'from singa import autograd, tensor\nprint(autograd.__name__)\n' >"$work/script.py"
    good "$name: python -m weir.singa" "$work/env/bin/python" -m weir.singa "$work/script.py"
}
cd "$work" || exit 1
for python in "$@"; do
    try "$python" 'numpy>=2'
done
case $(version "$builder") in 3.11 | 3.12) try "$builder" 'numpy==1.26.*' ;; esac
finish
