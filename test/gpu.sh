#!/bin/sh
# gpu.sh - builds, tests and measures Weir on a machine with an NVIDIA card, in steps of at most
# nine minutes that each leave a table.
#
# Usage: gpu.sh [OPTIONS] STEP...      STEP: a name of --list, or all
#   --list           print the steps, in the order in which a new machine should run them
#   --dry-run        print the commands of the steps (default: all), and check that every program,
#                    option, variable, case and model that they name exists; needs no card
#   --build FOLDER   where to build, or what was built before; default: build-gpu
#   --out FOLDER     the tables, STEP.md, and logs; default: bench/tables/gpu
# Environment:
#   WEIR_CUDA_ROOT       a toolkit, or a folder with wheels of one (see cmake/cuda_find.cmake)
#   WEIR_CUDA_LIBS       folders of NVRTC, cuBLASLt, cuDNN, separated by ':'
#   WEIR_GPU_PYTHON      interpreter that may have torch and jax (default: python3)
#   WEIR_GPU_SECONDS     that a step may take (default: 540)
#   WEIR_GPU_SHARE       n: every n-th case of the operations (default: 8; 1: all)
#   WEIR_GPU_MPS=0       does not start NVIDIA's MPS for steps of many processes
#   WEIR_PLUGINS         a folder with another libweir_cuda.so; that of the emulated card is one
#   WEIR_GPU_QUICK=1     few cases, the smallest network: to try a step, as on the emulated card
#
# The table is written when a command of the step ends, so a step that is cut short leaves what it
# has.
# The last line is "STEP: N passed, N failed"; a command that is cut short counts as one more
# failure. Needs neither OpenBLAS nor SWIG; a missing tool is named and left out.
# shellcheck disable=SC2317     # the steps are functions that are called by their names
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
step_seconds=${WEIR_GPU_SECONDS:-540}
build="$root/build-gpu"
out="$root/bench/tables/gpu"
dry=
wanted=

# Name, and what it tells, in the order of a first contact: each step needs less to work than the
# next.
steps='build      the plugin and the test programs are compiled
contact    the card answers: weir info, one operation, attention and convolutions
peers      operations, the card against the CPU
values     operations against independent references: values, gradients, special values
graph_ops  operations, graph on against graph off
graphs     recorded steps, plans, budgets
models     layers, optimisers, data, files
uncaptured graphs again, launched one by one: tells faults of captured runs from those of kernels
clocks     cases that read clocks, and the device itself
memcheck   own kernels under compute-sanitizer, memcheck
racecheck  own kernels with barriers under compute-sanitizer, racecheck and synccheck
small      mlp and lenet against PyTorch and JAX
resnet50   ResNet-50 in f32 against PyTorch, and with the engines of cuDNN timed
resnet50h  ResNet-50 by TF32 units and in bf16 against PyTorch
gpt        GPT in f32 and in bf16 (attention) against PyTorch
singa      the table of SINGA: ResNet-50 in budgets
capacity16 the largest batch of ResNet-50 in 16 GB
capacity11 the largest batch of ResNet-50 in 11 GB'

usage() {
    sed -n '2,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//;p;}' "$0"
    exit 2
}

names=$(printf '%s\n' "$steps" | sed 's/ .*//')
while [ $# -gt 0 ]; do
    case $1 in
    --list)
        printf '%s\n' "$steps"
        exit 0
        ;;
    --dry-run) dry=1 ;;
    --build | --out)
        [ $# -gt 1 ] || usage
        case $1 in --build) build=$2 ;; *) out=$2 ;; esac
        shift
        ;;
    -*) usage ;;
    all) wanted=$names ;;
    *)
        printf '%s\n' "$names" | grep -qx -- "$1" || {
            printf "gpu.sh: unknown step '%s' (expected all, %s)\n" "$1" "$(echo "$names" |
                paste -s -d " " - | sed 's/ /, /g')"
            exit 2
        }
        wanted="$wanted $1"
        ;;
    esac
    shift
done
[ -n "$wanted" ] || [ -z "$dry" ] || wanted=$names
[ -n "$wanted" ] || usage

if [ -z "$dry" ]; then
    mkdir -p "$build" "$out" || exit 1
    out=$(CDPATH='' cd -- "$out" && pwd -P)
