# check.sh - shared by the shell tests: a folder $work, removed at exit, and counting.
# shellcheck shell=sh disable=SC2034,SC2154
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

passed=0
failed=0

# in_parts SHARE PROGRAM [FILTER]: runs every SHARE-th case of a test program of $build, as many
# processes as there are $cores, and adds their counts. $limit may be a command that ends them.
in_parts() {
    share=$1
    program=$2
    filter=${3:-}
    pids=
    i=0
    while [ "$((i += 1))" -le "$cores" ]; do
        WEIR_TEST_PART=$i/$((cores * share)) $limit "$build/$program" ${filter:+"$filter"} \
            >"$work/log.$i" 2>&1 &
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid"
        code=$?
        [ "$code" -le 1 ]
        check "$?" "$program $filter ends by itself (code $code)"
    done
    for log in "$work"/log.*; do
        grep -h -B 3 '^FAILED' "$log"
        counts=$(sed -n "s/^$program: \([0-9]*\) passed, \([0-9]*\) failed\$/\1 \2/p" "$log")
        [ -n "$counts" ]
        check "$?" "$program $filter prints its counts: $(tail -n 2 "$log")"
        counts=${counts:-0 0}
        passed=$((passed + ${counts% *}))
        failed=$((failed + ${counts#* }))
    done
}

# check CODE SENTENCE: counts a check; prints the sentence if CODE is not 0.
check() {
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s\n' "$2"
    fi
}

# pytest_counts LOG CODE: adds what pytest passed and failed by the last line of its output, such as
# "3 failed, 57 passed, 1 error in 9.99s"; at least one failure if its exit code is not 0.
pytest_counts() {
    for word in passed failed error; do
        counted=$(tail -n 1 "$1" | tr ',=' '[\n*]' |
            sed -n "s/^ *\([0-9][0-9]*\) $word.*/\1/p" | grep . || echo 0)
        case $word in
        passed) passed=$((passed + counted)) ;;
        *) failed=$((failed + counted)) ;;
        esac
    done
    [ "$2" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
}
