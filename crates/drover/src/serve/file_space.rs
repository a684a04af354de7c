//! [`reserve`]: space on its disk for the whole memory file, taken before anything is served.

use crate::exit::{self, Failure};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::Path;

/// Partitions in the file begin at multiples of this many MiB, so each takes so much more than its share of `-m` at most.
const PART_MIB: u64 = 2;

/// Reserves space for all of the memory file at `path`, which has its full length, for `part_count` partitions. A disk
/// that is full later would end the process by a signal.
///
/// # Errors
/// The file system has not enough space; the text names it, and the largest `-m` for which it has.
pub(super) fn reserve(path: &Path, part_count: usize) -> Result<(), Failure> {
    let take = || -> io::Result<(File, u64, Result<(), Errno>)> {
        let file = File::options().write(true).open(path)?;
        let bytes = file.metadata()?.len();
        let taken = fallocate(&file, FallocateFlags::empty(), 0, bytes);
        Ok((file, bytes, taken))
    };
    let failed = |error| Failure::new(exit::OS_ERROR, format!("memory file {}: {error}", path.display()));
    let (file, bytes, taken) = take().map_err(failed)?;
    match taken {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => {
            // Half of a file helps nobody, and others may need the space.
            let _ = file.set_len(0);
            let place = file_system_of(path);
            let mib = bytes >> 20;
            let advice = match free_mib(&file).filter(|_| error == Errno::NOSPC) {
                Some(free) => format!("{free} MiB are free there: {}", advice(free, part_count as u64)),
                None => "name another file (-e, memory-file)".to_owned(),
            };
            let error = io::Error::from(error);
            Err(failed(io::Error::other(format!(
                "{mib} MiB do not fit on {place}: {error}; {advice}"
            ))))
        }
    }
}

/// What would work on a file system with so many MiB free.
fn advice(free_mib: u64, part_count: u64) -> String {
    match free_mib.saturating_sub(PART_MIB * part_count) {
        0 => "name a file elsewhere (-e, memory-file)".to_owned(),
        most => format!("at most -m {most} (memory-limit) fits; or name a file elsewhere (-e, memory-file)"),
    }
}

fn free_mib(file: &File) -> Option<u64> {
    let stat = fstatvfs(file).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize) >> 20)
}

/// The mount point and device of the file system that has `path`, for people.
pub(super) fn file_system_of(path: &Path) -> String {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    mount_of(&path, &table).unwrap_or_else(|| "its file system".to_owned())
}

/// The mount of `path` in a table in the format of `/proc/self/mountinfo`: `33 28 0:29 / /run rw,... - tmpfs tmpfs rw`.
fn mount_of(path: &Path, table: &str) -> Option<String> {
    let mounts = table.lines().filter_map(|line| {
        let (place, device) = line.split_once(" - ")?;
        let point = place.split(' ').nth(4)?.replace("\\040", " ");
        let mut words = device.split(' ');
        let (kind, source) = (words.next()?, words.next()?);
        path.starts_with(&point)
            .then(|| (point.len(), format!("{point} ({kind}, device {source})")))
    });
    // Of mounts at the same place the last one is seen.
    mounts.max_by_key(|(length, _)| *length).map(|(_, shown)| shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_is_named() {
        let table = "28 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                     33 28 0:29 / /run rw shared:5 - tmpfs tmpfs rw,size=800k\n\
                     40 28 0:31 / /mnt/a\\040b rw - xfs /dev/vdb rw\n\
                     41 28 0:32 / /mnt/a\\040b rw - xfs /dev/vdc rw\n";
        let named = |path: &str| mount_of(Path::new(path), table).expect("a mount");
        assert_eq!(named("/var/lib/items"), "/ (ext4, device /dev/vda)");
        assert_eq!(named("/run/items"), "/run (tmpfs, device tmpfs)");
        assert_eq!(named("/running/items"), "/ (ext4, device /dev/vda)");
        assert_eq!(named("/mnt/a b/items"), "/mnt/a b (xfs, device /dev/vdc)");
        assert_eq!(mount_of(Path::new("/x"), ""), None);
    }

    #[test]
    fn only_what_fits_is_advised() {
        assert!(advice(16, 2).starts_with("at most -m 12 "));
        assert!(advice(4, 2).starts_with("name a file elsewhere"));
    }
}
