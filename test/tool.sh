#!/bin/sh
# tool.sh - the command-line tool: info, a small benchmark, dumps, the worker, bad options.
#
# Usage: tool.sh [BUILD]. Ends with "tool: N passed, N failed".
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
build=$(CDPATH='' cd -- "${1:-$root/build}" && pwd -P) || exit 1
weir="$build/weir"
. "$root/test/check.sh"

# good NAME OPTION...: checks that it exits with 0; its output is in $work/NAME.
good() {
    name=$1
    shift
    "$weir" "$@" >"$work/$name" 2>"$work/$name.err"
    code=$?
    [ "$code" -eq 0 ] || cat "$work/$name.err"
    check "$code" "weir $* ends with code 0 (it was $code)"
}

# bad CODE TEXT OPTION...: ends with CODE, says TEXT on stderr, nothing on stdout.
bad() {
    want=$1 text=$2
    shift 2
    "$weir" "$@" >"$work/bad" 2>"$work/bad.err"
    code=$?
    [ "$code" -eq "$want" ] && grep -qF -- "$text" "$work/bad.err" && [ ! -s "$work/bad" ]
    check "$?" "weir $*: code $want and '$text' (it was $code: $(head -n 1 "$work/bad.err"))"
}

# says NAME PATTERN: checks that the output of an earlier good NAME has a line like PATTERN.
says() {
    grep -qE -- "$2" "$work/$1"
    check "$?" "$1 says '$2'"
}

good info info
says info '[0-9]+\.[0-9]+\.[0-9]+'
says info '[Tt]hreads'
says info 'cards for --device cuda: '
says info 'relu_sign_bits: '
good help --help
says help 'bench graph'
says help '^  2 +invalid command line'
good help_graph bench graph --help
says help_graph '--json FILE'
says help_graph '^usage: weir bench graph \[OPTIONS\]'
good help_plan plan --help
says help_plan '^usage: weir plan GRAPH.json \[OPTIONS\]'
good version version
says version '^weir [0-9]+\.[0-9]+\.[0-9]+$'
for words in --version -V; do
    good version_option "$words"
    cmp -s "$work/version" "$work/version_option"
    check "$?" "weir $words prints the version"
done
for words in help 'help commands' -h; do
    # shellcheck disable=SC2086
    good help_words $words
    cmp -s "$work/help" "$work/help_words"
    check "$?" "weir $words is weir --help"
done
good help_words help bench graph
cmp -s "$work/help_graph" "$work/help_words"
check "$?" "weir help bench graph is weir bench graph --help"
for words in 'bench --help' 'help bench'; do
    # shellcheck disable=SC2086
    good bench_words $words
    says bench_words '^  bench worker '
done
good help_environment help environment
says help_environment '^  WEIR_THREADS +worker threads'
good help_files help files
says help_files 'GRAPH.json'
good help_codes help exit-codes
says help_codes '^  1 +failed'

# json NAME OPTION...: as good, and its output is JSON.
json() {
    good "$@"
    if command -v python3 >/dev/null 2>&1; then
        python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/$1"
        check "$?" "weir $* prints JSON"
    fi
}
json version_json version --json -
json info_json info --device sim:v100 --threads 2 --json -
says info_json '"threads": 2,'
json bench_json bench graph --model tiny --steps 2 --rounds 1 --json -
good summary summary --model resnet18 --batch 1 --levels 2
says summary '^total  *11,689,512  *46,758,048  *3,645,468,008  *1,814,073,344$'
says summary '^  layer1.0  basic_block  f32.1,64,56,56.  *73,984 '
json summary_json summary --model cnn --json -
says summary_json '"total":."parameters":29162,'
json dump_json dump --model cnn --budget 75% --json -
says dump_json '"budget_bytes": [1-9]'
json place_json place test/data/tiles_a.csv --nodes 1000 --json -
says place_json '"height_bytes": [1-9]'
good worker_help bench worker --help

# The manual and the completion scripts come from the same tables.
good weir.1 help --format man
says weir.1 '^\.SS weir bench graph$'
if command -v mandoc >/dev/null 2>&1; then
    mandoc -Tlint "$work/weir.1" | grep -v 'missing date' >"$work/lint"
    [ ! -s "$work/lint" ]
    check "$?" "mandoc finds nothing in the manual: $(head -n 1 "$work/lint")"
fi
for topic in commands environment exit-codes files; do
    good markdown help "$topic" --format markdown
    says markdown '^\|---'
done
for shell in bash zsh fish; do
    good "complete_$shell" help --format "$shell"
    if command -v "$shell" >/dev/null 2>&1; then
        "$shell" -n "$work/complete_$shell"
        check "$?" "$shell reads its completion script"
    fi
