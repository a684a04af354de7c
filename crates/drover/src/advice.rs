//! What a user can do about an error of the operating system: every message about a file or an address ends with it.

use rustix::io::Errno;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Describes a file, which option `flag` names, that cannot be opened, read or written, with a next step.
pub fn of_file(flag: &str, path: &Path, error: &io::Error) -> String {
    format!("{flag} {}: {}", path.display(), of_open(path, error))
}

/// As [`of_file`], without the name.
pub fn of_open(path: &Path, error: &io::Error) -> String {
    format!("{}: {}", reason(error), step_of_file(path, error))
}

/// Describes an address, which option `flag` names, at which the process cannot listen, with a next step.
pub fn of_address(flag: &str, address: impl Display, error: &io::Error) -> String {
    let step = match error.kind() {
        _ if is_out_of_descriptors(error) => RAISE_OPEN_FILES,
        ErrorKind::AddrInUse => "stop the program that listens there (`ss -lptn`), or choose another port",
        ErrorKind::AddrNotAvailable => {
            "no interface of this machine has it; `ip address` shows those there are"
        }
        ErrorKind::PermissionDenied => {
            "ports below 1024 need root or CAP_NET_BIND_SERVICE: choose a higher one"
        }
        _ => "choose another address",
    };
    format!("{flag} {address}: {}: {step}", reason(error))
}

const RAISE_OPEN_FILES: &str = "raise the limit of this process on open files (`ulimit -n`)";

fn is_out_of_descriptors(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::MFILE.raw_os_error())
}

/// What to do about a file that failed in this way.
fn step_of_file(path: &Path, error: &io::Error) -> String {
    if is_out_of_descriptors(error) {
        return RAISE_OPEN_FILES.to_owned();
    }
    match error.kind() {
        ErrorKind::NotFound => match missing_folder(path) {
            Some(folder) => format!("create folder {}, or name another file", folder.display()),
            None => "name a file that exists".to_owned(),
        },
        ErrorKind::PermissionDenied => {
            let user = rustix::process::geteuid().as_raw();
            format!(
                "user {user} lacks the right: change owner or mode of file or folder, or name another file"
            )
        }
        ErrorKind::ReadOnlyFilesystem => format!(
            "{} is mounted for reading only: name a file elsewhere",
            Mount::of(path).place.display()
        ),
        ErrorKind::StorageFull => {
            let mount = Mount::of(path);
            format!(
                "device {}, mounted at {}, is full: free space there, or name a file elsewhere",
                mount.device,
                mount.place.display()
            )
        }
        ErrorKind::IsADirectory => "it is a folder: name a file in it".to_owned(),
        ErrorKind::NotADirectory => "a part of the path is no folder: name another file".to_owned(),
        _ => "name another file".to_owned(),
    }
}

/// The system's words without the number that Rust adds.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error ").unwrap_or(text.len());
    text[..end].to_owned()
}

/// The first folder on the way to `path` that does not exist.
fn missing_folder(path: &Path) -> Option<PathBuf> {
    let folders: Vec<&Path> = path.ancestors().skip(1).collect();
    let missing = folders
        .into_iter()
        .rev()
        .find(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    missing.map(Path::to_owned)
}

/// A mounted file system.
#[derive(PartialEq, Eq, Debug)]
pub struct Mount {
    /// Device or kind, as in the first column of `df`.
    pub device: String,
    /// Folder at which it is mounted.
    pub place: PathBuf,
}

impl Mount {
    /// The file system that `path` is on, or would be on.
    pub fn of(path: &Path) -> Mount {
        let folder = path.ancestors().find_map(|part| part.canonicalize().ok());
        let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        Mount::among(&table, &folder.unwrap_or_else(|| PathBuf::from("/")))
    }

    /// The last of the longest matches in a table of mounts, which covers the others.
    fn among(table: &str, path: &Path) -> Mount {
        let mounts = table.lines().filter_map(|line| {
            let mut fields = line.split(' ');
            let device = fields.next()?.to_owned();
            let place = PathBuf::from(fields.next()?.replace("\\040", " "));
            path.starts_with(&place).then_some(Mount { device, place })
        });
        let longest = mounts.max_by_key(|mount| mount.place.as_os_str().len());
        longest.unwrap_or_else(|| Mount {
            device: "unknown".to_owned(),
            place: PathBuf::from("/"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "/dev/vda1 / ext4 rw 0 0\nproc /proc proc rw 0 0\ntmpfs /srv/my\\040files tmpfs rw 0 0\n/dev/vdb1 /srv xfs rw 0 0\n";

    #[test]
    fn the_mount_of_a_path_is_the_longest_above_it() {
        for (path, device, place) in [
            ("/srv/my files/x", "tmpfs", "/srv/my files"),
            ("/srv/my", "/dev/vdb1", "/srv"),
            ("/etc", "/dev/vda1", "/"),
        ] {
            let (device, place) = (device.to_owned(), PathBuf::from(place));
            assert_eq!(Mount::among(TABLE, Path::new(path)), Mount { device, place });
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = io::Error::from(Errno::NOENT);
        assert_eq!(
            of_file("-P", Path::new("/no such/folder/pid"), &error),
            "-P /no such/folder/pid: No such file or directory: create folder /no such, or name another file"
        );
        assert_eq!(
            of_file("-Y", Path::new("/no users"), &error),
            "-Y /no users: No such file or directory: name a file that exists"
        );
    }
}
