# Metrics of RDMA devices, over a wire that loses packets: of a server, of a gateway to it, of the nodes of a pool, and of a
# process of that pool. Each is there, and moves when it should.
server="rdma://$A_ADDR:7471"
nodes="rdma://$A_ADDR:7473"

fail() {
    echo "FAILED: $1"
    tail -n 20 ./*.log
    exit 1
}

# Waits until a command succeeds.
await() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 400 ] || fail "never: $*"
        sleep 0.05
    done
}

# The sum of a metric at a port, whatever its labels; nothing if it is not there. Millionths, so that the shell can compare.
metric() {
    wget -q -O - "http://127.0.0.1:$1/metrics" |
        awk -v name="$2" '{ split($1, of, "{") } of[1] == name { sum += $2; found = 1 } END { if (found) printf "%.0f\n", sum * 1000000 }'
}

# Completions at a port that were no success.
failures() {
    wget -q -O - "http://127.0.0.1:$1/metrics" |
        awk '/^drover_rdma_work_completions_total/ && !/"success"/ { sum += $2 } END { print sum + 0 }'
}

more_than() {
    now=$(metric "$1" "$2")
    [ "${now:-0}" -gt "$3" ]
}
at_most() {
    [ "$(metric "$1" "$2")" -le "$3" ]
}
failed_more_than() {
    [ "$(failures "$1")" -gt "$2" ]
}

# Starts a program of ours in the background, and waits until it shows metrics at the port.
start() {
    port=$1
    shift
    ./drover "$@" --metrics-listen "127.0.0.1:$port" >"$port.log" 2>&1 &
    listening "$port" || fail "$*"
    await more_than "$port" drover_up 0
}

# Sets keys through the memcached port $1: $3 of them from number $2 on.
sets() {
    awk -v from="$2" -v count="$3" 'BEGIN {
        for (i = 0; i < count; i++) printf "set key%d 0 0 1 noreply\r\n1\r\n", from + i
        printf "quit\r\n"
    }' | nc -w 60 127.0.0.1 "$1" >/dev/null
}
# Gets the first of them.
gets() {
    awk 'BEGIN { for (i = 0; i < 200; i++) printf "get key%d\r\n", i; printf "quit\r\n" }' | nc -w 60 127.0.0.1 "$1" >/dev/null
}

# Loses this many per cent of the packets, in both directions.
wire() {
    for side in v0 v1; do
        /usr/sbin/tc qdisc replace dev $side root netem loss "$1%" limit 100000 || fail "no such wire"
    done
}

start 9150 serve --system pilaf --insecure --listen "$server?device=$A" -t 1 -m 16 --cores none
start 9152 memory-node --insecure --bind "$nodes?device=$A" -m 32
./drover pool create --system race --nodes "$nodes?device=$B" || fail "no pool"
before_qps=$(metric 9150 drover_rdma_qps)
before_bytes=$(metric 9150 drover_rdma_registered_bytes)
before_time=$(metric 9150 drover_rdma_registration_seconds)

# A client that comes has queue pairs and memory registered for it; when it goes, so do its queue pairs.
start 9151 serve --connect "$server?device=$B" -l 127.0.0.1 -p 11311 -t 1
await more_than 9150 drover_rdma_qps "$before_qps"
await more_than 9150 drover_rdma_registered_bytes "$before_bytes"
await more_than 9150 drover_rdma_registration_seconds "$before_time"
with_gateway=$(metric 9150 drover_rdma_qps)
with_gateway_time=$(metric 9150 drover_rdma_registration_seconds)
./drover set key 1 --server "$server?device=$B" || fail "set"
await more_than 9150 drover_rdma_registration_seconds "$with_gateway_time"
await at_most 9150 drover_rdma_qps "$with_gateway"

start 9153 serve --pool "$nodes?device=$B" -l 127.0.0.1 -p 11313 -t 1
start 9154 serve --pool "$nodes?device=$B" -l 127.0.0.1 -p 11314 -t 1

for port in 9150 9151 9152 9153; do
    for name in qps work_completions_total retries_total registered_bytes registration_seconds cq_overruns_total async_events_total; do
        [ -n "$(metric $port drover_rdma_$name)" ] || fail "no drover_rdma_$name at port $port"
    done
    more_than $port drover_rdma_qps 0 || fail "no queue pairs at port $port"
    more_than $port drover_rdma_registered_bytes 0 || fail "nothing registered at port $port"
    ./drover top --once "127.0.0.1:$port" | grep '^device .*queue pairs' || fail "top shows no device at port $port"
done

# Work is completed, and lost packets are sent again.
for pair in 9151:11311 9153:11313; do
    completions=$(metric "${pair%:*}" drover_rdma_work_completions_total)
    retries=$(metric "${pair%:*}" drover_rdma_retries_total)
    sets "${pair#*:}" 0 200
    gets "${pair#*:}"
    await more_than "${pair%:*}" drover_rdma_work_completions_total "$completions"
    more_than "${pair%:*}" drover_rdma_retries_total "$retries" || fail "no packet was sent again: $pair"
done

# The other process splits tables, so READs of this one come too late. That takes many keys, and no lost packets.
wire 0
reread=$(metric 9153 drover_onesided_retries_total)
rounds=0
until more_than 9153 drover_onesided_retries_total "$reread"; do
    rounds=$((rounds + 1))
    [ $rounds -lt 12 ] || fail "READs are never repeated"
    sets 11314 $((rounds * 2000)) 2000
    gets 11313
done

# A wire that loses everything for a while makes requests fail, and the gateway goes on when it is mended.
failed=$(failures 9151)
(while gets 11311; do :; done) &
await more_than 9151 drover_rdma_work_completions_total "$(metric 9151 drover_rdma_work_completions_total)"
wire 100
await failed_more_than 9151 "$failed"
wire 0
await ./drover get key0 --server "$server?device=$B" --timeout-ms 2000

# An address comes and goes: the device reports it.
events=$(metric 9153 drover_rdma_async_events_total)
/usr/sbin/ip addr add 10.9.0.9/32 dev v1 || /usr/bin/ip addr add 10.9.0.9/32 dev v1
await more_than 9153 drover_rdma_async_events_total "$events"
/usr/sbin/ip addr del 10.9.0.9/32 dev v1 || /usr/bin/ip addr del 10.9.0.9/32 dev v1