done
# completes WANTED - WORD...: bash offers WANTED for the last of the words.
completes() {
    wanted=$1
    shift
    bash -c '. "$0"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); complete -p weir >/dev/null
        _weir; echo "${COMPREPLY[*]}"' "$work/complete_bash" "$@" >"$work/offered" 2>&1
    [ "$(cat "$work/offered")" = "$wanted" ]
    check "$?" "bash completes $* to $wanted (it was $(cat "$work/offered"))"
}
if command -v bash >/dev/null 2>&1; then
    completes 'plan place' - weir pl
    completes 'graph worker' - weir bench ''
    completes '--budget' - weir plan --bud
    completes '--off-budget --off-policy' - weir bench graph --off
    completes 'densenet121' - weir dump --model den
    completes 'test/data/chain.json' - weir plan test/data/ch
    completes 'environment' - weir help env
    completes '--ranks' - weir launch --r
    completes '' - weir bench worker --batch ''
fi

# Every option of every command is used in this file or in another test.
good options help --format list
# shellcheck disable=SC2013
for option in $(sed 's/.* //' "$work/options" | sort -u); do
    grep -q -e "${option}[ =\"]" "$0" "$root/test/bench.sh" "$root/test/tool/launch.sh"
    check "$?" "a test uses $option"
done
# The examples of all commands run as printed.
mkdir "$work/examples"
ln -s "$root/test" "$work/examples/test"
ln -s "$build" "$work/examples/build"
"$weir" help --format man | sed -n 's/^\.nf$/&/; t next; b; :next; n; s/\\e/\\/g; s/\\-/-/g
    s/\\(aq/'"'"'/g; p' >"$work/lines"
[ "$(wc -l <"$work/lines")" -gt 12 ]
check "$?" "the manual has examples"
while IFS= read -r line; do
    (cd "$work/examples" && PATH="$build:$PATH" sh -c "$line") >"$work/example" 2>&1 </dev/null
    code=$?
    grep -q 'built without jansson' "$work/example" && continue
    [ "$code" -eq 0 ]
    check "$?" "the example runs: $line ($(tail -n 1 "$work/example"))"
done <"$work/lines"

# A benchmark: the fields of both rows, and the promises that do not depend on the machine.
rows="$work/rows.json"
good bench bench graph --model tiny --steps 3 --threads 2 --json "$rows"
says bench 'bits identical: yes'
says bench 'planned peak = measured peak: yes'
for field in model batch case persistent_bytes planned_peak_bytes measured_peak_bytes \
    step_peak_bytes lower_bound_bytes arena_bytes step_ms_median step_ms_min record_ms plan_ms \
    core_allocations_after_step_2 library_malloc_bytes_per_step minor_faults_per_step \
    bit_identical; do
    [ "$(grep -c "\"$field\": " "$rows")" -eq 2 ]
    check "$?" "both rows have $field"
done
grep '"case": "on"' "$rows" | grep -q '"bit_identical": true'
check "$?" "the row of graph on says that the bits are equal"
grep '"case": "on"' "$rows" | grep -q '"core_allocations_after_step_2": 0,'
check "$?" "with the graph on nothing is allocated after step 2"
grep '"case": "on"' "$rows" | grep -qE '"library_malloc_bytes_per_step": (0|null),'
check "$?" "with the graph on no step calls malloc"
if command -v python3 >/dev/null 2>&1; then
    python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))) == 2' "$rows"
    check "$?" "the rows are JSON"
fi
good small bench graph --model cnn --batch 4 --steps 2 --threads 1
says small 'bits identical: yes'
for model in vgg16 densenet121 mobilenetv2 unet; do
    good "dump_$model" dump --model "$model" --batch 2 --image 32 --what cost
    [ -s "$work/dump_$model" ]
    check "$?" "dump --model $model prints something"
done
good unet bench graph --model unet --batch 2 --image 16 --steps 1 --rounds 1 --threads 1
says unet 'bits identical: yes'
good gpt dump --model gpt --batch 1 --what cost
says gpt 'attention'
good lstm bench graph --model lstm --batch 2 --steps 1 --rounds 1 --threads 1
says lstm 'bits identical: yes'
good tree bench graph --model treelstm --batch 3 --length 5 --steps 1 --rounds 1 --threads 1
says tree 'bits identical: yes'
good deep bench graph --model resnet --depth 8 --batch 2 --steps 1 --rounds 1 --threads 1
says deep 'bits identical: yes'
bad 2 "--length is for networks over text; 'mlp'" dump --model mlp --length 4
bad 2 "--depth is for resnet; 'cnn'" summary --model cnn --depth 20
bad 2 "--depth is for resnet; 'resnet18'" dump --model resnet18 --depth 20
bad 1 'unknown depth 9 (expected 6 k + 2' dump --model resnet --depth 9
bad 1 'image size is 48' dump --model vgg16 --image 48
good disabled bench graph --model tiny --steps 2 --disable fuse,inplace
says disabled 'bits identical: yes'

