# What scripts share; it stands before each of them.

# Waits until somebody listens at the port.
listening() {
    tries=0
    until grep -qE "$(printf ':%04X' "$1") 0+:0000 0A" /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || { echo "nobody listens at port $1"; return 1; }
        sleep 0.02
    done
}

