#!/bin/sh
# kill_saves.sh - kills a process while it saves a model, many times: the old file or the new one.
# Usage: kill_saves.sh BUILD [COUNT]
set -eu
WEIR_TEST_KILLS=${2:-1000} exec "$1/test_model" weights/a_kill
