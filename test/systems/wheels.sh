#!/bin/sh
# wheels.sh - tries the wheel for other machines in clean Debian systems without a compiler.
#
# Usage: wheels.sh [SUITE...]; default: bookworm trixie forky, which have CPython 3.11, 3.13, 3.14.
# Builds the wheel with cmake/wheels.sh if it is missing. Prints a table, a row for each system, and
# "wheels: N passed, N failed". Needs root and debootstrap; the systems are made in build/wheels
# once, and the tries leave nothing in them. Takes minutes, so test/run.sh leaves it out.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P) || exit 1
. "$root/test/check.sh"
. "$root/cmake/debian.sh"
place=$root/build/wheels
[ $# -gt 0 ] || set -- bookworm trixie forky

finish() {
    printf 'wheels: %s passed, %s failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
    exit
}

# good TEXT COMMAND...: checks that it exits with 0; otherwise shows its output. Sets `result`.
good() {
    text=$1
    shift
    result=ok
    "$@" >"$work/out" 2>&1
    code=$?
    [ "$code" -eq 0 ] || { result=failed && tail -n 20 "$work/out"; }
    check "$code" "$text"
    return "$code"
}

ls "$place"/weir-*-manylinux_*.whl >/dev/null 2>&1 || sh "$root/cmake/wheels.sh" || {
    failed=1
    finish
}
wheel=$(ls "$place"/weir-*-manylinux_*.whl)

# ---- the wheel itself ----

case $wheel in
*-cp311-abi3-manylinux_2_*_x86_64.whl) check 0 ;;
*) check 1 "the wheel is for the stable ABI of 3.11: $wheel" ;;
esac
good "abi3audit --strict" "$place/venv/bin/abi3audit" --strict "$wheel"
good "auditwheel show" "$place/venv/bin/auditwheel" show "$wheel"
tag=$(printf '%s' "$wheel" | sed 's/.*-\(manylinux_.*\)\.whl/\1/')
tr '\n' ' ' <"$work/out" | grep -q "consistent with the following platform tag: \"$tag\""
check "$?" "auditwheel agrees with the tag $tag"
"$place/venv/bin/python" -m zipfile -e "$wheel" "$work/flat"
for file in "$work"/flat/weir.libs/*.so*; do
    name=$(basename "$file" | sed 's/-.*//')
    ls "$work"/flat/weir-*.dist-info/licenses/"$name"/* >/dev/null 2>&1 &&
        grep -q "^License-File: $name/" "$work"/flat/weir-*.dist-info/METADATA
    check "$?" "the wheel has the licence of $name"
done
[ -f "$work/flat/weir/libweir_openblas.so" ] && ls "$work"/flat/weir.libs/libdnnl-* >/dev/null 2>&1
check "$?" "oneDNN and OpenBLAS are inside"

# ---- in clean systems ----

# The kernels that suit this processor: core types of OpenBLAS, bits of oneDNN's dnnl_cpu_isa_t.
isa=0
cores='.*'
if grep -q 'avx512vl' /proc/cpuinfo && grep -q 'avx512bw' /proc/cpuinfo; then
    isa=0x27
    cores='SkylakeX|Cooperlake|SapphireRapids'
elif grep -q 'avx2' /proc/cpuinfo; then
    isa=0x7
    cores='Haswell|Zen'
fi

# fast INFO: the libraries inside chose kernels for this processor.
fast() {
    chosen=$(sed -n 's/^oneDNN: .*instruction set \(0x[0-9a-f]*\).*/\1/p' "$1")
    grep -qE "^OpenBLAS: kernels ($cores), OpenMP threads" "$1" &&
        [ $((${chosen:-0} & isa)) -eq $((isa)) ]
}

# The libraries' choices in the last output: "oneDNN 3.2.0 0xe7", "OpenBLAS SkylakeX".
libraries() {
    sed -n 's/^\(OpenBLAS\): kernels \([^,]*\),.*/\1 \2/p
        s/^\(oneDNN\): \([^,]*\),.*\(0x.*\)/\1 \2 \3/p' "$work/out"
}

# within SYSTEM COMMAND...: runs it there, with nothing of this environment. /proc, which the
# dynamic linker needs to find libraries beside a program, is mounted for the command alone.
# shellcheck disable=SC2016
within() {
    env -i PATH=/try/env/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/try LC_ALL=C.UTF-8 \
        unshare --mount sh -c 'mount -t proc proc "$1/proc" && exec chroot "$@"' within "$@"
}

# NumPy for a version of Python, fetched here: the systems need no network.
# shellcheck disable=SC2317
numpy() {
    "$place/venv/bin/pip" -q --disable-pip-version-check download --no-deps \
        --only-binary=:all: --python-version "$1" --platform manylinux_2_28_x86_64 \
        --platform manylinux_2_27_x86_64 --platform manylinux2014_x86_64 \
        -d "$place/house" numpy
}

try() {
    system=$place/systems/$1
    mkdir -p "$place/systems"
    good "$1: Debian" weir_debian "$1" "$system" python3-minimal,python3-venv || return
    ! within "$system" sh -c 'command -v cc gcc clang tcc' >/dev/null
    check "$?" "$1: no compiler"
    version=$(within "$system" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    glibc=$(within "$system" ldd --version | sed -n '1s/.* //p')
    good "$1: NumPy for Python $version" numpy "$version" || return
    rm -rf "$system/try"
    mkdir "$system/try"
    cp "$wheel" "$place"/house/numpy-*-cp"$(echo "$version" | tr -d .)"-*.whl \
        "$root/test/systems/wheel_use.py" "$root/test/data/chain.json" "$system/try/"
    good "$1: venv" within "$system" python3 -m venv /try/env
    good "$1: pip install" within "$system" /try/env/bin/pip install -q --no-index \
        --find-links /try weir
    row="$1 | $glibc | $version | $result"
    good "$1: import" within "$system" python -c 'import weir; weir.show_config()'
    fast "$work/out"
    check "$?" "$1: import: kernels for this processor: $(libraries)"
    row="$row | $result"
    good "$1: steps under a budget" within "$system" python -W error /try/wheel_use.py
    row="$row | $result"
    good "$1: weir info" within "$system" weir info
    fast "$work/out"
    check "$?" "$1: weir info: kernels for this processor: $(libraries)"
    kernels=$(libraries | tr '\n' ' ')
    row="$row | $result"
    good "$1: weir plan" within "$system" weir plan /try/chain.json --budget 75%
    row="$row | $result"
    good "$1: weir bench" within "$system" weir bench graph --model cnn --steps 2 --budget 75%
    printf '| %s | %s | %s|\n' "$row" "$result" "$kernels" >>"$work/table"
    rm -rf "$system/try"
}

for suite; do
    try "$suite"
done
printf '| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n' suite glibc Python install import \
    'step, budget' 'weir info' 'weir plan' 'weir bench' kernels
cat "$work/table" 2>/dev/null
finish
