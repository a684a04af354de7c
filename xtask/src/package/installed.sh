# Installs the package, runs its server by systemd, uses it as three users, stops and starts it, and purges it; on a machine of
# its own. Its unit is the packaged one with all that it limits and hides.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C
units=/usr/lib/systemd/system
conf=/etc/drover.conf
at="--server shm:/run/drover/drover.sock"

fail() {
    echo "FAILED: $1"
    journalctl --no-pager --lines 60 --unit 'drover*'
    exit 1
}

# Runs a command as a user with all of its groups.
as() {
    user=$1
    shift
    setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups -- "$@"
}

set_to() {
    as member drover set "$1" "$2" $at || fail "a member of the group cannot set $1"
}

holds() {
    [ "$(as member drover get "$1" $at)" = "$2" ] || fail "$1 is not $2 $3"
}

# Since the last call, the unit's lines of the journal.
since=$(date '+%s')
journal() {
    journalctl --no-pager --output cat --unit drover.service --since "@$since"
}

systemctl_() {
    systemctl "$@" || fail "systemctl $*"
}

# The start is refused, and the journal has each of the texts.
refused() {
    since=$(date '+%s')
    systemctl start drover 2>/dev/null && fail "drover starts where it should not"
    systemctl stop drover
    systemctl reset-failed drover 2>/dev/null
    for text in "$@"; do
        journal | grep -qF -- "$text" || fail "the journal does not say: $text"
    done
}

# This machine may have the package, or had it: in this root it is new.
dpkg --purge drover >/dev/null 2>&1
getent passwd drover >/dev/null && userdel drover
getent group drover >/dev/null && groupdel drover

dpkg -i /package/drover.deb || fail "dpkg does not install it"
getent passwd drover || fail "no user drover"
getent group drover || fail "no group drover"
dpkg -L drover >/package/files
completions=/usr/share/bash-completion/completions/drover
for file in /usr/bin/drover $conf $units/drover.service /usr/share/man/man1/drover-serve.1.gz $completions \
    /usr/share/zsh/vendor-completions/_drover /usr/share/fish/vendor_completions.d/drover.fish; do
    grep -qx "$file" /package/files && [ -f "$file" ] || fail "no $file"
done
bash -c ". $completions && complete -p drover" || fail "bash does not complete drover's commands"
for unit in drover.service drover@two.service drover.socket; do
    said=$(systemd-analyze verify --recursive-errors=no "$unit" 2>&1) && [ -z "$said" ] || fail "$unit: $said"
done

# Started as packaged, it serves its group and nobody else.
systemctl is-active --quiet drover && fail "the package starts a server by itself"
useradd --system --no-create-home --groups drover member || fail "useradd"
useradd --system --no-create-home outsider || fail "useradd"
systemctl_ start drover
for user in member root drover; do
    as $user drover set "key-of-$user" "value of $user" $at || fail "$user cannot set"
    [ "$(as $user drover get "key-of-$user" $at)" = "value of $user" ] || fail "$user gets something else"
done
holds key-of-root "value of root" "for a member"
said=$(as outsider drover get key-of-root $at 2>&1) && fail "a stranger gets in: $said"
echo "a user outside the group is told: $said"
case $said in
*"become a member"*) ;;
*) fail "a stranger is not told what to do" ;;
esac
drover top --once >/dev/null || fail "no metrics where the packaged settings say"
systemctl_ reload drover
holds key-of-root "value of root" "after a reload"

# With the memory file that the settings show as an example, values outlive a stop.
sed -i 's/^#memory-file/memory-file/' $conf
systemctl_ restart drover
[ "$(stat --format '%U %a' /var/lib/drover)" = "drover 700" ] || fail "the folder of the memory file is not the server's own"
set_to kept "before the stop"
systemctl_ stop drover
[ -e /run/drover ] && fail "the stopped server left its folder of sockets"
systemctl_ start drover
holds kept "before the stop" "after a stop and a start"
set_to kept "before the restart"
systemctl_ restart drover
holds kept "before the restart" "after a restart"

# Killed, it is started again, without items that nobody can vouch for.
since=$(date '+%s')
before=$(systemctl show --property MainPID --value drover)
systemctl_ kill --signal KILL drover
tries=0
until [ "$(systemctl is-active drover)" = active ] && [ "$(systemctl show --property MainPID --value drover)" != "$before" ]; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || fail "a killed server does not come back"
    sleep 0.1
done
journal | grep -q "cold start: it was not left by a clean stop" || fail "the log does not say why the items are gone"

# What cannot be is refused, with the setting to change.
systemctl_ stop drover
mount -t tmpfs -o size=16m small /var/lib/drover || fail "no small file system"
refused "/var/lib/drover/items" "memory-limit"
umount /var/lib/drover
mkdir /run/systemd/system/drover.service.d
printf '[Service]\nLimitMEMLOCK=8M\n' >/run/systemd/system/drover.service.d/less.conf
systemctl daemon-reload
cp $conf /package/conf
echo 'lock-memory = true' >>$conf
refused "64 MiB wanted for items (-m) alone, 8192 KiB allowed" "LimitMEMLOCK=infinity" "lock-memory"
sed -i 's/^memory-limit.*/memory-limit = 4/' $conf
refused "MiB wanted (4 MiB for items, -m, and " "8192 KiB allowed" "LimitMEMLOCK=infinity"
rm -r /run/systemd/system/drover.service.d
systemctl daemon-reload
if (ulimit -l unlimited) 2>/dev/null; then
    systemctl_ start drover
    journal | grep -q "all memory is locked" || fail "the log does not say that memory is locked"
    systemctl_ stop drover
else
    echo "not tested: this machine lets nobody lock much memory, so LimitMEMLOCK=infinity means nothing here"
fi
cp /package/conf $conf

# systemd listens for memcached's clients, and starts the server for the first one.
systemctl_ start drover.socket
said=$(bash -c 'exec 3<>/dev/tcp/127.0.0.1/11211; printf "version\r\nquit\r\n" >&3; cat <&3')
case $said in
VERSION*) ;;
*) fail "systemd's socket answers: $said" ;;
esac
systemctl is-active --quiet drover || fail "the socket did not start the server"
systemctl_ stop drover.socket drover

# A second server beside it has settings, sockets and a memory file of its own.
mkdir /etc/drover
sed 's|/run/drover/|/run/drover-two/|; s|/var/lib/drover/|/var/lib/drover/two/|; s|127.0.0.1:9150|127.0.0.1:9151|' $conf >/etc/drover/two.conf
echo 'port = 11212' >>/etc/drover/two.conf
systemctl_ start drover drover@two
two="--server shm:/run/drover-two/drover.sock"
as member drover set whose "the second's" $two || fail "the second server does not serve"
as member drover get whose $at && fail "two servers share their items"
systemctl_ restart drover@two
[ "$(as member drover get whose $two)" = "the second's" ] || fail "the second server forgot its items"
systemctl_ stop drover@two
rm -r /etc/drover

# A removed package leaves its settings and items, a purged one nothing. Its user stays, as Debian's users do.
dpkg --remove drover || fail "dpkg does not remove it"
systemctl is-active --quiet drover && fail "a removed server runs"
[ -f $conf ] && [ -f /var/lib/drover/items ] && [ ! -e /usr/bin/drover ] || fail "removing is not purging"
dpkg --purge drover || fail "dpkg does not purge it"
while read -r file; do
    [ -d "$file" ] || [ ! -e "$file" ] || fail "purged, and left $file"
done </package/files
