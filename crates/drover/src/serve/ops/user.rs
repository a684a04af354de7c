//! `-u`: drops root for another user, while there is only one thread, because privileges belong to threads.

use crate::exit::{self, Failure};
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use std::path::PathBuf;

/// Entry of the user database.
#[derive(PartialEq, Eq, Debug)]
struct User {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// Becomes `name` permanently: no privilege of root is kept, and those files of `own` that exist are given to `name`, and to
/// `group` or else to that of `name`.
/// Does nothing if the process already runs as `name`.
///
/// # Errors
/// There is no such user, the process is not root, it has several threads, or the system refuses.
pub fn become_user(name: &str, own: &[PathBuf], group: Option<u32>) -> Result<(), Failure> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let Some(user) = find(name, &read("/etc/passwd"), &read("/etc/group")) else {
        return Err(Failure::new(
            exit::NO_USER,
            format!(
                "-u {name}: not in /etc/passwd: create the user (`useradd --system {name}`), or name another"
            ),
        ));
    };
    if geteuid().as_raw() == user.uid {
        return Ok(());
    }
    if !geteuid().is_root() {
        let text = format!("-u {name}: only root can become another user: start as root, or leave out -u");
        return Err(Failure::new(exit::NO_PERMISSION, text));
    }
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    if threads != 1 {
        let text = format!("-u {name}: {threads} threads are already running");
        return Err(Failure::new(exit::SOFTWARE, text));
    }
    let groups: Vec<Gid> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    for path in own.iter().filter(|path| path.exists()) {
        std::os::unix::fs::lchown(path, Some(user.uid), group.or(Some(user.gid)))
            .map_err(|error| Failure::new(exit::OS_ERROR, format!("{}: {error}", path.display())))?;
    }
    // In this order: the last step drops the right to do the others.
    set_thread_groups(&groups)
        .and_then(|()| set_thread_gid(Gid::from_raw(user.gid)))
        .and_then(|()| set_thread_uid(Uid::from_raw(user.uid)))
        .map_err(|error| Failure::new(exit::OS_ERROR, format!("-u {name}: {error}")))?;
    if set_thread_uid(Uid::ROOT).is_ok() {
        return Err(Failure::new(
            exit::SOFTWARE,
            format!("-u {name}: root is still within reach"),
        ));
    }
    tracing::info!("user: {name}");
    Ok(())
}

/// The number of a group, by its name or number.
///
/// # Errors
/// There is no such group.
pub fn group_id(name: &str) -> Result<u32, Failure> {
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let number = group_in(name, &groups).or_else(|| name.parse().ok());
    number.ok_or_else(|| {
        Failure::new(
            exit::NO_USER,
            format!(
                "--group {name}: not in /etc/group: create it (`groupadd --system {name}`), or name another"
            ),
        )
    })
}

fn group_in(name: &str, groups: &str) -> Option<u32> {
    let line = groups.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

/// Parses lines `name:password:uid:gid:...` and `name:password:gid:member,member`.
fn find(name: &str, passwd: &str, group: &str) -> Option<User> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let fields: Vec<&str> = line.split(':').collect();
    let gid = fields.get(3)?.parse().ok()?;
    let member_of = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_member = fields.get(3)?.split(',').any(|member| member == name);
        fields[2].parse().ok().filter(|_| is_member)
    };
    let others = group.lines().filter_map(member_of).filter(|other| *other != gid);
    Some(User {
        uid: fields.get(2)?.parse().ok()?,
        gid,
        groups: std::iter::once(gid).chain(others).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/:/bin/sh\ndrover:x:990:980::/:/usr/sbin/nologin\nodd:x:y:z\n";
    const GROUP: &str = "root:x:0:\nrdma:x:101:bob,drover\ndrover:x:980:drover\nbad\n";

    #[test]
    fn users_and_their_groups() {
        let drover = User {
            uid: 990,
            gid: 980,
            groups: vec![980, 101],
        };
        assert_eq!(find("drover", PASSWD, GROUP), Some(drover));
        assert_eq!(find("odd", PASSWD, GROUP), None);
        assert_eq!(find("drove", PASSWD, GROUP), None);
    }

    #[test]
    fn groups_by_name_or_number() {
        assert_eq!(
            (group_in("rdma", GROUP), group_in("bad", GROUP)),
            (Some(101), None)
        );
        assert_eq!(group_id("4711").ok(), Some(4711));
        let failure = group_id("no such group").expect_err("a name with blanks");
        assert!(
            failure
                .text
                .starts_with("--group no such group: not in /etc/group: ")
        );
    }

    #[test]
    fn nobody_of_that_name() {
        let failure = become_user("no such user", &[], None).expect_err("a name with blanks");
        assert_eq!(failure.code, 67);
        assert!(failure.text.starts_with("-u no such user: not in /etc/passwd: "));
    }
}
