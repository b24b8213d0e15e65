#!/bin/sh
# bench.sh - bench/graph_mode.py and bench/capacity.py on tiny models: tables, CSV, JSON, pictures.
#
# Usage: bench.sh [BUILD]. PYTHON names the interpreter (default: python3).
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
build=$(CDPATH='' cd -- "${1:-$root/build}" && pwd -P) || exit 1
python=${PYTHON:-python3}
. "$root/test/check.sh"
export PYTHONDONTWRITEBYTECODE=1

# bench WORD...: runs the program; its output is in $work/said and $work/err.
bench() {
    "$python" "$root/bench/graph_mode.py" --weir "$build/weir" "$@" \
        >"$work/said" 2>"$work/err"
    code=$?
}

# says FILE TEXT: checks that $work/FILE contains the text.
says() {
    grep -qF -- "$2" "$work/$1"
    check "$?" "$1 says '$2': $(cat "$work/$1")"
}

bench --help
check "$code" "--help ends with code 0 (it was $code)"
says said '--models LIST'

out=$work/results
bench --models tiny,cnn --steps 3 --rounds 3 --batch 4 --threads 1 --out "$out" \
    --promises "$work/models.md"
check "$code" "two models end with code 0 (it was $code): $(cat "$work/err")"
says said '| tiny | 4 | off |'
says said '| cnn | 4 | on |'
kept='^\| cnn \| 4 \| [0-9]+ \| [0-9]+ \| 1\.0[0-9]* \| [0-9]+ \| yes \|.* yes, 6 steps \| 0 \|$'
grep -qE "$kept" "$work/models.md"
check "$?" "--promises has a row of cnn: $(cat "$work/models.md")"

"$python" "$root/bench/capacity.py" lenet --weir "$build/weir" --capacity 16MB --start 4 \
    --cases off on auto --out "$work/capacity.md" >"$work/said" 2>"$work/err"
check "$?" "capacity.py ends with code 0: $(cat "$work/err")"
grep -qE '^\| off \| [1-9][0-9]* \| 1\.00 \| 1?[0-9] \|' "$work/capacity.md" &&
    grep -qE '^\| auto \| [1-9][0-9]* \| [1-9]\.[0-9]+ \| 1[0-6] \|' "$work/capacity.md"
check "$?" "capacity.py finds batches: $(cat "$work/capacity.md")"
"$python" "$root/bench/capacity.py" lenet --weir "$build/weir" --device sim:abacus \
    >"$work/said" 2>"$work/err"
says err "unknown preset or key 'abacus'"
WEIR_BUILD="$build" "$python" "$root/bench/capacity.py" lenet --capacity 16MB --start 4 \
    --cases on >"$work/said" 2>"$work/err"
check "$?" "capacity.py finds the tool in WEIR_BUILD: $(cat "$work/err")"
for program in arena budget capacity cards compare evict graph_mode outlines place planning \
    saved_graph; do
    WEIR_BUILD="$work/elsewhere" "$python" "$root/bench/$program.py" --help | tr -d ' \n' |
        grep -q "$work/elsewhere"
    check "$?" "$program.py looks in WEIR_BUILD"
done
WEIR_BUILD="$work/none" "$python" "$root/bench/capacity.py" lenet >"$work/said" 2>"$work/err"
says err "there is no program $work/none/weir"

printf '#!/bin/sh\necho 1e11\n' >"$work/peak"
chmod +x "$work/peak"
"$python" "$root/bench/compare.py" mlp --batch 1 --rounds 1 --steps 1 --weir "$build/weir" \
    --peak "$work/peak" >"$work/said" 2>"$work/err"
check "$?" "compare.py ends with code 0: $(cat "$work/err")"
says said 'A step has 0.01889 GFLOP, the FMA peak of f32 is 100 GF/s'
awk -F '|' '/^\| Weir, graph on / { is = $7 - 0.1889 / $3; found = is < 0.006 && is > -0.006 }
            END { exit !found }' "$work/said"
