# check.sh - shared by the shell tests: a folder $work, removed at exit, and counting.
# shellcheck shell=sh disable=SC2034
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

passed=0
failed=0

# check CODE SENTENCE: counts a check; prints the sentence if CODE is not 0.
check() {
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s\n' "$2"
    fi
}
