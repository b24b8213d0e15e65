# launch.sh - weir launch: ranks that join, exit codes, ranks that die or hang, signals.
# shellcheck shell=sh disable=SC2016,SC2154
#
# Read by tool.sh, whose functions it uses; single quotes keep $WEIR_COMM for the ranks' shells.

# launched CODE NAME RANKS ARGUMENT...: ends with CODE; its output is in $work/NAME and NAME.err.
launched() {
    want=$1 name=$2 ranks=$3
    shift 3
    "$weir" launch --ranks "$ranks" "$@" >"$work/$name" 2>"$work/$name.err" </dev/null
    code=$?
    [ "$code" -eq "$want" ]
    check "$?" "weir launch $name ends with $want (it was $code: $(head -n 1 "$work/$name.err"))"
}

# waits TEST...: until the test holds, 10 s at most.
waits() {
    tries=0
    until "$@" || [ "$((tries += 1))" -gt 100 ]; do
        sleep 0.1
    done
    "$@"
}

# gone PID...: none of the processes runs; the system may not have taken their exit codes yet.
gone() {
    for pid in "$@"; do
        [ ! -e "/proc/$pid" ] || grep -q '^State:.Z' "/proc/$pid/status" || return 1
    done
}

# ranks_of FOLDER N: N ranks have written their process ids there.
ranks_of() {
    [ "$(find "$1" -name '[0-9]*' | wc -l)" -eq "$2" ]
}
only_1='case $WEIR_COMM in *rank=1,*)'

# A rank that ignores SIGTERM while another has failed: 15 s, beside the other cases.
mkdir "$work/stubborn"
"$weir" launch --ranks 3 -- sh -c "echo \$\$ >'$work/stubborn'/\$\$
    $only_1 exit 5 ;; *rank=2,*) trap '' TERM ;; esac; exec sleep 60" \
    >"$work/stubborn.out" 2>"$work/stubborn.err" </dev/null &
stubborn=$!

good launch_help launch --help
says launch_help '^usage: weir launch --ranks N \[--\] PROGRAM \[ARGUMENT...\]'
bad 2 'needs --ranks and a program' launch --ranks 2
bad 2 'needs --ranks and a program' launch true --ranks 2
bad 2 "--ranks must be a whole number from 1 to 64, not '0'" launch --ranks 0 true
bad 2 "--ranks must be a whole number from 1 to 64, not '65'" launch --ranks 65 true
bad 2 "unknown option '--rnks' (did you mean --ranks?)" launch --rnks 2 true
bad 127 "cannot execute 'no-such-program': No such file" launch --ranks 2 no-such-program
bad 127 "cannot execute '$work': Permission denied" launch --ranks 2 "$work"

# Arguments and variables arrive as they were given.
launched 0 arguments 1 printf '[%s]' --ranks 7 --help '' 'a b'
[ "$(cat "$work/arguments")" = '[--ranks][7][--help][][a b]' ]
check "$?" "options behind the program are the program's: $(cat "$work/arguments")"
launched 0 arguments 1 -- printf '[%s]' -- --json
[ "$(cat "$work/arguments")" = '[--][--json]' ]
check "$?" "-- ends the options of weir launch: $(cat "$work/arguments")"
for threads in 5 ''; do
    export WEIR_THREADS="$threads"
    launched 0 variables 2 sh -c 'echo "$WEIR_COMM threads=$WEIR_THREADS"'
    for rank in 0 1; do
        says variables "^local:launch-[0-9]+-[0-9]+,rank=$rank,world=2 threads=${threads:-[1-9]}"
    done
    [ "$(sed 's/,.*//' "$work/variables" | sort -u | wc -l)" -eq 1 ]
    check "$?" "ranks get one name: $(cat "$work/variables")"
done
cores=$("$weir" info --json - | sed -n 's/.*"threads": \([0-9]*\),.*/\1/p')
share=$((cores > 1 ? cores / 2 : 1))
launched 0 threads 2 sh -c 'echo "threads=$WEIR_THREADS"'
[ "$(grep -c "^threads=$share\$" "$work/threads")" -eq 2 ]
check "$?" "2 ranks get $share of $cores cores each: $(cat "$work/threads")"
unset WEIR_THREADS
echo word | "$weir" launch --ranks 3 sh -c 'echo "${WEIR_COMM#*,} $(cat)"' >"$work/stdin"
[ "$(sort "$work/stdin" | tr '\n' ';')" = 'rank=0,world=3 word;rank=1,world=3 ;rank=2,world=3 ;' ]
check "$?" "rank 0 alone reads stdin: $(cat "$work/stdin")"

# Ranks join: the bits of one process.
"$build/parallel" 1 >"$work/alone"
for ranks in 1 2 4; do
    launched 0 joined "$ranks" "$build/parallel" auto
    [ "$(grep -c '^bits ' "$work/joined")" -eq 1 ]
    check "$?" "$ranks ranks train one model: $(cat "$work/joined" "$work/joined.err")"
