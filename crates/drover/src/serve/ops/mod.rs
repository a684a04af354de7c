//! Operational parts of a server: flags, the service manager's protocol, signals, the admin port.
//!
//! [`Ops::take`] acquires everything that may fail, before the first thread; [`Ops::start`] starts what lives as long
//! as the server.

mod activation;
mod args;
mod files;
mod helpers;
mod notify;
mod pid_file;
mod signals;
mod tls;
mod user;
mod watchdog;

pub use activation::inherited;
pub use args::{OpsArgs, OpsSettings};
pub use files::Files;
pub use signals::{Signal, Signals};
pub use tls::{Words as TlsWords, options_of as tls_options};
pub use user::group_id;

use crate::admin::{Admin, Stopper};
use crate::exit::Failure;
use notify::Notify;
use pid_file::PidFile;
use std::path::PathBuf;
use std::sync::Arc;

/// Resources for operations that are acquired before the server starts: the bound admin port, the connection to the
/// service manager, the contents of the files of users and certificates, and the pid file.
pub struct Ops {
    admin: Option<(Admin, Stopper)>,
    notify: Notify,
    files: Arc<Files>,
    _pid_file: Option<PidFile>,
}

impl Ops {
    /// Binds the admin port, reads the files of users and certificates, writes the pid file, becomes the user of `-u` (who
    /// then owns the files `own`; their group is `group`, if it is given), and finds the service manager, in this order.
    /// Leaves out what `settings` do not ask for; the service manager is found by the environment. With `-u` the process
    /// must have only one thread.
    ///
    /// # Errors
    /// Any of these fails, except finding the service manager.
    pub fn take(settings: &OpsSettings, own: &[PathBuf], group: Option<u32>) -> Result<Ops, Failure> {
        let mut admin = settings.metrics_listen.value.map(Admin::bind).transpose()?;
        if let Some((admin, _)) = &admin {
            let addr = admin
                .addr()
                .map_or_else(|_| "?".to_string(), |addr| addr.to_string());
            tracing::info!("metrics: http://{addr}/metrics, health: http://{addr}/healthz");
        }
        // While still root: often only root may read a key.
        let files = Arc::new(Files::read(settings)?);
        if let Some((admin, _)) = &mut admin {
            admin.guard(files.auth.clone());
        }
        // While still root, too: pid files are usually in a folder of root's.
        let pid_file = settings.pid_file.value.as_deref();
        let pid_file = pid_file.map(PidFile::write).transpose()?;
        if let Some(name) = &settings.user.value {
            user::become_user(name, own, group)?;
        }
        Ok(Ops {
            admin,
            notify: Notify::from_env(),
            files,
            _pid_file: pid_file,
        })
    }

    /// Users and certificates, as last read.
    pub fn files(&self) -> Arc<Files> {
        self.files.clone()
    }
}