fi
build=$(CDPATH='' cd -- "$build" && pwd -P) || exit 1
python=${WEIR_GPU_PYTHON:-python3}
quick=${WEIR_GPU_QUICK:-}
share=${WEIR_GPU_SHARE:-8}
cores=$(getconf _NPROCESSORS_ONLN)
parts=$((cores > 12 ? 12 : cores))
export OMP_WAIT_POLICY=passive WEIR_THREADS=2 PYTHONDONTWRITEBYTECODE=1
# What is compiled on the way is kept, so that the next process and the next step find it.
if [ -z "${WEIR_PLUGINS:-}" ]; then
    export WEIR_CACHE_DIR="${WEIR_CACHE_DIR:-$build/kernels}"
    export TORCHINDUCTOR_CACHE_DIR="${TORCHINDUCTOR_CACHE_DIR:-$build/inductor}"
fi

# ---- commands and their rows ----

# left SECONDS: these seconds, or what is left of the step; at least 1.
left() {
    rest=$((step_seconds - ($(date +%s) - begin)))
    [ "$rest" -lt "$1" ] || rest=$1
    [ "$rest" -ge 1 ] || rest=1
    echo "$rest"
}

# row WHAT PASSED FAILED SINCE
row() {
    passed=$((passed + $2))
    failed=$((failed + $3))
    printf '| %s | %s | %s | %s |\n' "$1" "$2" "$3" "$(($(date +%s) - $4))" | tee -a "$rows"
    [ -s "$more" ] || cp "$rows" "$out/$step.md"
    [ ! -s "$more" ] || { cat "$rows" && echo && cat "$more"; } >"$out/$step.md"
}

# command_of WHAT SECONDS WORD...: runs one command; its output is in STEP.WHAT.log. Each command of
# the steps comes through here or through cases, where --dry-run checks it.
command_of() {
    what=$1 seconds=$2
    shift 2
    [ -z "$dry" ] || { try "$@"; return; }
    since=$(date +%s)
    if timeout "$(left "$seconds")" env "$@" >"$out/$step.$what.log" 2>&1; then
        row "$what" 1 0 "$since"
    else
        row "$what" 0 1 "$since"
        tail -n 5 "$out/$step.$what.log"
    fi
}

