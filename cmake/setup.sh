# setup.sh - installs missing packages and builds into build/; sourced by examples/run.sh and
# test/run.sh.
#
# The caller sets `root` to the repository and calls weir_setup. weir_want_python=1 also installs
# the packages that the Python module needs (it is built wherever they are found); weir_want_cuda=1
# fetches CUDA's compiler and headers as Python wheels into build/cuda (1.1 GB, at most ten minutes)
# if the machine has no CUDA. weir_targets names the targets to build; default: all. POSIX sh.
# Environment:
#   WEIR_NO_INSTALL=1      install nothing, name what is missing
#   WEIR_PYTHON_EXECUTABLE the interpreter of the Python module, if it has NumPy and pytest
#   WEIR_REQUIRE_CUDA=1    fail if the plugin for NVIDIA cards was not built
#   WEIR_CMAKE_OPTIONS     more options for cmake, separated by spaces
#   WEIR_BUILD             the folder to build in, if not build/
# shellcheck shell=sh disable=SC2154

weir_say() {
    printf '== %s\n' "$*"
}

# Compiles (to nothing) a program of one line that includes header $1.
weir_has_header() {
    printf '#include <%s>\nint main(void) { return 0; }\n' "$1" |
        "${CC:-cc}" -x c -fsyntax-only - >/dev/null 2>&1
}

# The OpenBLAS that shares our OpenMP threads: Debian's flavour, or libopenblaso elsewhere.
weir_has_openblas() {
    for weir_file in /usr/lib/*/openblas-openmp/libopenblas.so.0 /usr/lib*/libopenblaso.so.0; do
        [ -e "$weir_file" ] && return 0
    done
    return 1
}

# Prints the first interpreter that has everything the Python module and its tests need.
weir_python() {
    for weir_file in "${WEIR_PYTHON_EXECUTABLE:-python3}" /usr/bin/python3; do
        "$weir_file" - 2>/dev/null <<'EOF' && return 0
import os, sys, sysconfig
import numpy, pytest
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    sys.exit(1)
print(sys.executable)
EOF
    done
    return 1
}

# Packages without which nothing builds, and packages for more speed or more tests.
weir_missing_required() {
    weir_has_header stdio.h || echo gcc libc6-dev
    command -v cmake >/dev/null 2>&1 || echo cmake
    command -v make >/dev/null 2>&1 || echo make
}
weir_missing_optional() {
    weir_has_header dnnl.h || echo libdnnl-dev
    weir_has_openblas || echo libopenblas0-openmp
    weir_has_header jansson.h || echo libjansson-dev
    weir_has_header liburing.h || echo liburing-dev
    command -v python3 >/dev/null 2>&1 || echo python3
    if [ -n "${weir_want_python:-}" ]; then
        command -v swig >/dev/null 2>&1 || echo swig
        weir_python >/dev/null || echo python3-dev python3-numpy python3-pytest
    fi
    if [ -n "${weir_want_cuda:-}" ]; then
        command -v "${CXX:-c++}" >/dev/null 2>&1 || echo g++
    fi
}

# Prints the prefix that runs a command as root ("env" for root itself); fails if root is out of reach.
weir_as_root() {
    [ -z "${WEIR_NO_INSTALL:-}" ] && command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" = 0 ]; then
        echo env
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        echo sudo -n env
    else
        return 1
    fi
}

weir_apt() {
    $weir_root DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::http::Timeout=30 \
        -o Acquire::Retries=2 "$@" </dev/null >>"$weir_log" 2>&1
}

# Installs the packages named; refreshes the package lists only when the first attempt fails.
weir_install() {
    weir_say "installing $*"
    weir_apt install -y --no-install-recommends "$@" && return 0
    if [ -z "${weir_updated:-}" ]; then
        weir_updated=1
        weir_apt update
        weir_apt install -y --no-install-recommends "$@" && return 0
    fi
    return 1
}

# Exits with 1 if a required package stays missing. Optional ones are installed one by one, so that
# one that is not available does not prevent the others.
weir_packages() {
    weir_root=$(weir_as_root) || weir_root=
    weir_need=$(weir_missing_required | tr '\n' ' ')
    if [ -n "$weir_need" ] && [ -n "$weir_root" ]; then
        # shellcheck disable=SC2086
        weir_install $weir_need || weir_say "installing failed: see $weir_log"
    fi
    weir_need=$(weir_missing_required | tr '\n' ' ')
    if [ -n "$weir_need" ]; then
        weir_say "missing; install it with: apt-get update && apt-get install -y $weir_need"
        exit 1
    fi
    for weir_package in $(weir_missing_optional); do
        if [ -n "$weir_root" ] && weir_install "$weir_package"; then
            weir_installed=1
        else
            weir_say "building without $weir_package (apt-get install -y $weir_package)"
        fi
    done
}

