# drover perf compared with perftest: the same test, size and depth between the same devices, interleaved. A round yields
# a median (latency) or a mean (rate); the script prints medians of rounds and checks the median ratio. Emulated, absolute numbers mean
# nothing, but ratios do. Both programs poll, and each end has its own processor, the same for both programs: if two
# ends share one, a ping-pong takes two ticks of the scheduler.
rounds=${ROUNDS:-15}
port=20000
figures=$TMPDIR/figures
: >"$figures"

# Index of a device's IPv4 address in its GID table.
gid_index() {
    for gid in /sys/class/infiniband/"$1"/ports/1/gids/*; do
        case $(cat "$gid") in
        0000:0000:0000:0000:0000:ffff:*) echo "${gid##*/}" && return ;;
        esac
    done
}
a_gid=$(gid_index "$A")
b_gid=$(gid_index "$B")

# Fifth column of the row with this size: the median latency, or the rate in million messages.
figure() {
    awk '$1 == '"$1"' { value = $5 } END { print value }' "$2"
}

# One run: name of the test, bytes, iterations, and further arguments of both programs.
theirs() {
    test=$1 size=$2 count=$3
    shift 3
    port=$((port + 1))
    taskset 2 "ib_$(echo "$test" | tr - _)" -d "$A" -x "$a_gid" -p $port -s "$size" -n "$count" "$@" -F >$TMPDIR/server 2>&1 &
    listening $port || return 1
    taskset 4 "ib_$(echo "$test" | tr - _)" -d "$B" -x "$b_gid" -p $port -s "$size" -n "$count" "$@" -F 127.0.0.1 \
        >$TMPDIR/client 2>&1 || { cat $TMPDIR/server $TMPDIR/client; return 1; }
    wait
    echo "$test-$size theirs $(figure "$size" $TMPDIR/client)" >>"$figures"
}
ours() {
    test=$1 size=$2 count=$3
    shift 3
    port=$((port + 1))
    taskset 2 ./drover perf "$test" -d "$A" -x "$a_gid" -p $port -s "$size" -n "$count" "$@" >$TMPDIR/server 2>&1 &
    listening $port || return 1
    taskset 4 ./drover perf "$test" -d "$B" -x "$b_gid" -p $port -s "$size" -n "$count" "$@" 127.0.0.1 \
        >$TMPDIR/client 2>&1 || { cat $TMPDIR/server $TMPDIR/client; return 1; }
    wait
    echo "$test-$size ours $(figure "$size" $TMPDIR/client)" >>"$figures"
}

# Median, minimum and maximum of one program's results for one test.
spread() {
    grep "^$1 $2 " "$figures" | cut -d' ' -f3 | middle
}
middle() {
    sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)], value[1], value[NR] }'
}

# Median, minimum and maximum of the ratio ours / theirs per round, and the number of rounds beyond the bound. On a
# virtual clock perftest sometimes reports infinite times; such a round does not count.
ratios() {
    grep "^$1 " "$figures" | awk '{ count[$2] += 1; value[$2, count[$2]] = $3 }
        END { for (n = 1; n <= count["ours"]; n++) if (value["theirs", n] ~ /^[0-9.]+$/ && value["theirs", n] > 0)
            print value["ours", n] / value["theirs", n] }'
}
beyond() {
    awk -v test="$1" '(test ~ /lat$/ ? $1 > 1.15 : $1 < 0.9) { n += 1 } END { print n + 0 }'
}

passed=0
failed=0
# Bounds: the median of our latency by theirs, of 15 rounds, is at most 1.15, that of rates at least 0.9. Rounds end when 8 are
# on one side, since the rest could not move the median across. One round in six is beyond the bound though the programs are as
# fast as each other: eight of 15 are that once in some thousand runs.
compare() {
    name=$1-$2
    played=0 counted=0 missed=0
    half=$((rounds / 2 + 1))
    while [ $missed -lt $half ] && [ $((counted - missed)) -lt $half ]; do
        [ $played -lt $((2 * rounds)) ] || { echo "$name: perftest reports no times"; failed=$((failed + 1)); return; }
        played=$((played + 1))
        # The order of the two programs alternates.
        if [ $((played % 2)) = 0 ]; then
            theirs "$@" && ours "$@" || { failed=$((failed + 1)); return; }
        else
            ours "$@" && theirs "$@" || { failed=$((failed + 1)); return; }
        fi
        counted=$(ratios "$name" | wc -l)
        missed=$(ratios "$name" | beyond "$1")
    done
    ratio=$(ratios "$name" | middle)
    if [ $missed -lt $half ]; then verdict=kept; else verdict=MISSED; fi
    echo "$name" $(spread "$name" ours) $(spread "$name" theirs) $ratio $counted $missed $verdict | awk '{
        printf "%-12s %9s (%8s to %8s) %9s (%8s to %8s)   %.2f (%.2f to %.2f), %d of %d beyond: %s\n",
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $12, $11, $13
    }'
    case $verdict in
    kept) passed=$((passed + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
}

echo "medians (least to most) of rounds: us of latency, millions of messages a second; ratios round by round"
printf '%-12s %32s %32s   %s\n' test-bytes 'drover perf' perftest ratio
compare write-lat 8 300 -I 64
compare send-lat 8 300 -I 64
compare read-lat 8 300
compare write-bw 64 2000 -t 128 -I 0
echo "test result: $([ $failed = 0 ] && echo ok || echo FAILED). $passed passed; $failed failed; 0 ignored"
[ $failed = 0 ]
