//! Reads files with secrets: whole, and only if nobody else may.

use crate::advice;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Longest file, bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Rights that make a secret none: those of others, and the group's to write.
const TOO_OPEN: u32 = 0o027;

/// Reads the file at `path`.
///
/// # Errors
/// Text without the path: it cannot be read, it is no file, others may read or write it, it is too long, or it was
/// written to while it was read.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a pipe must not wait for its other end.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let system = |error: rustix::io::Errno| advice::of_open(path, &error.into());
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(system)?);
    let before = rustix::fs::fstat(&file).map_err(system)?;
    if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
        return Err("it is not a file: name one with lines user:password".to_owned());
    }
    if before.st_mode & TOO_OPEN != 0 {
        let mode = before.st_mode & 0o7777;
        return Err(format!(
            "others may read it or write to it (mode {mode:o}): chmod 600, or 640 for a group that may"
        ));
    }
    let mut bytes = Vec::new();
    let limited = file.by_ref().take(FILE_BYTES_MAX as u64 + 1);
    let mut limited = limited;
    limited
        .read_to_end(&mut bytes)
        .map_err(|error| advice::of_open(path, &error))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err("it has more than 1 MiB".to_owned());
    }
    let after = rustix::fs::fstat(&file).map_err(system)?;
    if version(&before) != version(&after) || bytes.len() as i64 != after.st_size {
        return Err("it changed while it was read: write another file and rename it".to_owned());
    }
    Ok(bytes)
}

/// What a change of the contents changes.
fn version(stat: &Stat) -> (i64, i64, i64) {
    (stat.st_size, stat.st_mtime, stat.st_mtime_nsec as i64)
}
