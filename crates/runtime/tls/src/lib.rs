//! TLS by rustls, for memcached's sockets and for control channels alike: it reads certificates, makes sessions, and says
//! why a handshake failed. It opens no socket.
//!
//! - [`TlsAcceptor`] makes the sessions of a server, from files that can be [read again](TlsAcceptor::reload).
//! - [`TlsConnector`] makes those of a client, which checks the server's certificate.
//! - [`TlsSession`] is one end of a connection; its caller hands it a nonblocking socket.
//! - [`reason`] tells people what was wrong.
//!
//! ```no_run
//! use drover_tls::{TlsAcceptor, TlsClientOptions, TlsConnector, TlsOptions};
//!
//! let acceptor = TlsAcceptor::new(TlsOptions {
//!     chain_cert: "server.pem".into(),
//!     key: "server.key".into(),
//!     ..TlsOptions::default()
//! })?;
//! let connector = TlsConnector::new(TlsClientOptions::trusting("ca.pem"))?;
//! let (server, client) = (acceptor.session()?, connector.session("db7.example.net")?);
//! # let _ = (server, client);
//! # Ok::<(), drover_tls::TlsError>(())
//! ```
#![forbid(unsafe_code)]

mod acceptor;
mod connector;
mod counters;
mod files;
mod own_server;
mod reason;
mod session;
#[cfg(test)]
mod tests;

pub use acceptor::{ClientCertificates, TlsAcceptor, TlsOptions};
pub use connector::{TlsClientOptions, TlsConnector};
pub use counters::TlsCounters;
pub use files::TlsError;
pub use reason::{reason, shows_tls};
pub use session::{CHANNEL_BINDING_BYTES, TlsSession};

use rustls::crypto::CryptoProvider;
use std::sync::Arc;

/// The cryptography of all sessions.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
