//! The directory of `shm:NAME` sockets, which only its user may write.

use rustix::fs::{FileType, Mode};
use std::io;
use std::path::{Path, PathBuf};

/// Directory of `shm:NAME` sockets of this user: `$XDG_RUNTIME_DIR/drover` if `$XDG_RUNTIME_DIR` is an absolute path
/// that belongs to this user and that nobody else can write to, else `/run/drover` for root (if `/run` exists), else
/// `drover-UID` in the temporary directory (`$TMPDIR` or `/tmp`). It may not exist yet: binding creates it.
pub fn runtime_dir() -> PathBuf {
    let uid = rustix::process::geteuid();
    let xdg = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(base) = xdg.filter(|dir| dir.is_absolute() && is_private(dir).is_ok()) {
        return base.join("drover");
    }
    if uid.is_root() && Path::new("/run").is_dir() {
        return PathBuf::from("/run/drover");
    }
    std::env::temp_dir().join(format!("drover-{}", uid.as_raw()))
}

/// Creates `dir` with access for this user only if it does not exist, and checks that no other user can write to it.
pub(crate) fn make_private(dir: &Path) -> io::Result<()> {
    match rustix::fs::mkdir(dir, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    is_private(dir)
}

/// Checks that no other user can create a socket in `dir`.
pub(crate) fn is_private(dir: &Path) -> io::Result<()> {
    let owner = only_writer(dir)?;
    if owner == own_uid() {
        return Ok(());
    }
    let text = format!(
        "{} is not a directory that only this user can write to",
        dir.display()
    );
    Err(denied(text))
}

/// Users whose servers in `dir` a client of this user trusts: this user, root, and the owner of `dir` if root alone can
/// have appointed it, as in `/run`.
///
/// # Errors
/// Others can create a socket in `dir`.
pub(crate) fn trusted_in(dir: &Path) -> io::Result<[u32; 3]> {
    let owner = only_writer(dir)?;
    let by_root = || {
        dir.parent()
            .is_some_and(|parent| only_writer(parent).is_ok_and(|owner| owner == ROOT))
    };
    if [own_uid(), ROOT].contains(&owner) || by_root() {
        return Ok([own_uid(), ROOT, owner]);
    }
    let text = format!(
        "{} belongs to user {owner}, and not only root can have made it: a server there need not be who it says",
        dir.display()
    );
    Err(denied(text))
}

const ROOT: u32 = 0;

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn denied(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// The user who alone can write to the directory `dir`, but for root.
fn only_writer(dir: &Path) -> io::Result<u32> {
    let stat = rustix::fs::lstat(dir)?;
    let others_write = Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory || others_write {
        let text = format!(
            "{} is not a directory that only one user can write to",
            dir.display()
        );
        return Err(denied(text));
    }
    Ok(stat.st_uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_others_may_write_is_trusted_by_nobody() {
        let folder = tempfile_in_target();
        assert!(trusted_in(&folder).is_ok_and(|users| users.contains(&own_uid())));
        rustix::fs::chmod(&folder, Mode::from_raw_mode(0o777)).expect("our folder");
        assert!(trusted_in(&folder).is_err() && is_private(&folder).is_err());
        std::fs::remove_dir(&folder).expect("our folder");
    }

    /// Only root may give folders away.
    #[test]
    fn another_users_folder_is_trusted_where_root_alone_can_have_made_it() {
        if own_uid() != ROOT {
            return println!("skipped: not root");
        }
        let (safe, open) = (
            Path::new("/run/drover-test-of-trust"),
            std::env::temp_dir().join("drover-test-of-trust"),
        );
        for (folder, is_trusted) in [(safe, true), (open.as_path(), false)] {
            if folder.parent().is_none_or(|parent| !parent.is_dir()) {
                continue;
            }
            let folder = folder.with_extension(std::process::id().to_string());
            std::fs::create_dir(&folder).expect("a new folder");
            std::os::unix::fs::chown(&folder, Some(4711), Some(4711)).expect("we are root");
            let trusted = trusted_in(&folder);
            std::fs::remove_dir(&folder).expect("our folder");
            assert_eq!(
                trusted.is_ok_and(|users| users.contains(&4711)),
                is_trusted,
                "{}",
                folder.display()
            );
        }
    }

    fn tempfile_in_target() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("drover-trust-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a new folder");
        rustix::fs::chmod(&folder, Mode::RWXU).expect("our folder");
        folder
    }
}
