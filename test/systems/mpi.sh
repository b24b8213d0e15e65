#!/bin/sh
# mpi.sh - processes started by the launchers of Open MPI and MPICH: the bits of one process, and a
# failure that names the rank.
#
# Usage: mpi.sh BUILD. What is not installed is left out, in a sentence.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P) || exit 1
build=$(CDPATH='' cd -- "${1:-$root/build}" && pwd -P) || exit 1
. "$root/test/check.sh"

job=$build/mpi_job
if [ ! -x "$job" ]; then
    echo "mpi: left out, the build has found no MPI"
    echo "mpi: 0 passed, 0 failed"
    exit 0
fi

# launch MPI RANKS ARGUMENT...: runs the job; its output is in $work/out. As root, and with more
# ranks than cores, Open MPI wants to be told.
launch() {
    mpi=$1 ranks=$2
    shift 2
    case $mpi in
    openmpi) set -- --allow-run-as-root --oversubscribe -n "$ranks" "$job" "$@" ;;
    *) set -- -n "$ranks" "$job" "$@" ;;
    esac
    timeout 120 "mpirun.$mpi" "$@" >"$work/out" 2>"$work/err" </dev/null
}

"$job" bits >"$work/bits"
check "$?" "without a launcher one process trains alone"

# named TEXT: every rank but 1 has printed it.
named() {
    for r in 0 2; do
        grep -q "^rank $r: .*$1" "$work/out"
        check "$?" "$mpi: rank $r says '$1': $(cat "$work/out" "$work/err")"
    done
}

tried=0
there=
for mpi in openmpi mpich; do
    if ! command -v "mpirun.$mpi" >/dev/null || [ ! -f "$build/libweir_mpi_$mpi.so" ]; then
        echo "$mpi: left out, its launcher or libweir_mpi_$mpi.so is not there"
        continue
    fi
    tried=$((tried + 1))
    there="$there $mpi"
    launch "$mpi" 1 alone
    grep -q '^ranks 1$' "$work/out"
    check "$?" "$mpi: one process is alone: $(cat "$work/out" "$work/err")"
    for ranks in 2 4; do
        launch "$mpi" "$ranks" bits
        check "$?" "$mpi: $ranks processes train: $(tail -n 3 "$work/err")"
        [ "$ranks" -eq 2 ] || cmp -s "$work/bits" "$work/out"
        check "$?" "$mpi: $ranks processes have the bits of one: $(cat "$work/bits" "$work/out")"
        [ "$ranks" -ne 2 ] || cp "$work/out" "$work/two.$mpi"
    done
    launch "$mpi" 3 engine
    grep -q '^sums right$' "$work/out"
    check "$?" "$mpi: its own sums are right: $(cat "$work/out" "$work/err")"
    launch "$mpi" 3 late 1
    named 'rank 1 has not reached all_reduce 2 (30000 f32) within 1 s: it answers'
    launch "$mpi" 3 kind 1
    named 'all ranks must call the same collectives'
done
if [ "$tried" -eq 2 ]; then
    cmp "$work/two.openmpi" "$work/two.mpich"
    check "$?" "two processes have the same bits on both"
fi
if [ "$tried" -gt 0 ] && [ -x "$build/one_hash" ]; then
    # shellcheck disable=SC2086
    timeout 600 "$build/one_hash" 8 21 3 $there >"$work/out"
    check "$?" "drawn ways of training have one hash: $(cat "$work/out")"
fi
printf 'mpi: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