for what in graph plan cost dot timeline addresses json outline explain profile trace; do
    good "dump_$what" dump --model tiny --what "$what"
    [ -s "$work/dump_$what" ]
    check "$?" "dump --what $what prints something"
done
good view view --model tiny --budget 80% --out "$work/a.html"
good view_other view --model tiny --out "$work/b.html"
good view_both view "$work/a.html" "$work/b.html" --out "$work/both.html"
[ "$(grep -c '^<script type="application/json"' "$work/both.html")" -eq 2 ] &&
    grep -q '"budget_bytes": [1-9]' "$work/both.html" &&
    grep -q '"budget_bytes": 0' "$work/both.html"
check "$?" 'weir view A B writes one page with both plans'
good view_again view "$work/both.html" "$work/a.html" --out "$work/again.html"
[ "$(grep -c '^<script type="application/json"' "$work/again.html")" -eq 2 ]
check "$?" 'weir view replaces the second plan of a page'
good view_one view "$work/a.html"
cmp -s "$work/a.html" "$work/view_one"
check "$?" 'weir view A writes A'
bad 1 'is no page of a plan' view "$root/test/tool.sh"
sed 's/"plan">/"plan"><script>/' "$work/a.html" >"$work/hostile.html"
bad 1 'is no page of a plan' view "$work/a.html" "$work/hostile.html"
bad 1 "cannot read '$work/nothing'" view "$work/nothing"
good dump_out dump --model tiny --what dot --out "$work/step.dot"
cmp -s "$work/step.dot" "$work/dump_dot"
check "$?" "dump --out writes what it prints otherwise"

for mode in on off; do
    printf 'run 2\nwhat\nmemory\nbits\npeak\ngrowth\nquit\n' |
        "$weir" bench worker --model tiny --case "$mode" >"$work/worker" 2>&1
    check "$?" "bench worker --case $mode ends with code 0"
    says worker '^ready [0-9.]+ 8$'
    says worker '^ms [0-9.]+ [0-9.]+$'
    says worker '^error: send'
    says worker '^memory [0-9]+ [0-9]+$'
    says worker '^bits [0-9a-f]{16}$'
    says worker '^peak [0-9]+ [0-9]+$'
    says worker '^growth (-?[0-9]+ [0-9]+|- -)$'
    sed -n '/^bits/p' "$work/worker" >"$work/bits_$mode"
done

cmp -s "$work/bits_on" "$work/bits_off"
check "$?" "workers with the graph on and off hold the same bits"
printf 'run 1\nplan\n' | "$weir" bench worker --model tiny --micro 2 >"$work/worker" 2>&1
check "$?" "bench worker --micro 2 ends with code 0"
says worker '^plan [0-9]+ 0 [0-9]+ 0 '
bad 2 '--micro 3 does not divide the batch of 8' bench worker --model tiny --batch 8 --micro 3

bad 2 'usage: weir'
bad 2 "unknown command 'nonsense'; commands: info, bench graph," nonsense
bad 2 "unknown command 'bench nonsense'" bench nonsense
bad 2 "unknown command 'bnch' (did you mean bench?)" bnch
bad 2 "unknown command '--verison' (did you mean --version?)" --verison
bad 2 "needs a command: graph worker" bench
bad 2 "unknown option '--nonsense'; options: --model" bench graph --nonsense
bad 2 "unknown option '--budgt' (did you mean --budget?)" plan --budgt=75%
bad 2 "did you mean graph?" dump --what gaph
bad 2 "is one operand too many" plan a.json b.json
bad 2 "unknown command 'nonsense'" help nonsense
bad 2 "unknown command 'nonsense'" help nonsense --format markdown
bad 2 '--batch needs a value' bench graph --batch
bad 2 "--batch must be a whole number from 1 to 65536, not 'many'" bench graph --batch many
bad 2 "--batch must be a whole number from 1 to 65536, not '0'" bench graph --batch 0
bad 2 "--steps must be a whole number from 1 to 1000000, not '3x'" bench graph --steps 3x
bad 2 "unknown --model 'vgg' (expected mlp, cnn," bench graph --model vgg
bad 2 "--image is for networks whose images scale; 'mlp'" bench graph --model mlp --image 32
bad 2 "unknown --what 'everything' (expected graph, plan," dump --what everything
bad 2 "unknown --case 'maybe' (expected on or off)" bench worker --case maybe
bad 2 "'stray' is not an option" info stray
bad 1 'nosuchpass' dump --model tiny --disable nosuchpass
bad 1 "cannot write" dump --model tiny --out "$work/no/such/folder"

