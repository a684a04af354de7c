# Runs the image that was built as it says, uses it from inside and by TCP, and stops it; in a network of its own. $1 is a folder for
# the log. BUILDER: a command that runs containers, with its options.
set -e
cd "$1"
fail() {
    echo "FAILED: $1"
    cat log
    exit 1
}

container=$($BUILDER from --pull-never localhost/drover-image)
word() {
    $BUILDER inspect --type container --format "{{range $1}}{{.}} {{end}}" "$container"
}
ip link set lo up
# Not quoted: lists of words.
: >log
$BUILDER run "$container" -- $(word .Docker.Config.Entrypoint) -m 32 >log 2>&1 &
run=$!
tries=0
until grep -q "serving at" log; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] && kill -0 $run || fail "it does not serve"
    sleep 0.05
done
server=$(pgrep --ns $$ --nslist net --exact drover) || fail "no server"
[ "$(stat --format %u "/proc/$server")" = 990 ] || fail "it does not run as the user of the image"
inside() {
    $BUILDER run "$container" -- "$@"
}
inside drover set key "from inside" --server shm:/run/drover/drover.sock || fail "no native client inside"
said=$(bash -c 'exec 3<>/dev/tcp/127.0.0.1/11211; printf "get key\r\nquit\r\n" >&3; cat <&3')
case $said in
*"from inside"*) ;;
*) fail "memcached's port says: $said" ;;
esac
health=$(word .Docker.Config.Healthcheck.Test)
inside ${health#CMD } >/dev/null || fail "the check of its health says it is ill: $health"
kill -TERM "$server"
wait $run || fail "it does not stop well"
$BUILDER rm "$container" >/dev/null
