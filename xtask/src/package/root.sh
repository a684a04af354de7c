# A machine of its own over this one's root, which stays as it is: what is written goes to memory, and away with the namespaces.
# Boots systemd there, which runs the script $3 with the package $2; $1 is a folder for the root. Status 77: this machine does
# not allow it.
own=$1
cannot() {
    echo "$1"
    exit 77
}
mount -t tmpfs own "$own" || cannot "no file system in memory"
mkdir "$own/written" "$own/work" "$own/root"
mount -t overlay own -o "lowerdir=/,upperdir=$own/written,workdir=$own/work" "$own/root" || cannot "no overlay"
root=$own/root
mkdir "$root/package" || exit 1
cp "$2" "$root/package/drover.deb"
cp "$3" "$root/package/script.sh"
tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"

units=$root/etc/systemd/system
cat >"$units/installed.target" <<END
[Unit]
Requires=basic.target
Wants=installed.service
After=basic.target
END
cat >"$units/installed.service" <<END
[Unit]
After=basic.target
SuccessAction=exit-force
FailureAction=exit-force
FailureActionExitStatus=1

[Service]
Type=oneshot
TimeoutStartSec=5min
ExecStartPre=/bin/touch /package/booted
ExecStart=/bin/sh /package/script.sh
StandardOutput=file:/package/log
StandardError=inherit
END

SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --quiet --directory "$root" --register=no --keep-unit --private-network \
    --capability=all --console=pipe --boot systemd.unit=installed.target >"$own/console" 2>&1 </dev/null
status=$?
[ -e "$root/package/booted" ] || {
    cat "$own/console"
    cannot "systemd does not start in a namespace of this machine"
}
cat "$root/package/log"
[ $status = 0 ] || exit 1

# After the purge nothing has the package's name but what was copied here, and caches of others.
left=$(find "$own/written" -name '*drover*' ! -type c ! -path '*/package/drover.deb' ! -path '*/var/cache/*')
[ -z "$left" ] || {
    echo "FAILED: the purged package left: $left"
    exit 1
}
