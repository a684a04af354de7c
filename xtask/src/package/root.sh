# A root of its own over this machine's, which stays as it is: what is written goes to memory, and away with the namespaces.
# Runs $3 there with the package $2; $1 is a folder for the root. Status 77: this machine does not allow it.
own=$1
cannot() {
    echo "$1"
    exit 77
}
mount -t tmpfs own "$own" || cannot "no file system in memory"
mkdir "$own/written" "$own/work" "$own/root"
mount -t overlay own -o "lowerdir=/,upperdir=$own/written,workdir=$own/work" "$own/root" || cannot "no overlay"
cd "$own/root" && mkdir package || exit 1
cp "$2" package/drover.deb
cp "$3" package/script.sh
mount -t proc proc proc && mount --rbind /dev dev && mount -t tmpfs -o mode=755 run run && mount -t tmpfs tmp tmp || cannot "no mounts"
ip link set lo up || cannot "no loopback"
chroot . /bin/sh /package/script.sh || exit 1

# After the purge nothing has the package's name but what was copied here.
left=$(find "$own/written" -name '*drover*' ! -type c ! -path '*/package/drover.deb')
[ -z "$left" ] || {
    echo "FAILED: the purged package left: $left"
    exit 1
}
