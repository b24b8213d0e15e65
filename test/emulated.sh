#!/bin/sh
# emulated.sh - the plugin for NVIDIA cards on an emulated card (test/emulator): the op
# table, graphs, budgets and models run on it as on a real one.
#
# Usage: emulated.sh [BUILD]. Ends with "emulated: N passed, N failed". The emulation is slow (each
# generated kernel is compiled when it is first met), so this is a sample that takes some minutes;
# test/gpu.sh runs everything. Environment:
#   WEIR_EMULATED         what runs: "PROGRAM" or "PROGRAM/FILTER", separated by blanks
#   WEIR_EMULATED_SHARE   n: every n-th case of them (default: 12; 1: all)
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
build=$(CDPATH='' cd -- "${1:-$root/build}" && pwd -P) || exit 1
. "$root/test/check.sh"
export WEIR_PLUGINS="$build/emulated" WEIR_TEST_DEVICE=cuda OMP_WAIT_POLICY=passive
cores=$(getconf _NPROCESSORS_ONLN)
limit=
command -v timeout >/dev/null 2>&1 && limit="timeout 600"

for what in ${WEIR_EMULATED:-test_op/peer test_op/graph test_graph/levels test_model/linear}; do
    program=${what%%/*}
    filter=${what#"$program"}
    in_parts "${WEIR_EMULATED_SHARE:-12}" "$program" "${filter#/}"
done
# The steps for a machine with a card, in small; what all of them command exists.
sh "$root/test/gpu.sh" --dry-run --build "$build" >"$work/said" 2>&1
check "$?" "gpu.sh --dry-run: $(grep FAILED "$work/said")"
for step in contact values models uncaptured small; do
    WEIR_GPU_QUICK=1 sh "$root/test/gpu.sh" --build "$build" --out "$work/gpu" "$step" \
        >"$work/said" 2>&1
    check "$?" "gpu.sh $step: $(tail -n 20 "$work/said")"
    grep -q '^| [a-z]* | [1-9][0-9]* | 0 | [0-9]* |$' "$work/gpu/$step.md"
    check "$?" "gpu.sh $step leaves a table: $(cat "$work/gpu/$step.md")"
done
printf 'emulated: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
