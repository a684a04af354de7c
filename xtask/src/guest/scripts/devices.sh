# Output of `drover devices` for two software RoCE devices, and for options that no device matches.
passed=0
failed=0
# Arguments: expected status, text that the output must contain, then drover's arguments.
expect() {
    status=$1 text=$2
    shift 2
    said=$(./drover devices "$@" 2>&1)
    if [ $? = "$status" ] && echo "$said" | grep -qF "$text"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "drover devices $*: not status $status with: $text"
        echo "$said"
    fi
}
./drover devices
expect 0 "drover takes rxe0 port 1: GID"
expect 0 "RoCE v2, 10.9.0.2" --ib-dev rxe1
expect 0 '"max_inline_data": 512' --json
expect 69 "no RDMA device is called mlx5_0; there are: rxe0, rxe1" --ib-dev mlx5_0
expect 69 "rxe0 has no port 2; its ports are: 1" --ib-dev rxe0 --ib-port 2
expect 69 "has no GID with index 200" --ib-dev rxe0 --gid-index 200
/usr/sbin/ip link set v1 down || /usr/bin/ip link set v1 down
expect 69 "no port is active: rxe1 port 1 is down" --ib-dev rxe1
/usr/sbin/ip link set v1 up || /usr/bin/ip link set v1 up
echo "test result: $([ $failed = 0 ] && echo ok || echo FAILED). $passed passed; $failed failed; 0 ignored"
[ $failed = 0 ]