# Budgets: what is planned is within them, and the error names one that works.
good budget bench graph --model cnn --batch 16 --steps 2 --budget 80%
says budget 'bits identical: yes'
says budget 'planned peak = measured peak: yes'
says budget 'instructions that run again +0 +[1-9]'
bad 1 "the smallest that works is" bench graph --model cnn --batch 16 --steps 2 --budget 5%
least=$(sed -n 's/.*the smallest that works is \([0-9]*\).*/\1/p' "$work/bad.err")
good least bench graph --model cnn --batch 16 --steps 2 --budget "$least"
says least 'bits identical: yes'
for half in bf16 f16; do
    good "$half" bench graph --model cnn --batch 8 --steps 2 --rounds 1 --precision "$half" \
        --json "$work/$half.json"
    says "$half" 'bits identical: yes'
    grep -q "\"precision\": \"$half\"" "$work/$half.json"
    check "$?" "bench graph --precision $half says so in its rows"
done
bad 2 "bf16" bench graph --model cnn --precision f8
good fit fit --model cnn --memory 3MB --steps 1 --json "$work/fit.json"
says fit '[0-9]+ +[0-9.]+ MB  too large'
says fit '[0-9]+ +[0-9.]+ MB +[0-9]+ +[0-9.]+ ms  fits'
says fit 'cnn: a batch of [0-9]+ fits in 3.000 MB'
peak=$(sed -n 's/.*"planned_peak_bytes": \([0-9]*\),.*/\1/p' "$work/fit.json" | head -n 1)
grep -q "\"measured_peak_bytes\": $peak," "$work/fit.json"
check "$?" "weir fit measures the peak that it planned"
good fit_plan fit --model mlp --memory 20MB --steps 0 --batch 64 --json "$work/fit_plan.json"
says fit_plan 'mlp: a batch of [0-9]+ fits in 20.000 MB'
! grep -qE 'measured|step_ms' "$work/fit_plan" "$work/fit_plan.json"
check "$?" "weir fit --steps 0 measures nothing"
asked=$(printf 'fits\nno\nfits\nno\n' | "$weir" fit --ask yes --batch 4 | tr '\n' ' ')
[ "$asked" = '4 8 6 7 largest 6 ' ]
check "$?" "weir fit --ask: $asked"
asked=$(printf 'fits\nno\nfits\nno\n' | "$weir" fit --ask yes --batch 100 --within 20 | tr '\n' ' ')
[ "$asked" = '100 200 150 175 largest 150 ' ]
check "$?" "weir fit --ask --within: $asked"
echo perhaps | "$weir" fit --ask yes >"$work/asked" 2>"$work/asked.err"
says asked.err "the answer 'perhaps' is neither 'fits' nor 'no'"
printf 'no\n' | "$weir" fit --ask yes >"$work/asked" 2>"$work/asked.err"
says asked.err 'a batch of 1 does not fit'
"$weir" fit --ask yes </dev/null >"$work/asked" 2>"$work/asked.err"
says asked.err 'no answer for a batch of 1'
bad 1 "the smallest that works is" fit --model cnn --memory 1kB
bad 1 "12 leagues" fit --model cnn --memory '12 leagues'
good dropping bench graph --model cnn --batch 16 --steps 2 --off-budget 80% --off-policy dtr:eq
says dropping 'bits identical: yes'
says dropping 'instructions that run again +[1-9][0-9]* +0'
bad 1 "do not fit into the budget of" bench graph --model cnn --batch 16 --steps 2 --off-budget 20%
bad 1 "unknown unit 'leagues'" dump --model tiny --budget '12 leagues'

# A machine to simulate: sizes no machine has, capacity, budgets; specs that make no sense.
good sim_info info --device sim:v100
says sim_info 'simulated: 14 TFLOP/s'
good sim bench graph --device sim:h200,capacity=200GB --model resnet50 --batch 1024 --steps 1
says sim 'simulated on sim:h200,capacity=200GB'
says sim 'planned peak = measured peak: yes'
says sim 'bits identical: nothing was computed'
bad 1 'device sim: ' bench graph --device sim:p100 --model resnet50 --batch 256 --steps 1
good sim_budget dump --device sim:p100 --model resnet18 --batch 64 --budget 60% --policy auto \
    --what profile
