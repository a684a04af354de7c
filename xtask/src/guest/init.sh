#!/usr/bin/busybox sh
# The guest's first and only program: makes RDMA devices, runs the scenarios, switches off.
# Ordinary programs are busybox's; what comes from iproute2 is called by its path.
/usr/bin/busybox mkdir -p /applets
/usr/bin/busybox --install -s /applets
export PATH=/applets:/usr/sbin:/usr/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev 2>/dev/null
export TMPDIR=/scratch
mkdir -p /dev/shm $TMPDIR && mount -t tmpfs shm /dev/shm && mount -t tmpfs scratch $TMPDIR
ip() { /usr/sbin/ip "$@" 2>/dev/null || /usr/bin/ip "$@"; }
stty -F /dev/ttyS1 raw -echo
exec </dev/null >/dev/ttyS1 2>&1

switch_off() {
    sleep 0.1
    poweroff -f
    exit # the kernel cannot go on without its first program: that ends the machine too
}

# Says a line about the run, with $2 before it. The shell's own echo loses the line when a child of the shell ends
# during the write: the signal interrupts it. Orphans become this shell's children; a process of its own has none.
say() { /usr/bin/busybox printf "$2guest: %s\n" "$1"; }

give_up() {
    say "$1"
    switch_off
}

for module in $(cat /modules/order); do
    insmod "/modules/$module" || give_up "module $module cannot be loaded"
done
ulimit -l unlimited
ip link set lo up
ip link add v0 type veth peer name v1

# Two devices with a wire between them. Both addresses are this machine's, so the kernel would never send a packet
# through the wire: the table of local addresses is asked last for packets between the two, and arriving ones may come
# from an address of our own. A device that talks to itself does not notice.
for side in all v0 v1; do
    echo 1 >/proc/sys/net/ipv4/conf/$side/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/$side/rp_filter
done
ip addr add 10.9.0.1/32 dev v0
ip addr add 10.9.0.2/32 dev v1
for side in 0 1; do
    here=10.9.0.$((1 + side))
    there=10.9.0.$((2 - side))
    ip link set v$side up
    ip rule add pref $((10 + side)) iif v$side lookup local
    ip rule add pref $((20 + side)) from $here to $there lookup $((100 + side))
done
for side in 0 1; do
    here=10.9.0.$((1 + side))
    there=10.9.0.$((2 - side))
    ip route add $there dev v$side src $here table $((100 + side))
    ip neigh add $there lladdr "$(cat /sys/class/net/v$((1 - side))/address)" dev v$side nud permanent
done
ip rule add pref 100 lookup local
ip rule del pref 0

# A device needs a moment until its port is active.
for side in 0 1; do
    /usr/bin/rdma link add rxe$side type rxe netdev v$side || give_up "no software RoCE device"
    tries=0
    until grep -q ACTIVE "/sys/class/infiniband/rxe$side/ports/1/state"; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || give_up "rxe$side does not become active"
        sleep 0.05
    done
done

# Sets what the wire does to packets in each direction: how many of a hundred it loses, how many ms it holds them.
wire() {
    for side in 0 1; do
        /usr/sbin/tc qdisc del dev v$side root 2>/dev/null
        [ "$1 $2" = "0 0" ] || /usr/sbin/tc qdisc add dev v$side root netem loss "$1%" delay "$2ms" limit 100000 ||
            give_up "no such wire"
    done
}

# Hundredths of a second since the machine began.
hundredths() {
    read -r seconds _ </proc/uptime
    echo "${seconds%.*}${seconds#*.}"
}

# Runs scenario $1 to its end; its status, and the hundredths of a second that it took, go to the file $TMPDIR/$1.status.
# Works in a subshell, beside others.
run() {
    set -a
    . "/scenarios/$1/environment"
    set +a
    began=$(hundredths)
    timeout -k 2 "$SECONDS_MAX" sh "/scenarios/$1/script"
    echo "$? $(($(hundredths) - began))" >"$TMPDIR/$1.status"
}

# Runs scenarios beside each other, as many at a time as $1 says. The output of each goes to $TMPDIR/$name.said.
run_beside() {
    together=$1
    shift
    begun=0
    for name; do
        until [ $((begun - $(ls "$TMPDIR" | grep -c '\.status$'))) -lt "$together" ]; do sleep 0.1; done
        (run "$name") >"$TMPDIR/$name.said" 2>&1 &
        begun=$((begun + 1))
    done
    wait
}

# Says how scenario $1 ended.
ended() {
    read -r status took <"$TMPDIR/$1.status"
    if [ "$status" != 0 ]; then
        echo "--- processes and the kernel's last words:"
        ps -o pid,stat,args | grep -v '\[' | tail -n 20
        dmesg | tail -n 20
    fi
    say "end $1 $status $took" '\n'
}

say ready
cd /app
# Each line has a scenario, or several that run beside each other on one wire; their output follows one after the other.
while read -r first others <&3; do
    wire $(. "/scenarios/$first/environment" && echo "$LOSS" "$DELAY")
    if [ -z "$others" ]; then
        say "begin $first"
        (run "$first")
        ended "$first"
    else
        run_beside "$(cat /scenarios/together)" $first $others &
        for name in $first $others; do
            say "begin $name"
            until [ -s "$TMPDIR/$name.status" ]; do sleep 0.1; done
            cat "$TMPDIR/$name.said"
            ended "$name"
        done
    fi
    kill -9 -1
    # Nothing of a scenario outlives it: not its programs, nor what they left.
    rm -rf $TMPDIR/* /dev/shm/*
done 3</scenarios/order
switch_off
