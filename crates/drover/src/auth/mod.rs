//! Users: the file of a server (`-Y`), and whom a client command connects as.

mod login;
mod private_file;
mod users;

pub use login::{Doors, Failures};
pub use users::AuthFile;

use crate::exit::{self, Failure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use drover_control::{ControlAddr, Credentials};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Environment variable with `user:password` for client commands.
pub const VARIABLE: &str = "DROVER_AUTH";

/// Whom a client command connects as.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Login")]
pub struct CredentialArgs {
    /// File with the user:password that a server with -Y requires; or set DROVER_AUTH=user:password
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
}

impl CredentialArgs {
    /// Whether a file was named. The environment may still name a user.
    pub fn is_given(&self) -> bool {
        self.auth_file.is_some()
    }

    /// The user of the file or else of the environment; `None`: nobody in particular.
    ///
    /// # Errors
    /// The file cannot be read, others may read it, or it does not name one user; or the variable is malformed.
    pub fn read(&self) -> Result<Option<Arc<Credentials>>, Failure> {
        match &self.auth_file {
            Some(path) => of_file("--auth-file", path).map(Some),
            None => of_environment(),
        }
    }

    /// Returns `addr` with the user to connect as.
    ///
    /// # Errors
    /// As [`read`](CredentialArgs::read).
    pub fn of(&self, addr: ControlAddr) -> Result<ControlAddr, Failure> {
        Ok(addr.with_credentials(self.read()?))
    }
}

/// The one user of a file; `flag` named it.
///
/// # Errors
/// The file cannot be read, others may read it, or it does not name one user.
pub fn of_file(flag: &str, path: &Path) -> Result<Arc<Credentials>, Failure> {
    let refuse = |why: String| Failure::new(exit::NO_INPUT, format!("{flag} {}: {why}", path.display()));
    let text = private_file::read(path).map_err(refuse)?;
    match <[Credentials; 1]>::try_from(users::parse(&text).map_err(refuse)?) {
        Ok([credentials]) => Ok(Arc::new(credentials)),
        Err(users) => Err(refuse(format!("{} users; a client is one", users.len()))),
    }
}

/// The user of the environment.
///
/// # Errors
/// The variable is malformed.
pub fn of_environment() -> Result<Option<Arc<Credentials>>, Failure> {
    let value = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let credentials = value
        .map(|value| Credentials::parse(value.as_bytes()))
        .transpose();
    let credentials =
        credentials.map_err(|error| Failure::new(exit::USAGE, format!("{VARIABLE}: {error}")))?;
    Ok(credentials.map(Arc::new))
}

/// The value of a header `Authorization` that names `credentials`.
pub fn basic(credentials: &Credentials) -> String {
    let text = [credentials.user(), b":", credentials.secret()].concat();
    format!("Basic {}", STANDARD.encode(text))
}

/// Parses the value of a header `Authorization`.
pub fn parse_basic(value: &str) -> Option<Credentials> {
    let (scheme, text) = value.trim().split_once(' ')?;
    let text = STANDARD.decode(text.trim()).ok()?;
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    Credentials::parse(&text).ok().filter(|_| is_basic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back() {
        let credentials = Credentials::parse(b"Aladdin:open sesame").expect("credentials");
        assert_eq!(basic(&credentials), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(parse_basic(&basic(&credentials)), Some(credentials));
        for bad in [
            "",
            "Basic",
            "Basic !",
            "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "Basic QQ==",
        ] {
            assert_eq!(parse_basic(bad), None, "{bad}");
        }
    }
}
