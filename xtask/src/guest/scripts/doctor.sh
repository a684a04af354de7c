# `drover doctor` with two software RoCE devices: runs, and says word for word what their verbs and shared memory offer.
./drover doctor
status=$?
for fabric in shm "$A" "$B"; do
    line() { printf 'ok    %-22s %s\n' "$fabric $1" "$2"; }
    if [ $fabric = shm ]; then
        line atomics "CAS of any bits (masked) and FAA, atomic towards everything"
    else
        line atomics "CAS of whole words only and FAA, atomic towards requests to the card, not towards cores"
    fi
    line READs "8 B seen whole; a READ sees what was posted before it"
    if [ $fabric = shm ]; then
        line doorbells "none: a post is a copy"
        line "shared queues" "none"
        line "card memory" "none"
        line fencing "by a barrier of the kernel (membarrier): posts pay two stores"
    else
        line doorbells "as the driver assigns them: it has no thread domains"
        line "shared queues" "threads can share a queue pair"
        line "card memory" "none"
        line fencing "by the queue pair's error state"
    fi
done >"$TMPDIR/expected"
./drover doctor | tail -n "$(wc -l <"$TMPDIR/expected")" >"$TMPDIR/found"
if [ $status = 0 ] && cmp -s "$TMPDIR/expected" "$TMPDIR/found"; then
    echo "test result: ok. 1 passed; 0 failed; 0 ignored"
else
    echo "expected instead:"
    cat "$TMPDIR/expected"
    echo "test result: FAILED. 0 passed; 1 failed; 0 ignored"
    exit 1
fi
