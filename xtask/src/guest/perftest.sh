# drover perf beside perftest: the same test, size and depth between the same devices, by turns. Printed are medians
# over all rounds, with the least and the most of them; each round's figure is itself a median (latency) or a mean
# (rate). Emulated, the figures mean nothing; what one program does beside the other does.
rounds=${ROUNDS:-5}
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

# Waits until somebody listens at the port.
listening() {
    tries=0
    until grep -qE "$(printf ':%04X' "$1") 0+:0000 0A" /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || { echo "nobody listens at port $1"; return 1; }
        sleep 0.02
    done
}

# The fifth column of the row of so many bytes: of latency the median, of rate the millions of messages.
figure() {
    awk '$1 == '"$1"' { value = $5 } END { print value }' "$2"
}

# One run: the name of the test, bytes, iterations, and what else both programs are told.
theirs() {
    test=$1 size=$2 count=$3
    shift 3
    port=$((port + 1))
    "ib_$(echo "$test" | tr - _)" -d "$A" -x "$a_gid" -p $port -s "$size" -n "$count" "$@" -F >$TMPDIR/server 2>&1 &
    listening $port || return 1
    "ib_$(echo "$test" | tr - _)" -d "$B" -x "$b_gid" -p $port -s "$size" -n "$count" "$@" -F 127.0.0.1 \
        >$TMPDIR/client 2>&1 || { cat $TMPDIR/server $TMPDIR/client; return 1; }
    wait
    echo "$test-$size theirs $(figure "$size" $TMPDIR/client)" >>"$figures"
}
ours() {
    test=$1 size=$2 count=$3
    shift 3
    port=$((port + 1))
    ./drover perf "$test" -d "$A" -x "$a_gid" -p $port -s "$size" -n "$count" "$@" >$TMPDIR/server 2>&1 &
    listening $port || return 1
    ./drover perf "$test" -d "$B" -x "$b_gid" -p $port -s "$size" -n "$count" "$@" 127.0.0.1 \
        >$TMPDIR/client 2>&1 || { cat $TMPDIR/server $TMPDIR/client; return 1; }
    wait
    echo "$test-$size ours $(figure "$size" $TMPDIR/client)" >>"$figures"
}

# Median, least and most of one program's figures for one test.
spread() {
    grep "^$1 $2 " "$figures" | cut -d' ' -f3 | sort -n |
        awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)], value[1], value[NR] }'
}

passed=0
failed=0
# What must be: our latency at most 1.15 of theirs, our rate at least 0.9.
compare() {
    name=$1-$2
    for round in $(seq "$rounds"); do
        # Whoever begins has the same luck as the other in the long run.
        if [ $((round % 2)) = 0 ]; then
            theirs "$@" && ours "$@" || { failed=$((failed + 1)); return; }
        else
            ours "$@" && theirs "$@" || { failed=$((failed + 1)); return; }
        fi
    done
    set -- "$1" $(spread "$name" ours) $(spread "$name" theirs)
    verdict=$(echo "$@" | awk '{
        ratio = $2 / $5
        good = $1 ~ /lat$/ ? ratio <= 1.15 : ratio >= 0.9
        printf "%.2f %s", ratio, good ? "kept" : "MISSED"
    }')
    printf '%-18s %9s (%9s to %9s) %9s (%9s to %9s)   %s\n' "$name" "$2" "$3" "$4" "$5" "$6" "$7" "$verdict"
    case $verdict in
    *kept) passed=$((passed + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
}

echo "medians of $rounds rounds (least to most): us of latency, millions of messages a second"
printf '%-18s %34s %34s   %s\n' test-bytes 'drover perf' perftest 'ratio'
compare write-lat 8 300 -I 64
compare send-lat 8 300 -I 64
compare read-lat 8 300
compare write-bw 64 2000 -t 128 -I 0
echo "test result: $([ $failed = 0 ] && echo ok || echo FAILED). $passed passed; $failed failed; 0 ignored"
[ $failed = 0 ]