# cases WHAT SECONDS PARTS SHARE [NAME=VALUE...] PROGRAM [FILTER]: every SHARE-th case of a test
# program on the card, in PARTS processes.
cases() {
    what=$1 seconds=$2 processes=$3 every=$4
    shift 4
    [ -z "$dry" ] || { try WEIR_TEST_DEVICE=cuda "$@"; return; }
    since=$(date +%s)
    limit=$(left "$seconds")
    rm -f "$out/$step.$what".*.log
    i=0
    pids=
    while [ "$((i += 1))" -le "$processes" ]; do
        WEIR_TEST_DEVICE=cuda WEIR_TEST_PART=$i/$((processes * every)) \
            timeout "$limit" env "$@" >"$out/$step.$what.$i.log" 2>&1 &
        pids="$pids $!"
    done
    worst=0
    for pid in $pids; do
        wait "$pid" || worst=$?
    done
    good=0 bad=0
    for log in "$out/$step.$what".*.log; do
        counts=$(sed -n 's/^test_[a-z]*: \([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log" |
            tail -n 1)
        if [ -z "$counts" ]; then
            echo "$what: broke off: $log"
            tail -n 3 "$log"
        fi
        [ -n "$counts" ] || counts="0 1"
        good=$((good + ${counts% *}))
        bad=$((bad + ${counts#* }))
        grep -h -B 3 '^FAILED' "$log" | head -n 20
    done
    [ "$worst" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
    row "$what" "$good" "$bad" "$since"
}

# ---- what --dry-run checks ----

# wrong SENTENCE
wrong() {
    printf 'FAILED %s: %s\n' "$step" "$1"
    failed=$((failed + 1))
}

# known WORD TEXT: the text contains the word, with no part of a longer one.
known() {
    printf '%s\n' "$2" | grep -qE -- "(^|[^-A-Za-z0-9_])$1([^-A-Za-z0-9_]|\$)"
}

# The arguments parsed by the program itself; every model is one of weir's.
parse='import importlib, re, subprocess, sys
from pathlib import Path
script = Path(sys.argv[1])
sys.path.insert(0, str(script.parent))
sys.argv = sys.argv[1:]
args = importlib.import_module(script.stem).options()
told = subprocess.run([args.weir, "bench", "worker", "--help"], capture_output=True, text=True)
models = re.search(r"--model M(.*?)\(default", told.stdout, re.S).group(1)
for model in getattr(args, "models", None) or [args.model]:
    if model not in re.findall(r"\w+", models):
        sys.exit(f"unknown model {model!r}")'

# try [NAME=VALUE...] PROGRAM [ARGUMENT...]: prints the command and checks it.
try() {
    printf '  %s\n' "$*"
    bad=$failed
    check_words "$@"
    [ "$failed" -gt "$bad" ] || passed=$((passed + 1))
}

check_words() {
    while :; do
        case $1 in
        WEIR_TEST_*) known "${1%%=*}" "$(cat "$root/docs/contributing/testing.md")" ||
            wrong "no variable ${1%%=*} in docs/contributing/testing.md" ;;
        WEIR_*=*) known "${1%%=*}" "$(cat "$root/src/core/env.def")" ||
            wrong "no variable ${1%%=*} in src/core/env.def" ;;
        compute-sanitizer | */compute-sanitizer)
            while [ "${2#"$build"}" = "$2" ]; do shift; done
            ;;
        *) break ;;
        esac
        shift
    done
    program=$1
    shift
    case $program in
    cmake)
        for word in "$@"; do
            word=${word%%=*}
            case $word in
            -DWEIR_*) known "${word#-D}" "$(cat "$root"/CMakeLists.txt "$root"/cmake/*.cmake)" ||
                wrong "CMake has no option ${word#-D}" ;;
            esac
        done
        ;;
    "$python")
        said=$("$python" -c "$parse" "$@" 2>&1) || wrong "$(printf '%s\n' "$said" | tail -n 1)"
        ;;
    "$build/weir")
        [ -x "$program" ] || { wrong "no program $program"; return; }
        said=$("$program" help "$1" 2>&1) || wrong "weir has no command $1"
        for word in "$@"; do
            case $word in --*) known "$word" "$said" || wrong "weir $1 has no option $word" ;; esac
        done
        ;;
    "$build"/test_*)
        [ -x "$program" ] || { wrong "no program $program"; return; }
        [ $# -eq 0 ] || WEIR_TEST_DEVICE=cuda "$program" --list | grep -qF -- "$1" ||
            wrong "no case of $program has '$1' in its name"
        ;;
    *) wrong "unknown program $program" ;;
    esac
}

# ---- the machine ----

mps=
# Lets the processes of a step share the card at a time, where NVIDIA's MPS is installed; ended with
# the step. Its sockets are in a folder of its own, so that no other server is touched.
share_card() {
    [ -z "$dry$quick${WEIR_PLUGINS:-}" ] && [ "${WEIR_GPU_MPS:-1}" != 0 ] &&
        command -v nvidia-cuda-mps-control >/dev/null 2>&1 || return 0
    mps=$(mktemp -d) || return 0
    export CUDA_MPS_PIPE_DIRECTORY="$mps" CUDA_MPS_LOG_DIRECTORY="$mps"
    nvidia-cuda-mps-control -d >/dev/null 2>&1 || unshare_card
}

unshare_card() {
    [ -n "$mps" ] || return 0
    echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
    rm -rf "$mps"
    mps=
}
trap unshare_card EXIT
trap 'exit 1' HUP INT TERM

# peers MODULE...: sets torch and jax to options of bench/compare.py, if Python has them. The answer
# is kept: importing them takes up to half a minute.
peers() {
    torch='' jax=''
    for module in "$@"; do
        if [ -z "$dry" ] && [ ! -f "$build/has_$module" ]; then
            has=no
            timeout "$(left 120)" "$python" -c "import $module" >/dev/null 2>&1 && has=yes
            echo "$has" >"$build/has_$module"
        fi
        [ -n "$dry" ] || [ "$(cat "$build/has_$module")" = yes ] || {
            echo "$module: not installed, left out"
            continue
        }
        case $module in torch) torch="--python $python" ;; *) jax="--jax $python" ;; esac
    done
}