says sim_budget 'conv2d'
bad 1 "unknown preset or key 'abacus' (expected " info --device sim:abacus
bad 1 "link=fast must be" dump --device sim:v100,link=fast
bad 1 'unknown device '"'gpu'"'' dump --device gpu

# Plans of described steps, and files that are not what they say.
if "$weir" plan test/data/chain.json --out "$work/plan.json" 2>"$work/plan.err"; then
    good plan_chain plan test/data/chain.json --budget 75% --out "$work/plan.json"
    [ "$(grep -c '"a":"compute"' "$work/plan.json")" -gt 29 ]
    check "$?" "within 60 % some of the 29 operations run again"
    good table plan --check test/data/chain.json "$work/plan.json"
    says table 'the plan is valid'
    says table 'compute .*[1-9] operations run again'
    good judged plan --check test/data/chain.json "$work/plan.json" --json -
    says judged '"ok": true,'
    says judged '"recomputed_ops": [1-9]'
    if command -v python3 >/dev/null 2>&1; then
        python3 test/check_plan.py test/data/chain.json "$work/plan.json" 12 "$work/judged" \
            >"$work/replayed" 2>&1
        check "$?" "the plan holds: $(head -n 1 "$work/replayed")"
        # Two judges agree on plans with every lever.
        for budget in 90% 70% 55% 45%; do
            for link in '' 12 2,1; do
                "$weir" plan test/data/levers.json --budget "$budget" --moves 1000 \
                    ${link:+--link "$link"} --out "$work/plan.json" 2>"$work/plan.err" || continue
                good judged plan --check test/data/levers.json "$work/plan.json" \
                    ${link:+--link "$link"} --json -
                python3 test/check_plan.py test/data/levers.json "$work/plan.json" "${link:-12}" \
                    "$work/judged" >"$work/replayed" 2>&1
                check "$?" "at $budget, link '$link': $(tail -n 1 "$work/replayed" | cut -c 1-99)"
            done
        done
    fi
    good explain plan test/data/chain.json --budget 75% --explain - --picture "$work/plan.svg"
    says explain 'recomputed (once|[0-9]+ times), [0-9.]+ ms'
    says explain '^live +[0-9]+$'
    grep -q '</svg>' "$work/plan.svg"
    check "$?" "plan --picture draws"
    good plain plan test/data/chain.json --budget 75%
    good explained plan test/data/chain.json --budget 75% --explain "$work/explained.txt" \
        --out "$work/beside.json"
    cmp -s "$work/explained.txt" "$work/explain" && cmp -s "$work/beside.json" "$work/plain"
    check "$?" "plan --explain FILE --out FILE write what they print otherwise"
    for way in tstack life start area-best; do
        good placed plan test/data/chain.json --budget 75% --placement "$way" \
            --out "$work/placed.json"
        says placed.err "offsets by +$way"
        good judged plan --check test/data/chain.json "$work/placed.json"
    done
    good placed plan test/data/chain.json --budget 75% --placement auto
    good by_any plan test/data/chain.json --budget 75%
    cmp -s "$work/placed" "$work/by_any"
    check "$?" "plan --placement auto is what no --placement is"
    good policies plan --policy help
    says policies '^auto recompute swap'
    good cached plan test/data/chain.json --budget 75% --cache "$work/plans" --out "$work/plan.json"
    says cached.err '^  cache +new$'
    good cached plan test/data/chain.json --budget 75% --cache "$work/plans" --json -
    says cached '"cache": "used"'
    json swept plan test/data/chain.json --curve "$work/curve" --moves 100 --json -
    says swept '"budget_percent": 100'
    good levers plan test/data/levers.json --memory 900 --out "$work/plan.json"
    printf '%s' '{"tensors": [{"id": 0, "bytes": 4, "kind": "activation"}], "ops": [{"id": 0,
        "time_us": 1, "inputs": [], "outputs": [0]}]}' >"$work/one.json"
    good one plan "$work/one.json" --out "$work/plan.json"
    says one.err '1 tensor, 1 operation,'
    good plan_levers plan test/data/levers.json --out "$work/plan.json"
    sed '/"op":103,/d' "$work/plan.json" >"$work/wrong.json"
    bad 1 'reads tensor' plan --check test/data/levers.json "$work/wrong.json"
    bad 1 'needs budget_bytes' plan --check test/data/levers.json test/data/chain.json
    bad 2 'needs two files' plan --check test/data/levers.json
    bad 1 'no plan found within' plan test/data/chain.json --budget 5%
    good curve plan test/data/chain.json --curve "$work/curve" --policy all --moves 300
    says curve '100\.0 % +0\.000'
    good curve_auto plan test/data/chain.json --curve "$work/curve" --moves 300 \
        --out "$work/curve.txt"
    [ "$(grep -c '^auto,' "$work/curve.csv")" -gt 9 ] && grep -q '</svg>' "$work/curve.svg" &&
        [ "$(grep -c ' %' "$work/curve.txt")" -gt 10 ]
    check "$?" "a curve has a table, a CSV and a picture"
    bad 1 "unknown policy 'magic'" plan test/data/chain.json --curve "$work/curve" \
        --policy auto,magic
    bad 1 'cannot write' plan test/data/chain.json --curve "$work/no/such" --policy recycle \
        --out /dev/null
    bad 1 "a sweep chooses its own budgets" plan test/data/chain.json --curve "$work/curve" \
        --budget 50%
    # Every network is recorded, exported and planned; some are planned tightly, and judged.
    for model in $("$weir" dump --model help); do
        "$weir" dump --model "$model" --batch 2 --what outline --out "$work/$model.json" \
            2>"$work/dump.err" &&
            "$weir" plan "$work/$model.json" --moves 1 --out "$work/plan.json" 2>"$work/plan.err"
        check "$?" "$model is exported and planned: $(cat "$work/dump.err" "$work/plan.err" |
            tail -n 1)"
    done
    for case in 'resnet 60 --depth 20 --batch 4' 'treelstm 85 --length 9' 'gpt 60 --batch 8' \
        'cnn 75 --times measured' 'resnet18 80 --image 32 --times estimate'; do
        # shellcheck disable=SC2086
        set -- $case
        model=$1 budget=$2
        rm -f "$work/plan.json"
        shift 2
        "$weir" dump --model "$model" "$@" --what outline --out "$work/step.json" &&
            "$weir" plan "$work/step.json" --budget "$budget%" --moves 3000 \
                --out "$work/plan.json" 2>"$work/plan.err"
        check "$?" "a plan of $case: $(tail -n 1 "$work/plan.err")"
        if command -v python3 >/dev/null 2>&1; then
            python3 test/check_plan.py "$work/step.json" "$work/plan.json" >"$work/judged" 2>&1
            check "$?" "which holds: $(head -n 1 "$work/judged")"
        fi
    done
    bad 1 'cannot write' plan test/data/chain.json --out "$work/no/such/folder"
    for text in '' '[]' '{"tensors": [], "ops": []}' \
        '{"tensors": [{"id": 0, "bytes": -1, "kind": "param"}], "ops": [{}]}' \
        '{"tensors": [{"id": 0, "bytes": 1, "kind": "magic"}], "ops": [{}]}' \
        '{"tensors": [{"id": 0, "bytes": 1, "kind": "gradient"}], "ops": [{"id": 0, "time_us": 1,
          "inputs": [0], "outputs": []}]}' \
        '{"tensors": [{"id": 0, "bytes": 1, "kind": "gradient"}], "ops": [{"id": 0, "time_us": 1,
          "inputs": [], "outputs": [0, 0]}]}' \
        '{"tensors": [{"id": 0, "bytes": 1, "kind": "gradient"}], "ops": [{"id": 0, "time_us": "x",
          "inputs": [], "outputs": [7]}]}'; do
        printf '%s' "$text" >"$work/hostile.json"
        bad 1 "hostile.json" plan "$work/hostile.json"
    done
