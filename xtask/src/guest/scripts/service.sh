# The service as deployed: a server at the first device, clients at the second, values of every size, a benchmark, and
# a server that is killed and restarted.
server="rdma://$A_ADDR:7471"
ask="$server?device=$B"

fail() {
    echo "FAILED: $1"
    cat serve.log
    exit 1
}

serve() {
    # Emptied here: the server's shell also does it, but possibly after we have read the previous server's output.
    : >serve.log
    ./drover serve --insecure --listen "$server?device=$A" -t 1 -m 16 --cores none --metrics-listen 127.0.0.1:9150 >serve.log 2>&1 &
    pid=$!
    tries=0
    until grep -q 'serving at' serve.log; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || fail "the server does not start"
        sleep 0.05
    done
}

value_of() {
    head -c "$1" /dev/urandom | od -An -v -tx1 | tr -d ' \n' | head -c "$1"
}

serve
grep 'RDMA device' serve.log
./drover get greeting --server "$ask" && fail "a key that nobody stored is found"
./drover set greeting hello --server "$ask" || fail "set"
[ "$(./drover get greeting --server "$ask")" = hello ] || fail "get says something else than set stored"
./drover delete greeting --server "$ask" || fail "delete"
./drover get greeting --server "$ask" && fail "a deleted key is found"

for bytes in 0 1 900 1100 65536 1048576; do
    value_of "$bytes" >stored
    ./drover set big --timeout-ms 20000 --server "$ask" <stored || fail "set of $bytes bytes"
    ./drover get big --raw --timeout-ms 20000 --server "$ask" >found || fail "get of $bytes bytes"
    cmp stored found || fail "$bytes bytes came back changed"
done
value_of 1048577 | ./drover set big --timeout-ms 20000 --server "$ask" && fail "a value over -I is stored"

# Metrics of the device: each is there, and moves when it should.
metric() {
    wget -q -O - http://127.0.0.1:9150/metrics | sed -n "s/^drover_rdma_$1 //p"
}

for name in qps async_events_total cq_overruns_total retries_total registration_seconds; do
    [ -n "$(metric $name)" ] || fail "no drover_rdma_$name"
done
[ "$(metric registered_bytes)" -ge 65536 ] || fail "the slots have more than $(metric registered_bytes) bytes"
./drover top --once | grep '^device ' || fail "top shows no device"

./drover bench --address "$ask" --keys 1000 --seconds 1 --repeats 1 --spin-us 0 --no-results -q || fail "bench"
# A server that answers without asking for completions takes them now and then.
succeeded='work_completions_total{status="success"}'
[ "$(metric "$succeeded")" -gt 0 ] || fail "no completion after a benchmark"

kill -9 $pid
wait $pid
./drover get big --timeout-ms 3000 --server "$ask" && fail "a dead server answers"
serve
./drover set greeting "hello again" --server "$ask" || fail "set after a restart"
[ "$(./drover get greeting --server "$ask")" = "hello again" ] || fail "get after a restart"

# A client survives a restart of its server; updates in flight are counted as failed.
gets() {
    ./drover stats --server "$ask" | sed -n 's/^cmd_get //p'
}

wait_for_gets() {
    tries=0
    until [ "$(gets)" -gt "$1" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || fail "no GET arrives"
        sleep 0.05
    done
}

./drover bench --address "$ask" --keys 200 --seconds 8 --repeats 1 --warm-up 0 --spin-us 0 --no-results >bench.log 2>&1 &
bench=$!
wait_for_gets 100 # one of them from this script
kill -9 $pid
wait $pid
serve
wait_for_gets 100
wait $bench
status=$?
cat bench.log
grep -q 'operations never finished' bench.log && fail "operations are lost with the server"
grep -q '^drover: 0 values were not what was written\|^medians' bench.log || fail "the client did not go on ($status)"
./drover stats --server "$ask" | grep cmd_get || fail "stats"
kill $pid
wait $pid || fail "the server does not stop when it is told to"
