//! [`Archive`]: a file system in memory as the kernel unpacks it, in the format `newc`: per entry a head of 110 bytes in
//! ASCII hexadecimal, the name, the contents, each padded to 4 bytes. Everything belongs to root, at time 0.

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_777;

/// Entries in the order of addition; folders precede their contents.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    count: u32,
}

impl Archive {
    /// Adds a file with these permissions.
    pub fn file(&mut self, path: &str, permissions: u32, contents: Vec<u8>) {
        self.parents(path);
        self.entry(path, FILE | permissions, &contents);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.parents(path);
        self.entry(path, LINK, target.as_bytes());
    }

    /// Adds an empty folder.
    pub fn folder(&mut self, path: &str) {
        self.parents(path);
        if self.folders.insert(path.to_string()) {
            self.entry(path, DIRECTORY, &[]);
        }
    }

    /// The archive's bytes with its end entry, padded so that another archive may follow.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) {
        self.count += 1;
        let links = 1;
        let (name_len, len) = (path.len() as u32 + 1, contents.len() as u32);
        // inode, mode, owner, group, links, time, length, two pairs of device numbers, length of the name, checksum
        let fields = [self.count, mode, 0, 0, links, 0, len, 0, 0, 0, 0, name_len, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(path.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, modes and contents, parsed from the archive.
    fn entries(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        let mut at = 0;
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |n: usize| {
                let hex = std::str::from_utf8(&bytes[at + 6 + 8 * n..][..8]).expect("ASCII");
                u32::from_str_radix(hex, 16).expect("hexadecimal")
            };
            let (mode, len, name_len) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(bytes[at + 110..][..name_len - 1].to_vec()).expect("a name");
            let start = (at + 110 + name_len).next_multiple_of(4);
            if name == "TRAILER!!!" {
                return found;
            }
            found.push((name, mode, bytes[start..start + len].to_vec()));
            at = (start + len).next_multiple_of(4);
        }
    }

    #[test]
    fn what_goes_in_comes_out_with_its_folders_first() {
        let mut archive = Archive::default();
        archive.file("usr/bin/a", 0o755, b"program".to_vec());
        archive.link("bin", "usr/bin");
        archive.file("usr/bin/b", 0o644, Vec::new());
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 512, 0);
        let found = entries(&bytes);
        let names: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["usr", "usr/bin", "usr/bin/a", "bin", "usr/bin/b"]);
        assert_eq!((found[2].1, found[2].2.as_slice()), (0o100_755, &b"program"[..]));
        assert_eq!((found[3].1, found[3].2.as_slice()), (0o120_777, &b"usr/bin"[..]));
    }
}
