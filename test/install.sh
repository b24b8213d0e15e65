#!/bin/sh
# install.sh - installs the build into a folder, moves it, and uses it as another project would.
#
# Usage: install.sh [BUILD]. Ends with "install: N passed, N failed". The consumer is built with
# CMake and with pkg-config (left out if pkg-config is missing).
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
build=$(CDPATH='' cd -- "${1:-$root/build}" && pwd -P) || exit 1
unset LD_LIBRARY_PATH CMAKE_PREFIX_PATH PKG_CONFIG_LIBDIR DESTDIR
. "$root/test/check.sh"

finish() {
    printf 'install: %s passed, %s failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
    exit
}

# good TEXT COMMAND...: checks that it exits with 0; otherwise shows its output.
good() {
    text=$1
    shift
    "$@" >"$work/out" 2>&1
    code=$?
    [ "$code" -eq 0 ] || tail -n 20 "$work/out"
    check "$code" "$text"
}

cached() {
    sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"
}

if [ "$(cached WEIR_SANITIZE)" != none ]; then
    echo "install: left out, a sanitizer's library is for no other program"
    finish
fi
cc=$(cached CMAKE_C_COMPILER)
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")

# The installation is moved: no path to the old place may be in it.
good "cmake --install" cmake --install "$build" --prefix "$work/staged"
mv "$work/staged" "$work/prefix"
prefix="$work/prefix"
library=$(find "$prefix" -name 'libweir.so')
lib=$(dirname -- "$library")
[ -f "$library" ] && [ -f "$lib/libweir.so.$version" ]
check "$?" "libweir.so and libweir.so.$version are there"
! grep -rqF -e "$build" -e "$work/staged" "$prefix"
check "$?" "nothing installed names the build folder"

# The manual page and the completion scripts, which the installed tool would write alike.
for pair in man:man/man1/weir.1 bash:bash-completion/completions/weir \
    zsh:zsh/site-functions/_weir fish:fish/vendor_completions.d/weir.fish; do
    "$prefix/bin/weir" help --format "${pair%%:*}" >"$work/out" 2>&1 &&
        cmp -s "$work/out" "$prefix/share/${pair#*:}"
    check "$?" "share/${pair#*:} is installed"
done

# Headers: exactly those of the tree; each compiles as the only one of a program. (Given a header as
# the program itself, clang complains of inline functions that nothing uses.)
good "headers are those of the tree" diff -r "$root/include" "$prefix/include"
for header in "$prefix"/include/weir.h "$prefix"/include/weir/*.h; do
    printf '#include "%s"\n' "$header" >"$work/alone.c"
    good "$(basename -- "$header") compiles alone" "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror \
        -I"$prefix/include" -fsyntax-only "$work/alone.c"
done

# Exactly the functions that the headers mark WEIR_API are exported.
cat "$prefix"/include/weir/*.h | sed -n 's/^WEIR_API[^(]*[ *]\(weir_[a-z0-9_]*\)(.*/\1/p' |
    sort -u >"$work/declared"
nm -D --defined-only "$library" | awk '$2 ~ /[A-Z]/ { print $3 }' | sort -u >"$work/exported"
[ -s "$work/declared" ]
check "$?" "the headers declare functions"
good "what is exported is what WEIR_API marks" diff "$work/declared" "$work/exported"
[ "$(grep -ch '^WEIR_API' "$prefix"/include/weir/*.h | awk '{ n += $1 } END { print n }')" -eq \
    "$(wc -l <"$work/declared")" ]
check "$?" "every WEIR_API line is one function"