check "$?" "compare.py tells the share of the peak: $(cat "$work/said")"

if "$python" -c 'import onnx' 2>/dev/null; then
    "$python" "$root/bench/onnx/backend.py" "$build/libweir.so" >"$work/said" 2>"$work/err"
    check "$?" "no case of onnx.backend.test is wrong: $(cat "$work/said")"
    passed_cases=$(sed -n 's/^node: .* cases, \([0-9]*\) passed.*/\1/p' "$work/said")
    [ "${passed_cases:-0}" -ge 1200 ]
    check "$?" "1,200 cases of onnx.backend.test pass: $(cat "$work/said")"
else
    echo "bench: left out onnx.backend.test ($python has no package onnx)"
fi

cat >"$work/look.py" <<'END'
import csv, json, sys
from pathlib import Path

out = Path(sys.argv[1])
rows = list(csv.DictReader((out / "bench.csv").open()))
results = json.loads((out / "bench.json").read_text())
assert [(r["model"], r["case"]) for r in rows] == [
    ("tiny", "off"), ("tiny", "on"), ("cnn", "off"), ("cnn", "on")], rows
for r, j in zip(rows, results["rows"]):
    assert set(r) == set(j), set(r) ^ set(j)
    assert int(r["batch"]) == j["batch"] == 4
    assert int(r["measured_peak_bytes"]) == j["measured_peak_bytes"] > j["persistent_bytes"] > 0
    assert float(r["samples_per_second"]) > 0 and j["bit_identical"] is True
    speed = 4000 / float(r["step_ms_median"])
    assert abs(float(r["samples_per_second"]) / speed - 1) < 1e-3, r
for on in results["rows"][1::2]:
    assert on["planned_peak_bytes"] == on["measured_peak_bytes"]
    assert on["arena_bytes"] <= 1.01 * on["lower_bound_bytes"]
    assert on["core_allocations_after_step_2"] == 0
assert results["machine"] and results["library"].startswith("weir "), results["library"]
for model, p in results["profiles"].items():
    assert abs(sum(p["phases"][k] for k in ("forward", "backward", "update"))
               - p["phases"]["total"]) < 1e-3
    assert abs(sum(o["share"] for o in p["operations"]) - 100) < 1, p
grads = [o for o in results["profiles"]["cnn"]["operations"] if o["operation"] == "conv2d_grad_w"]
assert sum(o["count"] for o in grads) == 2 and all(o["kernel"] for o in grads), grads
END
"$python" "$work/look.py" "$out"
check "$?" "CSV and JSON hold two rows of each model, and a profile"

if "$python" -c 'import matplotlib' 2>/dev/null; then
    for name in time memory operations; do
        [ "$(head -c 4 "$out/$name.png" | tail -c 3)" = PNG ] && grep -q '</svg>' "$out/$name.svg"
        check "$?" "$name.png and $name.svg are pictures"
    done
fi

# Without matplotlib: a sentence, and everything but pictures.
mkdir "$work/without"
echo 'raise ImportError("none here")' >"$work/without/matplotlib.py"
PYTHONPATH=$work/without bench --models tiny --steps 2 --out "$work/plain"
check "$code" "without matplotlib it ends with code 0 (it was $code)"
says err 'pip install matplotlib'
[ -s "$work/plain/bench.csv" ] && [ ! -e "$work/plain/time.png" ]
check "$?" "without matplotlib there is a CSV and no picture"

bench --models tiny,nonsense
[ "$code" -eq 2 ]
check "$?" "an unknown model is code 2 (it was $code)"
says err "'nonsense' is no model"
bench --models tiny --weir "$work/no-tool"
[ "$code" -eq 1 ]
check "$?" "without the tool the code is 1 (it was $code)"
says err 'build Weir first'
bench --models cnn --image 20000 --batch 99999
[ "$code" -eq 1 ]
check "$?" "what the tool refuses is code 1 (it was $code)"
says err 'must be a whole number from 1 to 65536'

printf 'bench: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
