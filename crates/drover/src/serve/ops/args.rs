//! Flags for operations; flags that memcached has keep its letter and long name.

use super::tls;
use crate::exit::Failure;
use crate::serve::settings::{Origin, Row, Setting, pick, row};
use drover_net::TlsOptions;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `serve` and `config` about operations: admin port, pid file, user, logins, TLS.
#[derive(clap::Args, Clone, Default, Debug)]
pub struct OpsArgs {
    /// Serve /metrics (Prometheus) and /healthz over HTTP here, such as 127.0.0.1:9150 [default: none]
    #[arg(long, value_name = "IP:PORT")]
    pub metrics_listen: Option<SocketAddr>,
    /// Write the process id to this file, and remove the file at the end
    #[arg(short = 'P', long = "pidfile", value_name = "FILE")]
    pub pid_file: Option<PathBuf>,
    /// Become this user once all addresses are bound; must be started as root
    #[arg(short = 'u', long, value_name = "NAME")]
    pub user: Option<String>,
    /// memcached clients must log in as a user of this file: lines `user:password`, reloaded on SIGHUP
    #[arg(short = 'Y', long, value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
    /// Use TLS on TCP; needs -o ssl_chain_cert=FILE,ssl_key=FILE, which are reloaded on SIGHUP
    #[arg(short = 'Z', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_ssl: Option<bool>,
}

/// Settings of a server about operations (admin port, pid file, user, logins, TLS), with defaults filled in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpsSettings {
    /// Address of the admin port; `None`: no admin port.
    pub metrics_listen: Setting<Option<SocketAddr>>,
    /// Path of the pid file, if one is wanted.
    pub pid_file: Setting<Option<PathBuf>>,
    /// User to become, if any.
    pub user: Setting<Option<String>>,
    /// Path of the file of users; `None`: clients need not log in.
    pub auth_file: Setting<Option<PathBuf>>,
    /// Whether TLS is enabled for memcached clients over TCP.
    pub enable_ssl: Setting<bool>,
    /// TLS options; `None` without TLS.
    pub tls: Option<TlsOptions>,
}

impl OpsSettings {
    /// Takes each setting from the command line (`typed`), else from the file, else its default; the TLS options from
    /// the `ssl_` words of `-o`.
    ///
    /// # Errors
    /// A TLS option is invalid or missing.
    pub fn fill(typed: OpsArgs, file: OpsArgs, words: &tls::Words) -> Result<OpsSettings, Failure> {
        let enable_ssl = pick(typed.enable_ssl, file.enable_ssl, false, Origin::Default);
        let tls = tls::options(enable_ssl.value, words)?;
        Ok(OpsSettings {
            metrics_listen: Setting::optional(typed.metrics_listen, file.metrics_listen),
            pid_file: Setting::optional(typed.pid_file, file.pid_file),
            user: Setting::optional(typed.user, file.user),
            auth_file: Setting::optional(typed.auth_file, file.auth_file),
            enable_ssl,
            tls,
        })
    }

    /// Rows of `drover config` about these settings; the TLS options are not among them.
    pub fn rows(&self) -> Vec<Row> {
        fn or_none<T>(value: &Option<T>, show: impl Fn(&T) -> String) -> String {
            value.as_ref().map_or("none".into(), show)
        }
        let path = |path: &Option<PathBuf>| or_none(path, |path| path.display().to_string());
        vec![
            row("metrics-listen", &self.metrics_listen, |addr| {
                or_none(addr, SocketAddr::to_string)
            }),
            row("pidfile", &self.pid_file, path),
            row("user", &self.user, |name| or_none(name, Clone::clone)),
            row("auth-file", &self.auth_file, path),
            row("enable-ssl", &self.enable_ssl, bool::to_string),
        ]
    }
}