else
    grep -q 'built without jansson' "$work/plan.err"
    check "$?" "plan says what is missing: $(head -n 1 "$work/plan.err")"
fi
# Offsets for the buffers of a CSV file.
for way in auto exact tstack life; do
    good "place_$way" place test/data/tiles_a.csv --placement "$way" --out "$work/placed.csv"
    says "place_$way.err" "height"
    if command -v python3 >/dev/null 2>&1; then
        python3 test/check_place.py "$work/placed.csv" >"$work/judged" 2>&1
        check "$?" "$way: offsets hold: $(head -n 1 "$work/judged")"
        "$weir" place test/data/tiles_a.csv --placement "$way" --align 256 --capacity 100001 \
            --out "$work/aligned.csv" 2>/dev/null
        python3 test/check_place.py "$work/aligned.csv" 100001 256 >"$work/judged" 2>&1
        check "$?" "$way: offsets are multiples of 256: $(head -n 1 "$work/judged")"
    fi
done
good place_again place "$work/placed.csv" --capacity 64KiB --out "$work/again.csv"
[ "$(head -n 1 "$work/again.csv")" = "$(head -n 1 "$work/placed.csv")" ]
check "$?" "an existing offset is replaced"
if command -v python3 >/dev/null 2>&1; then
    python3 test/check_place.py "$work/again.csv" 65536 >"$work/judged" 2>&1
    check "$?" "and the capacity is kept: $(head -n 1 "$work/judged")"
