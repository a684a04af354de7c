//! `-Y`: users and passwords, lines `user:password` of a file that is reloaded on SIGHUP.

use crate::exit::{self, Failure};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Maximum number of lines; each costs a comparison per login attempt.
const USERS_MAX: usize = 1024;

type Users = Vec<(Vec<u8>, Vec<u8>)>;

/// Users and passwords of the file at a path, as last read from it.
#[derive(Debug)]
pub struct AuthFile {
    path: PathBuf,
    users: Mutex<Users>,
}

impl AuthFile {
    /// Reads the file of users at `path`.
    ///
    /// # Errors
    /// The file cannot be read, is malformed, or has no user or more than 1024.
    pub fn read(path: &Path) -> Result<AuthFile, Failure> {
        let users = read(path).map_err(|why| Failure::new(exit::NO_INPUT, why))?;
        Ok(AuthFile {
            path: path.to_owned(),
            users: Mutex::new(users),
        })
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// Those of [`read`](AuthFile::read), as text; the old users stay.
    pub fn reload(&self) -> Result<(), String> {
        let users = read(&self.path)?;
        *self.users.lock().unwrap_or_else(PoisonError::into_inner) = users;
        Ok(())
    }

    /// Whether user and password are valid. The time does not depend on how much of the password matches.
    pub fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        // Compares all users, so that the time does not reveal which one matched.
        users.iter().fold(false, |found, (name, secret)| {
            found | (is_equal(name, user) & is_equal(secret, password))
        })
    }
}

fn read(path: &Path) -> Result<Users, String> {
    let named = |why: String| format!("-Y {}: {why}", path.display());
    let text = std::fs::read(path).map_err(|error| named(error.to_string()))?;
    parse(&text).map_err(named)
}

fn parse(text: &[u8]) -> Result<Users, String> {
    let mut users = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        match colon.map(|at| (&line[..at], &line[at + 1..])) {
            Some((user, password)) if !user.is_empty() && !password.is_empty() => {
                users.push((user.to_vec(), password.to_vec()));
            }
            _ => return Err(format!("line {}: expected user:password", index + 1)),
        }
    }
    match users.len() {
        0 => Err("it has no users".to_string()),
        1..=USERS_MAX => Ok(users),
        count => Err(format!("{count} users; at most {USERS_MAX}")),
    }
}

/// Compares all of `given`, wherever the first difference is; the time reveals only its length.
fn is_equal(secret: &[u8], given: &[u8]) -> bool {
    let mut difference = usize::from(secret.len() != given.len());
    for (index, byte) in given.iter().enumerate() {
        let other = secret[index % secret.len()]; // `parse` refuses empty secrets
        difference |= usize::from(std::hint::black_box(byte ^ other));
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("drover-auth-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("temporary file");
        path
    }

    #[test]
    fn who_may_come_in() {
        let path = file("who", "foo:bar\n\nbaz:with:colons and blanks\r\nlast:one");
        let auth = AuthFile::read(&path).expect("a good file");
        for (user, password, admitted) in [
            ("foo", "bar", true),
            ("baz", "with:colons and blanks", true),
            ("last", "one", true),
            ("foo", "one", false),
            ("foo", "ba", false),
            ("foo", "barbar", false),
            ("foo", "", false),
            ("", "", false),
            ("foofoo", "bar", false),
        ] {
            assert_eq!(
                auth.admits(user.as_bytes(), password.as_bytes()),
                admitted,
                "{user} {password}"
            );
        }
        std::fs::remove_file(path).expect("ours");
    }

    #[test]
    fn read_again() {
        let path = file("again", "foo:bar\n");
        let auth = AuthFile::read(&path).expect("a good file");
        std::fs::write(&path, "foo:new\n").expect("temporary file");
        assert!(auth.admits(b"foo", b"bar"));
        auth.reload().expect("a good file");
        assert!(auth.admits(b"foo", b"new") && !auth.admits(b"foo", b"bar"));
        std::fs::write(&path, "nonsense\n").expect("temporary file");
        let why = auth.reload().expect_err("no colon");
        assert!(why.ends_with(": line 1: expected user:password"), "{why}");
        assert!(auth.admits(b"foo", b"new"), "what was good stays");
        std::fs::remove_file(path).expect("ours");
    }

    #[test]
    fn files_that_make_no_sense() {
        let why = |text: &str| parse(text.as_bytes()).expect_err(text);
        assert_eq!(why(""), "it has no users");
        assert_eq!(why("a:b\n:b\n"), "line 2: expected user:password");
        assert_eq!(why("a:\n"), "line 1: expected user:password");
        assert_eq!(why(&"a:b\n".repeat(1025)), "1025 users; at most 1024");
        assert_eq!(
            AuthFile::read(Path::new("/nonexistent"))
                .expect_err("missing")
                .code,
            66
        );
    }

    proptest! {
        #[test]
        fn equal_is_what_it_says(a in proptest::collection::vec(0u8..3, 1..6), b in proptest::collection::vec(0u8..3, 0..6)) {
            prop_assert_eq!(is_equal(&a, &b), a == b);
        }
    }
}
