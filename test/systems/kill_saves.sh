#!/bin/sh
# kill_saves.sh - kills a process while it saves a model, many times, in C and in Python: the path
# has the old file or the new one.
# Usage: kill_saves.sh BUILD [COUNT]
set -eu
count=${2:-1000}
WEIR_TEST_KILLS=$count "$1/test_model" weights/a_kill
python=$(sed -n 's/^WEIR_PYTHON_EXECUTABLE:INTERNAL=//p' "$1/CMakeCache.txt")
[ -n "$python" ] || exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PYTHONPATH=$1/python "$python" "$(dirname -- "$0")/../python/kill_saves.py" "$folder" "$count"
