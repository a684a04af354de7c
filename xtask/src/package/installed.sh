# Installs the package, runs its server as the unit says, uses it as three users, and purges it; in a root of its own.
#
# systemd is not there. Of the unit's settings this script applies user, group, folder, mask, limits and capabilities; what
# hides parts of the system from the server (Protect*, Restrict*, Device*, MemoryDenyWriteExecute) is left out.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
unset XDG_RUNTIME_DIR
unit=/usr/lib/systemd/system/drover.service
log=/package/serve.log
: >$log

fail() {
    echo "FAILED: $1"
    cat $log
    exit 1
}

# The value of a setting in the unit.
unit() {
    value=$(sed -n "s/^$1=//p" $unit)
    [ -n "$value" ] || fail "the unit has no $1"
    echo "$value"
}

# Runs a command as a user with all of its groups.
as() {
    user=$1
    shift
    setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups -- "$@"
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
for file in /usr/bin/drover /etc/drover.conf $unit /usr/share/man/man1/drover-serve.1.gz $completions \
    /usr/share/zsh/vendor-completions/_drover /usr/share/fish/vendor_completions.d/drover.fish; do
    grep -qx "$file" /package/files && [ -f "$file" ] || fail "no $file"
done
bash -c ". $completions && complete -p drover" || fail "bash does not complete drover's commands"

start() {
    folder=/run/$(unit RuntimeDirectory)
    install -d -m 755 -o "$(unit User)" -g "$(unit Group)" "$folder"
    kept=$(unit CapabilityBoundingSet | tr 'A-Z' 'a-z' | sed 's/cap_/+/g; s/ /,/g')
    (
        cd /
        umask "$(unit UMask)"
        ulimit -n "$(unit LimitNOFILE)" || echo "this machine allows fewer descriptors"
        ulimit -l "$(unit LimitMEMLOCK | sed s/infinity/unlimited/)" || echo "this machine locks less memory"
        # Not quoted: a line of words.
        exec setpriv --reuid "$(unit User)" --regid "$(unit Group)" --init-groups --no-new-privs \
            --bounding-set "-all,$kept" --inh-caps -all -- $(unit ExecStart)
    ) >$log 2>&1 &
    pid=$!
    tries=0
    until [ -S "$folder/drover.sock" ]; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] && kill -0 $pid || fail "the server does not start"
        sleep 0.05
    done
}

at="--server shm:/run/drover/drover.sock"
useradd --system --no-create-home --groups drover member || fail "useradd"
useradd --system --no-create-home outsider || fail "useradd"
start
for user in member root drover; do
    as $user drover set "key-of-$user" "value of $user" $at || fail "$user cannot set"
    [ "$(as $user drover get "key-of-$user" $at)" = "value of $user" ] || fail "$user gets something else"
done
[ "$(as member drover get key-of-root $at)" = "value of root" ] || fail "a member does not see what root stored"

said=$(as outsider drover get key-of-root $at 2>&1) && fail "a stranger gets in: $said"
echo "a user outside the group is told: $said"
case $said in
*"become a member"*) ;;
*) fail "a stranger is not told what to do" ;;
esac
drover top --once >/dev/null || fail "no metrics where the packaged settings say"

# Told by the unit to read its files again, the server goes on; told to end, it ends well.
MAINPID=$pid
eval "$(unit ExecReload)"
[ "$(as member drover get key-of-root $at)" = "value of root" ] || fail "no answer after a reload"
kill $pid
wait $pid || fail "the server does not stop when it is told to"

# A removed package leaves its settings, a purged one nothing. Its user stays, as Debian's users do: files may be its own.
dpkg --remove drover || fail "dpkg does not remove it"
[ -f /etc/drover.conf ] && [ ! -e /usr/bin/drover ] || fail "removing is not purging"
dpkg --purge drover || fail "dpkg does not purge it"
rmdir "/run/drover" || fail "the server left something in its folder"
while read -r file; do
    [ -d "$file" ] || [ ! -e "$file" ] || fail "purged, and left $file"
done </package/files
