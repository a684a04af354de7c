# Replies wait in the server's queue while their requests are repeated: a driver has only so many packets under way.
./herd_processes late $A $B || exit 1
# A server that builds replies where earlier ones may still be read from must be noticed.
./herd_processes late-rebuilds $A $B > planted.txt 2>&1
if ! grep -q 'a value nobody wrote' planted.txt; then
    tail -n 20 planted.txt
    echo 'replies that were built too early have not been noticed'
    exit 1
fi
