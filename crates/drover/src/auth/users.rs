//! `-Y`: users and passwords, lines `user:password` of a file that is reloaded on SIGHUP.

use super::private_file;
use crate::exit::{self, Failure};
use drover_control::{Credentials, CredentialsError, Users};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Maximum number of lines; each costs a comparison per login attempt.
const USERS_MAX: usize = 1024;

/// Users and passwords of the file at a path, as last read from it.
#[derive(Debug)]
pub struct AuthFile {
    path: PathBuf,
    users: Mutex<Vec<Credentials>>,
}

impl AuthFile {
    /// Reads the file of users at `path`.
    ///
    /// # Errors
    /// The file cannot be read, others may read it, it changes meanwhile, it is malformed, or has no user or more than
    /// 1024.
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

    /// The first user.
    pub fn any(&self) -> Option<Credentials> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.first().cloned()
    }
}

impl Users for AuthFile {
    fn each_secret(&self, user: &[u8], found: &mut dyn FnMut(&[u8])) {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        for known in users.iter().filter(|known| known.user() == user) {
            found(known.secret());
        }
    }
}

fn read(path: &Path) -> Result<Vec<Credentials>, String> {
    let named = |why: String| format!("-Y {}: {why}", path.display());
    let text = private_file::read(path).map_err(named)?;
    parse(&text).map_err(named)
}

/// Parses lines `user:password`; empty ones do not count.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Credentials>, String> {
    let mut users = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let credentials = Credentials::parse(line);
        users.push(credentials.map_err(|error: CredentialsError| format!("line {}: {error}", index + 1))?);
    }
    match users.len() {
        0 => Err("it has no users: write a line user:password for each".to_string()),
        1..=USERS_MAX => Ok(users),
        count => Err(format!("{count} users; at most {USERS_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn file(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("drover-auth-{}-{name}", std::process::id()));
        write(&path, text);
        path
    }

    fn write(path: &Path, text: &str) {
        std::fs::write(path, text).expect("temporary file");
        set_mode(path, 0o600);
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }

    fn admits(auth: &AuthFile, user: &str, password: &str) -> bool {
        let mut found = false;
        auth.each_secret(user.as_bytes(), &mut |secret| {
            found |= secret == password.as_bytes()
        });
        found
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
            assert_eq!(admits(&auth, user, password), admitted, "{user} {password}");
        }
        std::fs::remove_file(path).expect("ours");
    }

    #[test]
    fn read_again() {
        let path = file("again", "foo:bar\n");
        let auth = AuthFile::read(&path).expect("a good file");
        write(&path, "foo:new\n");
        assert!(admits(&auth, "foo", "bar"));
        auth.reload().expect("a good file");
        assert!(admits(&auth, "foo", "new") && !admits(&auth, "foo", "bar"));
        write(&path, "nonsense\n");
        let why = auth.reload().expect_err("no colon");
        assert!(why.ends_with(": line 1: expected user:password"), "{why}");
        assert!(admits(&auth, "foo", "new"), "what was good stays");
        std::fs::remove_file(path).expect("ours");
    }

    #[test]
    fn files_that_make_no_sense() {
        let why = |text: &str| parse(text.as_bytes()).expect_err(text);
        assert!(why("").starts_with("it has no users: "));
        assert_eq!(why("a:b\n:b\n"), "line 2: expected user:password");
        assert_eq!(why("a:\n"), "line 1: the password is empty");
        let long = format!("a:b\na:{}\n", "x".repeat((64 << 10) + 1));
        assert_eq!(
            why(&long),
            "line 2: a password of 65537 bytes, at most 65536 are allowed"
        );
        assert!(parse(&long.as_bytes()[..long.len() - 2]).is_ok(), "64 KiB");
        assert!(parse(b"a:b").is_ok(), "one byte");
        assert_eq!(why(&"a:b\n".repeat(1025)), "1025 users; at most 1024");
        assert_eq!(
            AuthFile::read(Path::new("/nonexistent"))
                .expect_err("missing")
                .code,
            66
        );
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let path = file("open", "foo:bar\n");
        for (mode, is_good) in [
            (0o600, true),
            (0o400, true),
            (0o640, true),
            (0o644, false),
            (0o604, false),
            (0o602, false),
            (0o660, false),
        ] {
            set_mode(&path, mode);
            let got = AuthFile::read(&path);
            assert_eq!(got.is_ok(), is_good, "{mode:o}");
            if let Err(failure) = got {
                assert!(failure.text.contains("chmod 600"), "{}", failure.text);
                assert!(!failure.text.contains("bar"), "{}", failure.text);
            }
        }
        std::fs::remove_file(path).expect("ours");
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let folder = std::env::temp_dir();
        let why = AuthFile::read(&folder).expect_err("a folder").text;
        assert!(why.contains(": it is not a file: "), "{why}");
        let path = file("large", &"x".repeat((1 << 20) + 1));
        let why = AuthFile::read(&path).expect_err("too large").text;
        assert!(why.ends_with(": it has more than 1 MiB"), "{why}");
        std::fs::remove_file(path).expect("ours");
    }

    /// Renaming another file over it while it is read gives the old or the new users, nothing else.
    /// What is cut short and written again at its place is refused while it is neither the old file nor the new one: then the old
    /// users stay.
    #[test]
    fn a_file_that_is_cut_short_while_it_is_read_changes_nothing() {
        let path = file("truncated", "foo:bar\nqux:quux\n");
        let auth = AuthFile::read(&path).expect("a good file");
        let mut refused = 0;
        for round in 0..200 {
            let text = format!("foo:bar\nqux:{round}\n");
            let is_read = std::thread::scope(|scope| {
                scope.spawn(|| std::fs::write(&path, &text).expect("ours"));
                auth.reload()
            });
            if let Err(why) = is_read {
                refused += 1;
                assert!(
                    why.contains("it changed while it was read") || why.contains("it has no users"),
                    "{why}"
                );
            }
            assert!(
                admits(&auth, "foo", "bar"),
                "a user of all files, in round {round}"
            );
            auth.reload().expect("a whole file");
            assert!(admits(&auth, "qux", &round.to_string()));
        }
        println!("{refused} of 200 times the file was refused");
        std::fs::remove_file(path).expect("ours");
    }

    #[test]
    fn a_file_may_be_replaced_while_it_is_read() {
        let path = file("replaced", "foo:bar\n");
        let auth = AuthFile::read(&path).expect("a good file");
        for round in 0..200 {
            let next = file("next", &format!("foo:{round}\n"));
            std::thread::scope(|scope| {
                scope.spawn(|| std::fs::rename(&next, &path).expect("ours"));
                auth.reload().expect("a whole file");
            });
        }
        std::fs::remove_file(path).expect("ours");
    }
}