# Cards: libweir does not depend on CUDA. The plugin beside it exports one symbol, and opens CUDA's
# libraries at run time, so none has to be installed.
knows_cuda() {
    nm -D "$1" | grep -Eq '[ _](cuda|cublas|cudnn|nvrtc)|[ _]cu[A-Z]'
}
needs_cuda() {
    objdump -p "$1" | grep -E '^ *NEEDED' | grep -Eiq 'cuda|cublas|cudnn|nvrtc|nvidia'
}
! knows_cuda "$library"
check "$?" "libweir.so has no symbol of CUDA"
! needs_cuda "$library"
check "$?" "libweir.so needs no library of CUDA"
plugin="$lib/libweir_cuda.so"
if [ -f "$plugin" ]; then
    [ "$(nm -D --defined-only "$plugin" | awk '$2 ~ /[A-Z]/ { print $3 }')" = weir_plugin ]
    check "$?" "libweir_cuda.so exports weir_plugin alone"
    ! nm -D --undefined-only "$plugin" | grep -Eq ' U (cuda|cublas|cudnn|nvrtc|weir|cu[A-Z])'
    check "$?" "libweir_cuda.so leaves nothing of CUDA or libweir to the linker"
    ! needs_cuda "$plugin"
    check "$?" "libweir_cuda.so needs no library of CUDA"
    "$prefix/bin/weir" info --device cuda >"$work/out" 2>&1
    ! grep -E 'could not be opened|another build' "$work/out" && grep -q 'device cuda' "$work/out"
    check "$?" "the installed tool opens libweir_cuda.so: $(cat "$work/out")"
else
    echo "install: the part with the plugin for cards is left out, it was not built"
fi

good "the installed tool runs" "$prefix/bin/weir" info

# consumer NAME [PROGRAM]: checks that the program under $work/NAME runs and learns the factor 3.
consumer() {
    good "the consumer built with $1 runs" "$work/$1/${2:-consumer}"
    grep -qxF "weir $version: weight 3.000 after 200 steps" "$work/out"
    check "$?" "the consumer built with $1 prints what it learnt"
}

good "the consumer configures" cmake -S "$root/test/consumer" -B "$work/cmake" \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc"
good "the consumer builds" cmake --build "$work/cmake"
consumer cmake
consumer cmake consumer_static
! objdump -p "$work/cmake/consumer_static" | grep -q 'NEEDED.*libweir'
check "$?" "the consumer built with weir::weir_static needs no libweir.so"

# Until 1.0 minor versions are incompatible.
for wanted in 0.0 0.2 1.0; do
    mkdir "$work/want$wanted"
    sed "s/find_package(weir 0.1/find_package(weir $wanted/" "$root/test/consumer/CMakeLists.txt" \
        >"$work/want$wanted/CMakeLists.txt"
    cp "$root/test/consumer/consumer.c" "$work/want$wanted"
    cmake -S "$work/want$wanted" -B "$work/want$wanted/build" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_C_COMPILER="$cc" >"$work/out" 2>&1
    code=$?
    [ "$code" -ne 0 ] && grep -q "requested version \"$wanted\"" "$work/out"
    check "$?" "find_package(weir $wanted) is refused"
done

if command -v pkg-config >/dev/null 2>&1; then
    PKG_CONFIG_PATH="$lib/pkgconfig"
    export PKG_CONFIG_PATH
    [ "$(pkg-config --modversion weir)" = "$version" ]
    check "$?" "pkg-config knows version $version"
    good "pkg-config --exists 'weir >= 0.1'" pkg-config --exists 'weir >= 0.1'
    mkdir "$work/pkg-config"
    # shellcheck disable=SC2046
    good "the consumer builds" "$cc" -o "$work/pkg-config/consumer" \
        "$root/test/consumer/consumer.c" $(pkg-config --cflags --libs weir) -Wl,-rpath,"$lib"
    consumer pkg-config
    mkdir "$work/static"
    # shellcheck disable=SC2046
    good "the consumer builds with libweir.a" "$cc" -o "$work/static/consumer" \
        "$root/test/consumer/consumer.c" $(pkg-config --cflags weir) \
        -Wl,-Bstatic $(pkg-config --libs weir) -Wl,-Bdynamic \
        $(pkg-config --libs --static weir | sed 's/-lweir//')
    consumer static
    ! objdump -p "$work/static/consumer" | grep -q 'NEEDED.*libweir'
    check "$?" "the consumer built with pkg-config --static needs no libweir.so"
else
    echo "install: the part with pkg-config is left out: it is not installed"
fi
finish
