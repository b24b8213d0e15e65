#!/bin/sh
# examples.sh - runs each example with the graph off and on, in two processes: the same bits.
#
# Usage: examples.sh [BUILD]. Compares the dumped parameters and the printed losses.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
build=$(CDPATH='' cd -- "${1:-$root/build}" && pwd -P) || exit 1
cd "$root" || exit 1
. "$root/test/check.sh"

# train EXAMPLE off|on STEPS OPTION...: one process; its dump and output are in $work.
train() {
    program=$1 mode=$2 steps=$3
    shift 3
    "$build/$program" --graph "$mode" --steps "$steps" --dump "$work/$program.$mode" --quick "$@" \
        >"$work/$program.$mode.txt" 2>&1
    code=$?
    [ "$code" -eq 0 ] || cat "$work/$program.$mode.txt"
    check "$code" "$program --graph $mode ends with code 0 (it was $code)"
    [ -s "$work/$program.$mode" ]
    check "$?" "$program --graph $mode dumps its parameters"
}

# Every "loss NUMBER" that an example printed, without the times beside it.
losses() {
    grep -oE 'loss[ =:]+[-+0-9.einfa]+' "$1"
}

# compare EXAMPLE STEPS OPTION...
compare() {
    name=$1 count=$2
    shift 2
    train "$name" off "$count" "$@"
    train "$name" on "$count" "$@"
    cmp "$work/$name.off" "$work/$name.on"
    check "$?" "$name $*: parameters after $count steps are equal with the graph off and on"
    losses "$work/$name.off.txt" >"$work/off.losses"
    losses "$work/$name.on.txt" >"$work/on.losses"
    [ -s "$work/off.losses" ] && diff "$work/off.losses" "$work/on.losses"
    check "$?" "$name $*: losses over $count steps are printed and equal with the graph off and on"
}

compare mlp 40
compare cnn 20
compare resnet 20
compare gan 40
compare charlm 20 --model gpt
compare charlm 20 --model lstm

"$build/parallel" 1 >"$work/parallel.1" && "$build/parallel" 4 >"$work/parallel.4"
check "$?" "parallel trains with 1 and with 4 processes"
grep '^bits ' "$work/parallel.1" >"$work/bits.1"
grep '^bits ' "$work/parallel.4" | diff "$work/bits.1" -
check "$?" "4 processes have the bits of one: $(cat "$work/bits.1")"

for mode in off on; do
    "$build/gan" --graph "$mode" >"$work/gan.txt"
    grep -qE '^draws (2\.[89]|3\.[01])' "$work/gan.txt"
    check "$?" "gan --graph $mode draws what it should: $(tail -n 1 "$work/gan.txt")"
    "$build/gan" --graph "$mode" --wrong >"$work/gan.txt" 2>&1
    code=$?
    [ "$code" -eq 1 ] && grep -q "which adam_update has changed since" "$work/gan.txt"
    check "$?" "gan --graph $mode --wrong ends with an explanation (code $code)"
done

"$build/resume" --folder "$work/whole" >"$work/resume.txt" 2>&1 &&
    grep -q 'the best so far' "$work/resume.txt"
check "$?" "resume trains to its end: $(tail -n 1 "$work/resume.txt")"
for step in 7 31 60; do
    sh -c '"$@" >"$0" 2>&1' "$work/resume.txt" \
        "$build/resume" --folder "$work/parts" --kill-at "$step" 2>/dev/null
    code=$?
    [ "$code" -eq 137 ]
    check "$?" "resume is killed at step $step (code $code)"
done
"$build/resume" --folder "$work/parts" --graph off >"$work/resume.txt" 2>&1 &&
    cmp "$work/whole/run.safetensors" "$work/parts/run.safetensors" &&
    cmp "$work/whole/best.safetensors" "$work/parts/best.safetensors"
check "$?" "resume, killed three times and its graph off at last, saves the same bytes"

printf 'examples: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
