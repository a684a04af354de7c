//! Flags for operations; where memcached has one, the letter and the long name are its own.

use super::tls;
use crate::exit::Failure;
use crate::serve::settings::{Origin, Row, Setting, pick, row};
use drover_net::TlsOptions;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `serve` and `config` that say how it is run.
#[derive(clap::Args, Clone, Default, Debug)]
pub struct OpsArgs {
    /// Serve /metrics (Prometheus) and /healthz over HTTP here, such as 127.0.0.1:9150 [default: none]
    #[arg(long, value_name = "IP:PORT")]
    pub metrics_listen: Option<SocketAddr>,
    /// Write the process's number here, and remove it at the end
    #[arg(short = 'P', long = "pidfile", value_name = "FILE")]
    pub pid_file: Option<PathBuf>,
    /// Become this user once all addresses are taken; needs to be started as root
    #[arg(short = 'u', long, value_name = "NAME")]
    pub user: Option<String>,
    /// Clients of memcached's protocol must log in as one of this file: lines `user:password`, read again on SIGHUP
    #[arg(short = 'Y', long, value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
    /// Speak TLS on TCP; needs -o ssl_chain_cert=FILE,ssl_key=FILE, which are read again on SIGHUP
    #[arg(short = 'Z', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_ssl: Option<bool>,
}

/// The same, with every gap filled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpsSettings {
    /// The admin port.
    pub metrics_listen: Setting<Option<SocketAddr>>,
    /// Where the process's number goes.
    pub pid_file: Setting<Option<PathBuf>>,
    /// Whom to become.
    pub user: Setting<Option<String>>,
    /// Who may come in.
    pub auth_file: Setting<Option<PathBuf>>,
    /// Whether there is TLS.
    pub enable_ssl: Setting<bool>,
    /// What it needs.
    pub tls: Option<TlsOptions>,
}

impl OpsSettings {
    /// Command line over file over default; `words` of `-o` say the rest about TLS.
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

    /// As `drover config` shows them.
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
