# With a file of users, servers of every system and memory nodes refuse strangers over RDMA; without one they do not start at
# an address that other machines reach. With a certificate, their control channels are inside TLS.
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

# A CA, and a certificate of it for the server's address.
cat >certificates.conf <<-CONF
	[req]
	distinguished_name = dn
	prompt = no
	[dn]
	CN = drover
	[ca]
	basicConstraints = critical, CA:TRUE
	[server]
	subjectAltName = IP:$A_ADDR
CONF
{
    elliptic="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -config certificates.conf"
    openssl req -x509 $elliptic -extensions ca -subj /CN=ca -keyout ca.key -out ca.pem &&
        openssl req $elliptic -keyout server.key -out server.csr &&
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial \
            -extfile certificates.conf -extensions server -out server.pem
} >openssl.log 2>&1 || { cat openssl.log; fail "no certificate"; }
tls="-Z -o ssl_chain_cert=server.pem,ssl_key=server.key"

plain="this address speaks TLS (-Z): trust the CA of its certificate, by --tls-ca FILE"
for system in herd farm race; do
    start serve --system $system --listen "$server?device=$A" -t 1 -m 64 --cores none $tls $([ $system = race ] && echo -p 0)
    said=$(./drover get key --timeout-ms 5000 --server "$ask" --auth-file users 2>&1) && fail "$system lets in a client without TLS"
    case $said in *"$plain"*) ;; *) fail "$system says to a client without TLS: $said" ;; esac
    ./drover set key value --timeout-ms 20000 --server "$ask" --auth-file users --tls-ca ca.pem || fail "$system: set inside TLS"
    found=$(./drover get key --timeout-ms 20000 --server "$ask" --auth-file users --tls-ca ca.pem)
    [ "$found" = value ] || fail "$system: get inside TLS says $found"
    stop $system
    echo "$system has its control channel inside TLS"
done
start memory-node --bind "$server?device=$A" -m 8 $tls
./drover pool status --nodes "$ask" --auth-file users && fail "a memory node lets in a client without TLS"
./drover pool status --nodes "$ask" --auth-file users --tls-ca ca.pem >/dev/null || fail "a memory node refuses its user inside TLS"
stop "the memory node"
