# With a file of users, servers of every system and memory nodes refuse strangers over RDMA; without one they do not start at
# an address that other machines reach.
server="rdma://$A_ADDR:7471"
ask="$server?device=$B"
secret=open-sesame-97

fail() {
    echo "FAILED: $1"
    cat serve.log
    exit 1
}

umask 077
echo "me:$secret" >users
echo "me:open-barley" >wrong
echo "$secret" >secret
./drover serve --listen "$server?device=$A" >serve.log 2>&1 && fail "a server without users starts"
grep -q 'nothing keeps strangers out: -Y FILE' serve.log || fail "no advice"

# Starts what the words say, and waits until it listens.
start() {
    ./drover "$@" -Y users >serve.log 2>&1 &
    pid=$!
    listening 7471 || fail "it does not start: $*"
}
stop() {
    kill $pid
    wait $pid || fail "$1 does not stop when it is told to"
    ! grep -q "$secret" serve.log || fail "the secret is in the log of $1"
}

# The systems that there are, as drover lists them.
systems=$(./drover serve --system none 2>&1 | sed 's/.*expected //; s/ or / /g')
[ "$(echo $systems | wc -w)" -gt 5 ] || fail "which systems are there? $systems"
for system in $systems; do
    start serve --system "$system" --listen "$server?device=$A" -t 1 -m 64 --cores none $([ "$system" = race ] && echo -p 0)
    ps -o args | grep -qf secret && fail "the secret is in an argument"
    for who in "" "--auth-file wrong"; do
        # Words, or none.
        said=$(./drover get key --timeout-ms 5000 --server "$ask" $who 2>&1) && fail "$system lets in a stranger $who"
        case $said in
        *"--auth-file FILE, or the environment"* | *"wrong user or password"*) ;;
        *) fail "$system says to a stranger $who: $said" ;;
        esac
    done
    ./drover set key value --timeout-ms 20000 --server "$ask" --auth-file users || fail "$system: set"
    found=$(DROVER_AUTH="me:$secret" ./drover get key --timeout-ms 20000 --server "$ask")
    [ "$found" = value ] || fail "$system: get says $found"
    stop "$system"
    echo "$system lets in its users and nobody else"
done

start memory-node --bind "$server?device=$A" -m 8
./drover pool status --nodes "$ask" && fail "a memory node lets in a stranger"
./drover pool status --nodes "$ask" --auth-file users >/dev/null || fail "a memory node refuses its user"
stop "the memory node"