done
[ "$(grep '^bits ' "$work/joined")" = "$(grep '^bits ' "$work/alone")" ]
check "$?" "4 ranks have the bits of one process: $(cat "$work/joined" "$work/alone")"
torchrun=
for rank in 0 1; do
    TORCHELASTIC_RUN_ID="tool-$$" RANK="$rank" WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 \
        "$build/parallel" auto >"$work/torchrun$rank" 2>&1 &
    torchrun="$torchrun $!"
done
# shellcheck disable=SC2086
wait $torchrun
"$build/parallel" 2 >"$work/two"
[ "$(cat "$work/torchrun0" "$work/torchrun1")" = "$(cat "$work/two")" ]
check "$?" "ranks of torchrun join: $(cat "$work/torchrun0" "$work/torchrun1" "$work/two")"
launched 1 three 3 "$build/parallel" auto
says three.err '^parallel: 1, 2 or 4 ranks'
WEIR_COMM=elsewhere "$build/parallel" auto >"$work/elsewhere" 2>&1
says elsewhere "WEIR_COMM 'elsewhere' \(expected auto, local:"

# The first rank that fails gives the exit code, in one sentence; no rank is left.
launched 7 code 2 sh -c "$only_1 exit 7 ;; esac; sleep 0.5"
says code.err '^weir launch: rank 1 ended with exit code 7; 1 other has 10 s to end$'
[ "$(wc -l <"$work/code.err")" -eq 1 ]
check "$?" "weir launch says one sentence: $(cat "$work/code.err")"
launched 137 killed 3 sh -c "$only_1 kill -9 \$\$ ;; esac; sleep 0.5; exit 3"
says killed.err '^weir launch: rank 1 was killed by signal 9 \(.*\); 2 others have 10 s to end$'
launched 4 alone_fails 1 sh -c 'exit 4'
says alone_fails.err '^weir launch: rank 0 ended with exit code 4$'

# ended SIGNAL CODE COMMAND: sends a signal to weir launch once all of its ranks run COMMAND.
ended() {
    signal=$1 want=$2
    rm -rf "$work/ranks"
    mkdir "$work/ranks"
    "$weir" launch --ranks 3 sh -c "$3; echo >'$work/ranks'/\$\$; while :; do sleep 0.1; done" \
        >"$work/ended" 2>"$work/ended.err" </dev/null &
    launcher=$!
    waits ranks_of "$work/ranks" 3
    check "$?" "3 ranks run: $(cat "$work/ended.err")"
    # shellcheck disable=SC2046
    set -- $(ls "$work/ranks")
    kill -"$signal" "$launcher"
    wait "$launcher" 2>/dev/null
    code=$?
    [ "$code" -eq "$want" ]
    check "$?" "weir launch ends with $want after SIG$signal (it was $code)"
    waits gone "$@"
    check "$?" "no rank is left after SIG$signal"
}
ended TERM 143 :
says ended.err '^weir launch: rank [0-2] was killed by signal 15 '
ended TERM 0 'trap "exit 0" TERM'
[ ! -s "$work/ended.err" ]
check "$?" "ranks that end orderly are no failure: $(cat "$work/ended.err")"
ended USR1 6 'trap "exit 6" USR1'
ended KILL 137 :
# A shell starts what is in the background with SIGINT ignored; env restores it.
if env --default-signal=INT true 2>/dev/null; then
    env --default-signal=INT "$weir" launch --ranks 2 sh -c \
        "trap 'exit 9' INT; echo >'$work/ranks'/\$\$; while :; do sleep 0.1; done" \
        >"$work/int" 2>&1 </dev/null &
    launcher=$!
    rm -f "$work/ranks"/*
    waits ranks_of "$work/ranks" 2
    kill -INT "$launcher"
    wait "$launcher"
    code=$?
    [ "$code" -eq 9 ]
    check "$?" "SIGINT reaches the ranks (code $code: $(cat "$work/int"))"
fi

# A rank dies before all have met: the others are ended, nothing stays in shared memory.
launched 3 meeting 2 sh -c "$only_1 sleep 1; exit 3 ;; esac; exec '$build/parallel' auto"
says meeting.err '^weir launch: 1 rank has not ended: SIGTERM$'
left=$(find /dev/shm -name 'weir-launch-*' 2>/dev/null)
[ -z "$left" ]
check "$?" "no shared memory is left: $left"

wait "$stubborn"
code=$?
[ "$code" -eq 5 ]
check "$?" "weir launch ends with 5 though a rank ignores SIGTERM (it was $code)"
for line in 'rank 1 ended with exit code 5; 2 others have 10 s to end' \
    '2 ranks have not ended: SIGTERM' '1 rank has not ended 5 s after SIGTERM: SIGKILL'; do
    says stubborn.err "^weir launch: $line\$"
done
# shellcheck disable=SC2046
waits gone $(ls "$work/stubborn")
check "$?" "no rank is left after SIGKILL"
