#!/bin/sh
# memory_faults.sh - lets allocations, mappings and new threads of a training fail.
#
# Usage: memory_faults.sh BUILD [--table]. Graph on and off: with the libraries on two threads, a
# process that may hold N bytes more ends with a status or trains, for many N; with Weir's own
# kernels on one thread, so does one in which single calls fail, and a planned step allocates
# nothing. --table tries every single call on two threads with and without the libraries, and more
# N, prints what became of each, and checks nothing. Ends with "memory_faults: N passed, N failed".
# Needs Linux with glibc.
set -u
build=$(CDPATH='' cd -- "${1:?folder of the build}" && pwd -P) || exit 1
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P) || exit 1
. "$root/test/check.sh"

finish() {
    printf 'memory_faults: %s passed, %s failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
    exit
}

if [ ! -f "$build/libweir.so" ]; then
    echo "memory_faults: left out, there is no shared library"
    finish
fi
if ldd "$build/libweir.so" | grep -q 'lib[at]san'; then
    echo "memory_faults: left out, a sanitizer has its own allocator"
    finish
fi
here=$root/test/systems
cc -std=gnu11 -O1 -shared -fPIC -o "$work/faults.so" "$here/memory_faults.c" -ldl &&
    cc -std=gnu11 -O1 -I"$root/include" -I"$build/include" -o "$work/job" "$here/memory_job.c" \
        -L"$build" -lweir -Wl,-rpath,"$build" -ldl
code=$?
check "$code" "the program and the library that fails compile"
[ "$code" -eq 0 ] || finish

# job FAULT MODE WHEN: one training; its line is in $work/line. Returns its exit status. The inner
# shell keeps the outer one from reporting a signal.
job() {
    sh -c 'WEIR_FAULT=$1 LD_PRELOAD=$2/faults.so exec "$2/job" "$3" "$4"' sh \
        "$1" "$work" "$2" "$3" >"$work/line" 2>/dev/null
}

# points KIND MODE WHEN: how many calls of a kind there are; of bytes: how many the process holds.
points() {
    job none "$2" "$3" && sed -n "s/^\(.* \)\{0,1\}\([0-9][0-9]*\) $1[,:].*/\2/p" "$work/line"
}

# attempt FAULT MODE WHEN: one training; adds to $ok, $refused or $died.
attempt() {
    if ! job "$1" "$2" "$3"; then
        died=$((died + 1))
    elif grep -q ': no error' "$work/line"; then
        ok=$((ok + 1))
    else
        refused=$((refused + 1))
    fi
}

# spread KIND MODE WHEN MOST PLUS: at most about MOST points fail, one in each training; counts in
# $ok, $refused, $died.
spread() {
    ok=0 refused=0 died=0 n=0
    all=$(points "$1" "$2" "$3")
    stride=$(((all + $4 - 1) / $4))
    while [ "$n" -lt "$all" ]; do
        attempt "$1 $n$5" "$2" "$3"
        n=$((n + stride))
    done
}

# grow MODE WHEN PERCENT: the process may hold 50 bytes more, and in each training PERCENT more than
# in the last, until there are enough; counts as spread does.
grow() {
    ok=0 refused=0 died=0 n=50 tried=0
    all=$(points bytes "$1" "$2")
    while [ "$n" -lt $((all + all * $3 / 100)) ]; do
        attempt "bytes $n" "$1" "$2"
        n=$((n + n * $3 / 100))
        tried=$((tried + 1))
    done
}

if [ "${2:-}" = --table ]; then
    WEIR_THREADS=2
    export WEIR_THREADS
    echo '| kernels | step | counted from | what fails | points | unnoticed | a status | died |'
    echo '| --- | --- | --- | --- | ---: | ---: | ---: | ---: |'
    for kernels in own library; do
        for mode in graph eager; do
            for from in whole run; do
                if [ "$kernels" = own ]; then
                    WEIR_CONV=own WEIR_GEMM=own
                    export WEIR_CONV WEIR_GEMM
                else
                    unset WEIR_CONV WEIR_GEMM
                fi
                grow "$mode" "$from" 2
                echo "| $kernels | $mode | $from | beyond N bytes | $tried | $ok | $refused |" \
                    "$died |"
                for kind in malloc mmap thread; do
                    for plus in '' '+'; do
                        spread "$kind" "$mode" "$from" 100000 "$plus"
                        echo "| $kernels | $mode | $from | $kind$plus | $all | $ok | $refused |" \
                            "$died |"
                    done
                done
            done
        done
    done
    finish
fi

if "$build/weir" info | grep -q '^device cpu.*(openmp)'; then
    WEIR_THREADS=2
    export WEIR_THREADS
    for mode in graph eager; do
        for from in whole run; do
            grow "$mode" "$from" 50
            [ "$died" -eq 0 ] && [ "$refused" -gt 0 ] && [ "$ok" -gt 0 ]
            check $? "$mode, $from: with few bytes $died died, $refused had a status, $ok trained"
        done
    done
else
    echo "memory_faults: libraries left out, this build's threads are not OpenMP's"
fi

WEIR_CONV=own WEIR_GEMM=own WEIR_THREADS=1
export WEIR_CONV WEIR_GEMM WEIR_THREADS
for kind in malloc mmap thread; do
    all=$(points "$kind" graph run)
    [ "${all:-none}" = 0 ]
    check $? "a planned step calls no $kind, but ${all:-none}"
done
for mode in graph eager; do
    for plus in '' '+'; do
        for kind in malloc mmap; do
            spread "$kind" "$mode" whole 30 "$plus"
            [ "$died" -eq 0 ] && { [ "$kind" = mmap ] || [ "$refused" -gt 0 ]; }
            check $? "$mode: of $all points of $kind$plus $died died, $refused had a status"
        done
    done
done
finish
