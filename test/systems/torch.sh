#!/bin/sh
# torch.sh - the tests, the examples and the pages of weir.torch, with PyTorch from PyPI.
#
# Usage: torch.sh [BUILD] [OPTION OF PYTEST...]. Ends with "torch: N passed, N failed". PyTorch is
# installed into an environment of its own in the build folder, some gigabytes with the libraries
# for cards that its package brings. Left out, with a sentence, where it is not available or the
# build has no Python module. Environment:
#   WEIR_TORCH           what pip installs (default: the newest that pyproject.toml allows)
#   WEIR_TORCH_PYTHON    an interpreter that has torch and pytest already
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P) || exit 1
build=$(CDPATH='' cd -- "${1:-$root/build}" && pwd -P) || exit 1
[ $# -eq 0 ] || shift
. "$root/test/check.sh"

left_out() {
    printf 'torch: left out, %s\ntorch: 0 passed, 0 failed\n' "$1"
    exit 0
}

# One environment for each requirement, so that versions do not replace each other.
wanted=${WEIR_TORCH:-$(sed -n 's/^torch = \["\(.*\)"\]$/\1/p' "$root/pyproject.toml")}
installed() {
    environment=$build/torch/$(printf '%s' "$wanted" | tr -c '[:alnum:].' -)
    python=$environment/bin/python
    [ ! -f "$environment/complete" ] || return 0
    "$base" -m venv "$environment" >"$work/log" 2>&1 &&
        "$python" -m pip -q --disable-pip-version-check --no-input --retries 1 --timeout 60 \
            install "$wanted" torchvision transformers numpy pytest >"$work/log" 2>&1 &&
        : >"$environment/complete"
}

base=$(sed -n 's/^WEIR_PYTHON_EXECUTABLE:INTERNAL=//p' "$build/CMakeCache.txt")
[ -n "$base" ] || left_out "the build has no Python module (its summary says why)"
if [ -n "${WEIR_TORCH_PYTHON:-}" ]; then
    python=$WEIR_TORCH_PYTHON
    "$python" -c 'import pytest, torch' 2>"$work/log" ||
        left_out "$python has no torch or no pytest: $(tail -n 1 "$work/log")"
elif ! installed; then
    left_out "$wanted cannot be installed: $(tail -n 1 "$work/log")"
fi
"$python" -c 'import sys, torch
print("torch: PyTorch", torch.__version__, "on Python", sys.version.split()[0])'

cd "$root/test/python" || exit 1
OMP_WAIT_POLICY=passive PYTHONPATH="$build/python" "$python" -m pytest -q -p no:cacheprovider "$@" \
    pytorch test_examples.py::test_pytorch_resnet test_examples.py::test_pytorch_gpt2 \
    >"$work/log" 2>&1
code=$?
cat "$work/log"
pytest_counts "$work/log" "$code"

# Blocks of pages that need torch are left out of the documents' own tests without it.
WEIR_TORCH_PYTHON=$python python3 "$root/test/docs.py" --build "$build" user/pytorch \
    >"$work/log" 2>&1
code=$?
[ "$code" -eq 0 ] || cat "$work/log"
check "$code" "the pages about PyTorch run with it"
printf 'torch: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
