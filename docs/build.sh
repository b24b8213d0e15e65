#!/bin/sh
# build.sh - builds the site: docs/*.md and the public headers become build/site/index.html.
#
# Usage: sh docs/build.sh [BUILD]
#
# BUILD (default: build) gets docs/venv, a virtual environment with the packages of
# requirements.txt, docs/source, the staged pages, and site. Needs Python 3.11 with venv, and the
# network once. Each warning is an error: a broken reference or a page that docs/index.md does not
# list fails.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
venv=$build/docs/venv

mkdir -p "$build/docs"
if ! cmp -s "$root/docs/requirements.txt" "$venv/installed"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$root/docs/requirements.txt"
    cp "$root/docs/requirements.txt" "$venv/installed"
fi
"$venv/bin/python" "$root/docs/stage.py" "$build/docs/source"
rm -rf "${build:?}/site"
"$venv/bin/python" -m sphinx -q -W --keep-going -E -b html -c "$root/docs" \
    -d "$build/docs/doctrees" "$build/docs/source" "$build/site"
echo "site: $build/site/index.html, $(find "$build/site" -name '*.html' | wc -l) pages"
