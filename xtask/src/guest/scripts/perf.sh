# Every test of `drover perf` over every supported kind of queue pair, between two devices; polling, then sleeping.
# Then a client whose server is killed, which must report that. Each end has its own processor. Emulated on a busy
# machine a ping-pong takes milliseconds, so there are few.
port=19000
passed=0
failed=0

# One run with these arguments. Over UC and UD a message may be lost, which a run reports: then it is made again.
run() {
    tries=0
    until once "$@"; do
        tries=$((tries + 1))
        if [ $tries -lt 3 ] && grep -q "a message was lost" "$TMPDIR/server" "$TMPDIR/client" && echo "$*" | grep -q -- "-c U"; then
            continue
        fi
        failed=$((failed + 1))
        echo "drover perf $* $events failed:"
        cat "$TMPDIR/server" "$TMPDIR/client"
        return
    done
    passed=$((passed + 1))
    printf '%-12s %s\n' "$*" "$(tail -n 1 "$TMPDIR/client")"
}

once() {
    port=$((port + 1))
    taskset 2 ./drover perf -d "$A" -p $port $events >"$TMPDIR/server" 2>&1 &
    server=$!
    listening $port
    taskset 4 ./drover perf "$@" --warm-up 5 -d "$B" -p $port $events 127.0.0.1 >"$TMPDIR/client" 2>&1
    client=$?
    [ $client = 0 ] || kill $server 2>/dev/null
    wait $server && [ $client = 0 ]
}

for events in "" --events; do
    count=30
    [ -z "$events" ] || echo "sleeping for events:"
    run send-lat -n $count
    run send-lat -n $count -c UC
    run send-lat -n $count -c UD
    run read-lat -n $count
    run atomic-lat -n $count
    run atomic-lat -n $count -A CMP_AND_SWAP
    run send-bw -n $count -s 1024
    run write-bw -n $count -s 4096
    run write-bw -n $count -s 4096 -c UC
    run read-bw -n $count -s 4096
    run atomic-bw -n $count
done
events=
run write-lat -n 30
run write-lat -n 30 -c UC
run write-lat -n 30 -s 4096
run send-lat -n 5 -s 1048576

# The server is killed while its client waits for the next pong.
port=$((port + 1))
./drover perf -d "$A" -p $port >/dev/null 2>&1 &
server=$!
listening $port
./drover perf write-lat -D 30 -d "$B" -p $port 127.0.0.1 >"$TMPDIR/client" 2>&1 &
client=$!
connected $port
sleep 1
kill -9 $server
wait $client
if [ $? = 69 ] && grep -q "the other end has gone" "$TMPDIR/client"; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "a killed server: "
    cat "$TMPDIR/client"
fi
echo "test result: $([ $failed = 0 ] && echo ok || echo FAILED). $passed passed; $failed failed; 0 ignored"
[ $failed = 0 ]