fi
bad 1 'bytes are live at one time' place test/data/tiles_a.csv --capacity 65535
bad 1 'cannot write' place test/data/tiles_a.csv --out "$work/no/such/folder"
bad 1 'cannot read' place "$work/nowhere.csv"
bad 2 'needs a file' place
bad 2 "unknown --placement 'best' (expected auto," place test/data/tiles_a.csv --placement best
bad 2 "unknown --placement 'best' (expected auto," plan test/data/chain.json --placement best
for command in plan place dump 'bench graph'; do
    # shellcheck disable=SC2086
    good placements $command --placement help
    says placements '^start-best$'
done
bad 2 '--capacity must be more than 0' place test/data/tiles_a.csv --capacity 0
bad 1 'must be a number of bytes' place test/data/tiles_a.csv --capacity much
printf 'id,lower,upper,size\n0,0,4,x\n' >"$work/hostile.csv"
bad 1 "line 2: size 'x' is not a whole number" place "$work/hostile.csv"
good profiled bench graph --model cnn --batch 8 --steps 4 --budget 85% --profile-steps 2 \
    --spill-dir "$work" --guard no --cache "$work/plans" --measure no
says profiled 'bits identical: yes'
good guarded bench graph --model tiny --steps 2 --guard yes
good recorded bench graph --model tiny --steps 2 --level -1
says recorded 'bits identical: yes'
good sized bench graph --model tiny --steps 2
says sized 'measured peak +[0-9.]+ +[0-9.]+  MB$'
good placement bench graph --model tiny --steps 2 --placement tstack
says placement 'bits identical: yes'
good dump_exact dump --model cnn --what plan --placement exact
says dump_exact '# placement: (exact|life|size|area|start|end)'
good graph run-graph test/data/graph-format1.safetensors --budget 64kB --steps 3 \
    --outputs "kinds=$work/kinds.npy,flowers=$work/flowers.npy,fc1.weight=$work/w.npy"
says graph 'input   flowers f32\(2,4\)'
says graph 'output  kinds f32\(2,3\)'
good graph_again run-graph test/data/graph-format1.safetensors --json - \
    --inputs flowers="$work/flowers.npy" --outputs kinds="$work/again.npy"
bad 1 "unknown tensor 'x' (expected flowers or kinds)" run-graph \
    test/data/graph-format1.safetensors --inputs x=nowhere.npy
bad 1 'cannot read' run-graph test/data/graph-format1.safetensors --inputs flowers=nowhere.npy
bad 1 "is no array for 'flowers'" run-graph test/data/graph-format1.safetensors \
    --inputs flowers="$work/kinds.npy"
bad 2 'is not NAME=FILE' run-graph test/data/graph-format1.safetensors \
    --inputs "flowers=$work/flowers.npy,other"
bad 1 "cannot read 'flowers'" run-graph test/data/graph-format1.safetensors --inputs flowers
bad 1 'lacks weir_graph' run-graph test/data/run-format1.safetensors
bad 2 'needs a file' run-graph
good onnx run test/data/flowers.onnx --dims batch=2 --steps 3 --threads 1 --budget 64kB \
    --outputs "logits=$work/logits.npy,flowers=$work/flowers.npy"
says onnx 'input   flowers f32\(2,4\)'
says onnx 'output  logits f32\(2,3\)'
says onnx ' of them for the step, ([0-9]+) measured'
says onnx '3 runs: p50 [0-9.]+ ms, p99 [0-9.]+ ms'
good onnx_out run test/data/flowers.onnx --dims batch=1 --outputs flowers="$work/one.npy"
good onnx_alone run test/data/flowers.onnx --input "$work/one.npy" --dims batch=1 --threads 2 \
    --budget 300MB --time 5 --output "$work/kinds.npy"
says onnx_alone '5 runs: p50'
[ -s "$work/kinds.npy" ]
check "$?" "weir run --output writes the model's one output"
good onnx_again run test/data/flowers.onnx --dims batch=2 --json - \
    --inputs flowers="$work/flowers.npy" --outputs logits="$work/again.npy"