# Runs a command with its output in the log; if it fails, shows the end of the log and exits.
weir_quietly() {
    "$@" >>"$weir_log" 2>&1 && return 0
    tail -n 60 "$weir_log"
    weir_say "failed: $*"
    weir_say "whole log: $weir_log"
    exit 1
}

weir_configure() {
    # shellcheck disable=SC2086
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release \
        ${weir_interpreter:+"-DPython_EXECUTABLE=$weir_interpreter"} ${WEIR_CMAKE_OPTIONS:-} "$@"
}

# What cmake missed for the plugin; nothing if it will be built, or is not wanted.
weir_cuda_lacks() {
    sed -n 's/^-- *NVIDIA plugin *no (\(missing: .*\))$/\1/p' "$weir_log" | tail -n 1
}

# Fetches CUDA's wheels into a virtual environment, build/cuda.
weir_cuda_wheels() {
    [ -z "${WEIR_NO_INSTALL:-}" ] && command -v timeout >/dev/null 2>&1 || return 1
    weir_say "fetching CUDA's compiler and headers (1.1 GB)"
    python3 -m venv "$build/cuda" >>"$weir_log" 2>&1 &&
        timeout 600 "$build/cuda/bin/python" -m pip --disable-pip-version-check --no-input install \
            -q --no-deps --no-cache-dir --only-binary=:all: --retries 1 --timeout 30 \
            "nvidia-cuda-nvcc==13.0.*" "nvidia-cuda-crt==13.0.*" "nvidia-nvvm==13.0.*" \
            "nvidia-cuda-runtime==13.0.*" "nvidia-cuda-cccl==13.0.*" "nvidia-cuda-nvrtc==13.0.*" \
            "nvidia-cublas==13.0.*" "nvidia-cudnn-cu13==9.*" >>"$weir_log" 2>&1
}

# If the machine has no CUDA: tries wheels and reports the result.
weir_cuda() {
    weir_lacks=$(weir_cuda_lacks)
    [ -n "$weir_lacks" ] && [ -n "${weir_want_cuda:-}" ] || return 0
    if weir_cuda_wheels; then
        : >"$weir_log"
        for weir_file in "$build"/cuda/lib/python3*/site-packages; do
            weir_quietly weir_configure -DWEIR_CUDA_ROOT="$weir_file"
        done
        weir_lacks=$(weir_cuda_lacks)
    fi
    [ -n "$weir_lacks" ] || return 0
    weir_say "building without the plugin for NVIDIA cards; missing: ${weir_lacks#missing: }"
}

# With WEIR_REQUIRE_CUDA=1 the plugin and its emulation must have been built.
weir_cuda_required() {
    [ -n "${WEIR_REQUIRE_CUDA:-}" ] || return 0
    [ -f "$build/libweir_cuda.so" ] && [ -f "$build/emulated/libweir_cuda.so" ] && return 0
    weir_say "WEIR_REQUIRE_CUDA is set, but the plugin for NVIDIA cards was not built"
    exit 1
}

# Configures if the folder is new or was moved, if options changed or a package was installed; cmake
# itself notices changed files.
weir_build() {
    weir_stamp="$build/.configured"
    weir_interpreter=$(weir_python) || weir_interpreter=
    weir_wanted="$root $weir_interpreter ${WEIR_CMAKE_OPTIONS:-}"
    if [ ! -f "$weir_stamp" ] || [ "$(cat "$weir_stamp")" != "$weir_wanted" ] ||
        [ -n "${weir_installed:-}" ] ||
        { [ -n "${weir_want_cuda:-}" ] && [ ! -f "$build/.cuda" ]; }; then
        if [ ! -f "$build/CMakeCache.txt" ] ||
            ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
            rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
        fi
        rm -f "$weir_stamp"
        weir_say "configuring"
        # shellcheck disable=SC2086
        weir_quietly weir_configure
        weir_cuda
        [ -z "${weir_want_cuda:-}" ] || : >"$build/.cuda"
        printf '%s\n' "$weir_wanted" >"$weir_stamp"
    fi
    weir_say "building (log: $weir_log)"
    # shellcheck disable=SC2086
    weir_quietly cmake --build "$build" --parallel "$(getconf _NPROCESSORS_ONLN)" \
        ${weir_targets:+--target $weir_targets}
}

weir_setup() {
    build=${WEIR_BUILD:-$root/build}
    mkdir -p "$build" || exit 1
    weir_log="$build/setup.log"
    : >"$weir_log"
    weir_packages
    weir_build
    weir_cuda_required
}
