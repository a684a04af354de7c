//! Who may connect to a Unix socket, and what to tell a user who may not.

use rustix::fs::{Gid, Mode};
use std::fmt::Display;
use std::io;
use std::path::Path;

/// Who may connect to a Unix socket, beside its owner and root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketAccess {
    /// Mode of the socket's file: users with the right to write may connect.
    pub mode: u32,
    /// Group of the file, by its number. `None`: that of the process.
    pub group: Option<u32>,
}

/// The owner alone.
impl Default for SocketAccess {
    fn default() -> SocketAccess {
        let (mode, group) = (0o700, None);
        SocketAccess { mode, group }
    }
}

impl SocketAccess {
    /// Gives the socket's file its group and mode.
    pub(crate) fn apply(&self, path: &Path) -> io::Result<()> {
        if let Some(group) = self.group {
            // Before the mode, which may let the group in.
            rustix::fs::chown(path, None, Some(Gid::from_raw(group)))?;
        }
        rustix::fs::chmod(path, Mode::from_raw_mode(self.mode))?;
        Ok(())
    }
}

/// Why this user may not connect to the socket at `path`, and what to do, for people.
pub(crate) fn advice(path: &Path) -> String {
    let Ok(stat) = rustix::fs::stat(path) else {
        let folder = path.parent().unwrap_or(path).display();
        return format!("this user may not look into {folder}");
    };
    let owner = name_in("/etc/passwd", stat.st_uid);
    match Mode::from_raw_mode(stat.st_mode).contains(Mode::WGRP) {
        true => {
            let group = name_in("/etc/group", stat.st_gid);
            format!(
                "it lets in user {owner} and group {group}: become a member (as root: usermod -aG {group} USER), and log in again"
            )
        }
        false => {
            format!(
                "it lets in user {owner} alone: start the server with -a 770 and --group to let in others"
            )
        }
    }
}

/// The name that a line `name:...:number:...` of `file` gives to `number`, or the number.
fn name_in(file: &str, number: u32) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    name_of(&text, number).map_or_else(|| number.to_string(), ToOwned::to_owned)
}

fn name_of(text: &str, number: impl Display) -> Option<&str> {
    let number = number.to_string();
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_numbers() {
        let text = "root:x:0:\nodd\ndrover:x:980:bob\n";
        assert_eq!(name_of(text, 980), Some("drover"));
        assert_eq!(name_of(text, 98), None);
    }
}
