#!/bin/sh
# run.sh - builds Weir and trains the main example: a convolutional network on handwritten digits.
#
# Works from any folder and a clean clone; options go to the example: examples/run.sh --graph off
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
. "$root/cmake/setup.sh"

weir_targets=cnn
weir_setup
cd "$root" || exit 1
exec build/cnn "$@"