sanitizer_of() {
    for sanitizer in compute-sanitizer "${WEIR_CUDA_ROOT:-/usr/local/cuda}/bin/compute-sanitizer" \
        /usr/local/cuda/bin/compute-sanitizer; do
        command -v "$sanitizer" >/dev/null 2>&1 && return 0
    done
    sanitizer=compute-sanitizer
    [ -n "$dry" ] && return 0
    echo "compute-sanitizer: not found, left out"
    return 1
}

# ---- the steps ----

step_build() {
    [ -n "$dry" ] || { command -v cmake && command -v "${CC:-cc}"; } >/dev/null 2>&1 || {
        echo "nothing is built, there is no cmake or compiler: using $build as it is"
        return
    }
    # shellcheck disable=SC2086
    command_of configure 120 cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release \
        -DWEIR_CUDA=ON -DWEIR_CUDA_FLAGS=-lineinfo -DWEIR_PYTHON=OFF -DWEIR_ONEDNN=OFF \
        -DWEIR_JANSSON=OFF ${WEIR_CMAKE_OPTIONS:-}
    command_of compile 420 cmake --build "$build" --parallel "$cores" --target weir_cuda weir_tool \
        test_op test_graph test_model test_device
}

step_contact() {
    command_of info 60 "$build/weir" info --device cuda
    [ -n "$dry" ] || cat "$out/contact.info.log"
    cases relu 120 1 1 "$build/test_op" "relu/(3,5)"
    [ -z "$quick" ] || return 0
    cases attention 150 1 4 "$build/test_op" attention
    cases conv2d 150 1 4 "$build/test_op" conv2d
}

# operations WHAT SECONDS KIND: the cases of one kind.
operations() {
    cases "$1" "$2" "$parts" "$share" "$build/test_op" "${quick:+sigmoid/(3,5)}: $3"
}

step_peers() {
    operations peers 530 peer
    [ -z "$dry" ] || return 0
    printf '\nThe worst errors:\n\n' >>"$out/peers.md"
    cat "$out"/peers.peers.*.log | grep 'worst NMSE' | sort | sed 's/^/    /' >>"$out/peers.md"
}

step_values() {
    operations values 200 values
    operations gradients 120 gradient
    operations half_gradients 80 "half gradient"
    operations special 130 special
}

step_graph_ops() {
    operations graph_ops 530 graph
}

step_graphs() {
    cases graphs 530 "$parts" 1 "$build/test_graph" ${quick:+simplify/}
}

step_models() {
    cases models 530 "$parts" 1 "$build/test_model" ${quick:+layers/}
}

step_uncaptured() {
    cases graphs 265 "$parts" 1 WEIR_GRAPHS=0 "$build/test_graph" ${quick:+simplify/}
    cases models 265 "$parts" 1 WEIR_GRAPHS=0 "$build/test_model" ${quick:+layers/}
}

step_clocks() {
    for file in measure replan cache explain; do
        cases "$file" 90 1 1 "$build/test_graph" "$file/"
    done
    cases device 170 1 1 "$build/test_device" device/
}

# Libraries' kernels are not ours to check, and instrumenting them takes longer than the step.
step_memcheck() {
    sanitizer_of || return 0
    cases memcheck 530 4 "$share" WEIR_GEMM=own WEIR_CONV=own "$sanitizer" --tool memcheck \
        --error-exitcode 9 "$build/test_op" "values f32"
}

step_racecheck() {
    sanitizer_of || return 0
    for op in attention sum/ softmax batch_norm; do
        for tool in racecheck synccheck; do
            cases "$tool.${op%/}" 65 4 4 WEIR_GEMM=own WEIR_CONV=own "$sanitizer" --tool "$tool" \
                --error-exitcode 9 "$build/test_op" "$op"
        done
    done
}

