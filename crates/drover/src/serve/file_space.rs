//! Space on its disk for the whole memory file, before anything is served: a disk that is full later would end the process by a
//! signal.

use crate::advice::{self, Mount};
use crate::exit::{self, Failure};
use rustix::fs::{FallocateFlags, StatVfsMountFlags, fallocate, statvfs};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Partitions in the file begin at multiples of this many MiB, so each takes so much more than its share of `-m` at most.
const PART_MIB: u64 = 2;

/// Checks that the file at `path`, which need not exist, can have `wanted_mib` for `part_count` partitions. What it has already
/// counts as free.
///
/// # Errors
/// The file system has not enough space; the text names it, and the largest `-m` for which it has.
pub(super) fn check(path: &Path, wanted_mib: u64, part_count: usize) -> Result<(), Failure> {
    match free_mib(path) {
        Some(free) if free < wanted_mib => Err(too_small(path, free, wanted_mib, part_count)),
        _ => Ok(()),
    }
}

/// Reserves space for all of the file at `path`, which has its full length. One that is not `is_warm` is cut off again if that
/// fails, since others may need the space.
///
/// # Errors
/// As [`check`].
pub(super) fn reserve(path: &Path, wanted_mib: u64, part_count: usize, is_warm: bool) -> Result<(), Failure> {
    let take = || -> io::Result<Result<(), Errno>> {
        let file = File::options().write(true).open(path)?;
        let taken = fallocate(&file, FallocateFlags::empty(), 0, file.metadata()?.len());
        if taken == Err(Errno::NOSPC) && !is_warm {
            file.set_len(0)?;
        }
        Ok(taken)
    };
    let failed = |error| Failure::new(exit::OS_ERROR, advice::of_file("-e", path, &error));
    match take().map_err(failed)? {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(Errno::NOSPC) => {
            let free = free_mib(path).unwrap_or(0);
            Err(too_small(path, free, wanted_mib, part_count))
        }
        Err(error) => Err(failed(error.into())),
    }
}

/// Free space of the file system that the file at `path` is on, or would be on; `None` if opening the file will fail and say why.
fn free_mib(path: &Path) -> Option<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let device = statvfs(folder.unwrap_or(Path::new("."))).ok()?;
    if device.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return None;
    }
    let own_bytes = std::fs::metadata(path).map_or(0, |file| file.blocks() * 512);
    Some((device.f_bavail.saturating_mul(device.f_frsize) + own_bytes) >> 20)
}

fn too_small(path: &Path, free_mib: u64, wanted_mib: u64, part_count: usize) -> Failure {
    let mount = Mount::of(path);
    let step = match most(free_mib, part_count as u64) {
        0 => "free space there".to_owned(),
        most => format!("-m {most} (memory-limit) at most"),
    };
    let text = format!(
        "-e {}: device {}, mounted at {}, has {free_mib} MiB free, and -m is {wanted_mib}: {step}, or name a file elsewhere",
        path.display(),
        mount.device,
        mount.place.display(),
    );
    Failure::new(exit::OS_ERROR, text)
}

/// The largest `-m` for a file system with so many MiB free, which needs some of them for itself.
fn most(free_mib: u64, part_count: u64) -> u64 {
    free_mib.saturating_sub((free_mib / 16 + 1).max(PART_MIB * part_count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_fits_is_advised() {
        assert_eq!(
            [most(16, 2), most(1600, 2), most(4, 2), most(0, 1)],
            [12, 1499, 0, 0]
        );
    }
}