cmp -s "$work/logits.npy" "$work/again.npy"
check "$?" "the same inputs give the same bytes"
good onnx_values run test/data/flowers.onnx --dims batch=2 --values flowers
good onnx_plan dump --onnx test/data/flowers.onnx --dims batch=2 --what plan
says onnx_plan 'matmul'
if ! grep -q 'built without jansson' "$work/plan.err"; then
    good onnx_plan_file plan --onnx test/data/flowers.onnx --dims batch=2 --device cpu --threads 1 \
        --budget 1kB --explain "$work/onnx.txt" --picture "$work/onnx.svg" --out "$work/onnx.json"
    [ -s "$work/onnx.json" ] && [ -s "$work/onnx.txt" ] && grep -q '<svg' "$work/onnx.svg"
    check "$?" "weir plan --onnx writes, explains and draws its plan"
    good onnx_plan_values plan --onnx test/data/flowers.onnx --dims batch=2 --values flowers
    good curve plan --onnx test/data/flowers.onnx --dims batch=2 --curve "$work/onnx" --policy auto
fi
bad 2 'takes the place of GRAPH.json' plan test/data/chain.json --onnx test/data/flowers.onnx
bad 1 'is no ONNX model' plan --onnx test/data/chain.json
bad 1 'has no size; give it by the option dims' run test/data/flowers.onnx
bad 1 "unknown tensor 'x'" run test/data/flowers.onnx --dims batch=2 --inputs x=nowhere.npy
bad 1 'is no ONNX model' run test/data/chain.json
bad 2 'needs a file' run
good onnx_train train test/data/flowers.onnx --dims batch=2 --data "$work/flowers.npy" \
    --labels "$work/logits.npy" --loss mse --optim sgd --lr 0.01 --frozen fc1.bias --steps 20 \
    --budget 64kB --out "$work/trained.onnx" --threads 1
says onnx_train 'step 20: loss '
says onnx_train 'bytes planned, '
good onnx_trained run "$work/trained.onnx" --dims batch=2 --inputs flowers="$work/flowers.npy" \
    --outputs logits="$work/after.npy"
good onnx_train_facts train test/data/flowers.onnx --dims batch=1 --data "$work/flowers.npy" \
    --labels "$work/logits.npy" --loss bce --optim adam --steps 2 --json -
good onnx_train_rows train test/data/flowers.onnx --data "$work/flowers.npy" \
    --labels "$work/logits.npy" --loss mse --steps 2 --out "$work/trained_rows.onnx" --threads 1
good onnx_train_dims train test/data/flowers.onnx --data "$work/flowers.npy" --dims batch=2 \
    --labels "$work/logits.npy" --loss mse --steps 2 --out "$work/trained_dims.onnx" --threads 1
good onnx_train_batch train test/data/flowers.onnx --data "$work/flowers.npy" --batch 2 \
    --labels "$work/logits.npy" --loss mse --steps 2 --out "$work/trained_batch.onnx" --threads 1
cmp -s "$work/trained_rows.onnx" "$work/trained_dims.onnx" &&
    cmp -s "$work/trained_batch.onnx" "$work/trained_dims.onnx"
check "$?" "a batch without a size has the rows that there are, or those of --batch"
sed 's/(2, 4)/(9223372036854775807, 4)/; s/ \{18\}$//' "$work/flowers.npy" >"$work/many.npy"
bad 1 'is no array of f32 in rows (n, 4)' train test/data/flowers.onnx \
    --data "$work/many.npy" --labels "$work/logits.npy"
bad 1 'is no array of classes' train test/data/flowers.onnx --dims batch=2 \
    --data "$work/flowers.npy" --labels "$work/logits.npy"
bad 1 'is no array of f32 in rows (n, 4)' train test/data/flowers.onnx --dims batch=2 \
    --data "$work/logits.npy" --labels "$work/logits.npy"
bad 1 'has 2 rows, a batch 3' train test/data/flowers.onnx --batch 3 --loss mse \
    --data "$work/flowers.npy" --labels "$work/logits.npy"
bad 1 'has 2 rows, a batch 4' train test/data/flowers.onnx --dims batch=4 --loss mse \
    --data "$work/flowers.npy" --labels "$work/logits.npy"
bad 2 'must be a number' train test/data/flowers.onnx --data x --labels y --lr fast
bad 2 'needs a model and arrays' train test/data/flowers.onnx
bad 2 'needs a file' plan
bad 1 'nowhere.json' plan nowhere.json
! grep -q 'line -1' "$work/bad.err"
check "$?" "a file that is missing has no line number"
. "$root/test/tool/launch.sh"

printf 'tool: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
