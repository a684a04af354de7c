# drover perf beside perftest: the same test, size and depth between the same devices, by turns. A round's figure is a
# median (latency) or a mean (rate); printed and judged are medians of rounds. Emulated, figures mean nothing; what one
# program does beside the other does. Both poll, and each end has a processor of its own, the same for both programs:
# where two ends share one, a ping-pong takes two ticks of the scheduler.
rounds=${ROUNDS:-7}
port=20000
figures=$TMPDIR/figures
: >"$figures"

# The place of a device's IPv4 address among its addresses.
gid_index() {
    for gid in /sys/class/infiniband/"$1"/ports/1/gids/*; do
        case $(cat "$gid") in
        0000:0000:0000:0000:0000:ffff:*) echo "${gid##*/}" && return ;;
        esac
    done
}
a_gid=$(gid_index "$A")
b_gid=$(gid_index "$B")

# The fifth column of the row of so many bytes: of latency the median, of rate the millions of messages.
figure() {
    awk '$1 == '"$1"' { value = $5 } END { print value }' "$2"
}

# One run: the name of the test, bytes, iterations, and what else both programs are told.
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

# Median, least and most of one program's figures for one test.
spread() {
    grep "^$1 $2 " "$figures" | cut -d' ' -f3 | middle
}
middle() {
    sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)], value[1], value[NR] }'
}

# The same of ours over theirs, round by round, and how many of them are beyond the bound. On a virtual clock perftest
# sometimes takes the time of everything for infinite; such a round does not count.
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
# What must be: our latency at most 1.15 of theirs, our rate at least 0.9. Of rounds that have nothing to do with each
# other half are beyond what is just kept, and now and then more than half: missed is what all rounds but one, at most, miss.
# That happens by chance once in 16 times to a program on the bound, and hardly ever to one as quick as the other. The
# number of rounds is fixed beforehand: who measures again only after a miss measures luck.
compare() {
    name=$1-$2
    round=0
    while [ $round -lt $rounds ]; do
        round=$((round + 1))
        # Neither is always the first.
        if [ $((round % 2)) = 0 ]; then
            theirs "$@" && ours "$@" || { failed=$((failed + 1)); return; }
        else
            ours "$@" && theirs "$@" || { failed=$((failed + 1)); return; }
        fi
    done
    ratio=$(ratios "$name" | middle)
    counted=$(ratios "$name" | wc -l)
    missed=$(ratios "$name" | beyond "$1")
    if [ "$counted" -ge 3 ] && [ "$missed" -lt $((counted - 1)) ]; then verdict=kept; else verdict=MISSED; fi
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