# race WHAT SECONDS [NAME=VALUE...] MODEL [OPTION...]: a table of bench/compare.py.
race() {
    what=$1 seconds=$2
    shift 2
    settings=
    while [ "${1#*=}" != "$1" ]; do
        settings="$settings $1"
        shift
    done
    model=$1
    shift
    if [ -n "$quick" ]; then
        set -- --rounds 1 --steps 2
        model=tiny
    fi
    # shellcheck disable=SC2086
    command_of "$what" "$seconds" $settings "$python" "$root/bench/compare.py" "$model" \
        --weir "$build/weir" --device cuda $torch $jax "$@" --out "$more" --csv "$out/$step.csv"
}

step_small() {
    peers torch jax
    race mlp 265 mlp --batch 128 --rounds 5
    race lenet 265 lenet --batch 64 --rounds 5
}

step_resnet50() {
    peers torch
    race f32 330 resnet50 --batch 32 --rounds 5 --steps 10 --budgets 63%
    torch=''
    race autotune 200 WEIR_AUTOTUNE=1 resnet50 --batch 32 --rounds 5 --steps 10
}

step_resnet50h() {
    peers torch
    race bf16 270 resnet50 --batch 32 --rounds 5 --steps 10 --precision bf16
    race tf32 270 resnet50 --batch 32 --rounds 5 --steps 10 --tf32
}

step_gpt() {
    peers torch
    race bf16 270 gpt --batch 8 --rounds 5 --steps 10 --precision bf16
    race f32 270 gpt --batch 8 --rounds 5 --steps 10
}

step_singa() {
    set -- --model resnet50
    [ -z "$quick" ] || set -- --model tiny --batches 8 --rounds 1 --steps 1 --budgets 0.9
    command_of singa 530 "$python" "$root/bench/cards.py" --weir "$build/weir" --device cuda \
        "$@" --out "$more" --csv "$out/singa.csv"
}

# capacity BYTES
capacity() {
    set -- resnet50 --capacity "$1" --within 10 --seconds 120 --start 160
    [ -z "$quick" ] || set -- tiny --capacity 1MB --cases off auto --seconds 1 --start 256
    command_of "$step" 530 "$python" "$root/bench/capacity.py" "$@" --weir "$build/weir" \
        --device cuda --out "$more" --csv "$out/$step.csv"
}

step_capacity16() {
    capacity 16GB
}

step_capacity11() {
    capacity 11GB
}

# ---- running them ----

if [ -z "$dry${WEIR_CUDA_LIBS:-}${WEIR_PLUGINS:-}" ] && command -v "$python" >/dev/null 2>&1; then
    WEIR_CUDA_LIBS=$("$python" -c 'import glob, sys
print(":".join(sorted(f for p in sys.path if p for f in glob.glob(p + "/nvidia/*/lib"))))')
    export WEIR_CUDA_LIBS
fi

# head: what the table is about, at its top.
head_of() {
    printf '# %s\n\n%s\n\n' "$step" "$(printf '%s\n' "$steps" | sed -n "s/^$step  *//p")"
    {
        "$build/weir" info --device cuda 2>/dev/null | grep '^card ' || echo "no card"
        nvidia-smi --query-gpu=driver_version,memory.total --format=csv,noheader 2>/dev/null
        git -C "$root" rev-parse --short HEAD 2>/dev/null
        date +%F
    } | paste -s -d ';' - | sed 's/;/; /g'
    printf '\n| what | passed | failed | seconds |\n|---|---:|---:|---:|\n'
}

code=0
for step in $wanted; do
    begin=$(date +%s)
    passed=0 failed=0
    rows=$out/$step.rows more=$out/$step.more
    if [ -n "$dry" ]; then
        echo "$step:"
    else
        rm -f "$out/$step.md" "$out/$step.csv" "$more"
        head_of >"$rows"
        cp "$rows" "$out/$step.md"
    fi
    case $step in peers | values | graph_ops | graphs | models | uncaptured) share_card ;; esac
    "step_$step"
    unshare_card
    rm -f "$rows" "$more"
    printf '%s: %s passed, %s failed\n' "$step" "$passed" "$failed"
    [ "$failed" -eq 0 ] || code=1
    case $step:$code:$dry in
    build:1: | contact:1:)
        echo "gpu.sh: the card cannot be used: later steps are left out"
        exit 1
        ;;
    esac
done
exit "$code"
