# Functions that all scripts share; prepended to each of them.

# The shell's own echo and printf lose a line when a child of the shell ends during their write, because the signal
# interrupts it. A separate process has no children.
echo() { /usr/bin/busybox echo "$@"; }
printf() { /usr/bin/busybox printf "$@"; }

# Waits for a listener at the port.
listening() {
    tries=0
    until grep -qE "$(printf ':%04X' "$1") 0+:0000 0A" /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || { echo "no listener at port $1"; return 1; }
        sleep 0.02
    done
}

# Waits until a connection to a local port stands.
connected() {
    tries=0
    until grep -qE "$(printf ':%04X' "$1") [0-9A-F]+:[0-9A-F]+ 01" /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || { echo "no connection to port $1"; return 1; }
        sleep 0.02
    done
}
