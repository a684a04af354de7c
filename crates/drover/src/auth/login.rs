//! [`Doors`]: the guards of a server's listeners, which share one file of users.

use super::AuthFile;
use crate::exit::Failure;
use drover_control::{Credentials, Guard};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Guards of all listeners. Each listener counts and slows wrong passwords for itself, so that guesses at one keep
/// nobody from another.
#[derive(Debug)]
pub struct Doors {
    users: Arc<AuthFile>,
    native: Arc<Guard>,
    admin: Arc<Guard>,
    memcached_failures: AtomicU64,
}

/// Numbers of wrong passwords so far, by listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Failures {
    /// Those of native clients.
    pub native: u64,
    /// Those of memcached clients.
    pub memcached: u64,
    /// Those at the admin port.
    pub admin: u64,
}

impl Doors {
    /// Reads the file of users at `path`.
    ///
    /// # Errors
    /// Those of [`AuthFile::read`].
    pub fn read(path: &Path) -> Result<Doors, Failure> {
        let users = Arc::new(AuthFile::read(path)?);
        Ok(Doors {
            native: Guard::new(users.clone()),
            admin: Guard::new(users.clone()),
            users,
            memcached_failures: AtomicU64::new(0),
        })
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// Those of [`AuthFile::reload`].
    pub fn reload(&self) -> Result<(), String> {
        self.users.reload()
    }

    /// A user of the file: for a process that connects with itself.
    pub fn any_user(&self) -> Option<Arc<Credentials>> {
        self.users.any().map(Arc::new)
    }

    /// The guard of native clients.
    pub fn native(&self) -> Arc<Guard> {
        self.native.clone()
    }

    /// The guard of the admin port.
    pub fn admin(&self) -> Arc<Guard> {
        self.admin.clone()
    }

    /// Whether a memcached client may log in; counts wrong passwords.
    pub fn admits_memcached(&self, user: &[u8], password: &[u8]) -> bool {
        let is_let_in = self.users.admits(user, password);
        if !is_let_in {
            self.memcached_failures.fetch_add(1, Ordering::Relaxed);
        }
        is_let_in
    }

    /// Numbers of wrong passwords.
    pub fn failures(&self) -> Failures {
        Failures {
            native: self.native.failures(),
            memcached: self.memcached_failures.load(Ordering::Relaxed),
            admin: self.admin.failures(),
        }
    }
}
