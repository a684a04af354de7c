//! Where `shm:NAME` sockets live, and that nobody else can put one there.

use rustix::fs::{FileType, Mode};
use std::io;
use std::path::{Path, PathBuf};

/// The directory of `shm:NAME` sockets of this user: `$XDG_RUNTIME_DIR/drover`, else `/run/drover` for root,
/// else a directory per user in the temporary one. Server and client of one user agree on it.
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

/// Creates `dir` for this user alone if it is not there, and checks that nobody else can write to it.
pub(super) fn make_private(dir: &Path) -> io::Result<()> {
    match rustix::fs::mkdir(dir, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    is_private(dir)
}

/// Whether nobody but this user can put a socket into `dir`.
pub(super) fn is_private(dir: &Path) -> io::Result<()> {
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
