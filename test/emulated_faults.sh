#!/bin/sh
# emulated_faults.sh - every call of CUDA, cuBLASLt, cuDNN, NVRTC and the driver fails in its turn
# on the emulated card, alone and with all that follow. The suite takes a few of them.
#
# Usage: emulated_faults.sh [BUILD]. Takes three minutes of two cores. Each program of
# test/device/cuda/card_work.h must end with a status and a sentence or with the right bits, leak
# nothing, and work again once the fault has passed. The last line is "emulated_faults: N passed, N
# failed".
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
build=$(CDPATH='' cd -- "${1:-$root/build}" && pwd -P) || exit 1
. "$root/test/check.sh"
export WEIR_TEST_FULL=1
cores=$(getconf _NPROCESSORS_ONLN)
limit=
command -v timeout >/dev/null 2>&1 && limit="timeout 1800"

# Failures that the environment names: "1" is the first call, "1+" it and every later one.
for nth in 1 1+; do
    WEIR_EMULATED_FAIL=cudaGetDeviceCount:$nth:999 WEIR_PLUGINS="$build/emulated" \
        "$build/weir" info --device cuda >"$work/said" 2>&1
    [ $? -eq 1 ] && grep -q 'cudaErrorUnknown' "$work/said"
    check "$?" "WEIR_EMULATED_FAIL names call $nth: $(cat "$work/said")"
done

in_parts 1 test_cuda each_call/
printf 'emulated_faults: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
