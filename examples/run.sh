#!/bin/sh
# run.sh - builds the library, the tool `weir` and the main example, a convolutional network on
# handwritten digits, and trains it.
#
# Works from any folder and a clean clone; options are passed to the example: examples/run.sh
# --graph off. What it builds can be installed: cmake --install build --prefix PLACE. The tests,
# the Python module and the plugin for NVIDIA cards are built by `cmake --build build`.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
. "$root/cmake/setup.sh"

weir_targets="weir_shared weir_tool cnn"
weir_setup
cd "$root" || exit 1
exec build/cnn "$@"
