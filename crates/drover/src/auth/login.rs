//! [`Doors`]: the guards of a server's listeners, which share one file of users.

use super::AuthFile;
use crate::exit::Failure;
use drover_base::Ns;
use drover_control::{Credentials, Guard};
use drover_memcached::{Judgement, Login};
use std::path::Path;
use std::sync::Arc;

/// Guards of all listeners. Each listener counts and slows wrong passwords for itself, so that guesses at one keep
/// nobody from another.
#[derive(Debug)]
pub struct Doors {
    users: Arc<AuthFile>,
    native: Arc<Guard>,
    admin: Arc<Guard>,
    memcached: Arc<Guard>,
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
            memcached: Guard::new(users.clone()),
            users,
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

    /// Judges the login of a memcached client, once a second for each host that guesses.
    pub fn judge_memcached(&self, login: &Login<'_>, now_s: u32) -> Judgement {
        let now = Ns::from_s(u64::from(now_s));
        if now < self.memcached.host_may_try_at(login.host, now) {
            return Judgement::Later;
        }
        match self
            .memcached
            .judge_host(login.host, login.user, login.password, now)
        {
            true => Judgement::Accepted,
            false => Judgement::Refused,
        }
    }

    /// Numbers of wrong passwords.
    pub fn failures(&self) -> Failures {
        Failures {
            native: self.native.failures(),
            memcached: self.memcached.failures(),
            admin: self.admin.failures(),
        }
    }
}
