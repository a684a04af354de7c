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
    let stat = rustix::fs::lstat(dir)?;
    let others_write = Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    let ours = stat.st_uid == rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory && ours && !others_write {
        return Ok(());
    }
    let message = format!(
        "{} is not a directory that only this user can write to",
        dir.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}
