//! [`Options`] of a client, and [`Error`].

use drover_base::Ns;
use drover_cluster_etcd::BadServiceUrl;
use drover_control::{AddrError, Credentials, TlsConnector};
use drover_kv::{CallError, ConnectError, ConnectOptions, FetchObjective, ResultTransfer};
use std::sync::Arc;

/// Options of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum time of each of the three steps of connecting: reaching the server (per IP address of its name, without
    /// the name look-up), asking for its system, and setting up all sessions. Default: 5 s.
    pub connect_timeout: Ns,
    /// Time after which an operation without a result fails; waiting for space in the window does not count. It counts anew when
    /// another member of a service of several is asked. Default: 5 s.
    pub call_timeout: Ns,
    /// Number of operations in flight that the client asks for, per shard; default: 16; 0 counts as 1. HERD rounds it up
    /// to a power of two, and its server may grant less. Pilaf and FaRM-KV allow `window` times the number of shards in
    /// total, whichever shards they go to, but at most 1024, and no more than one send queue of the device suffices for.
    pub window: usize,
    /// Whom to connect as, where the server lets in only the users of a file (`-Y`); default: nobody in particular. Both
    /// ends prove that they know the secret, which is not sent. It stands in for that of the address, if both are given.
    pub credentials: Option<Arc<Credentials>>,
    /// Whom to trust, where the control channel is TCP (`rdma://`) and the server speaks TLS at it (`-Z`); default: a
    /// plain channel. Unix sockets have no TLS. It stands in for that of the address, if both are given.
    pub tls: Option<Arc<TlsConnector>>,
    /// Secret that the server's operator requires, which is sent as it is: use [`credentials`](Options::credentials)
    /// with `drover serve`. It has at most 256 bytes (a longer one is refused with
    /// [`ConnectError::SecretTooLong`]); empty (the default) if the server requires none.
    pub secret: Vec<u8>,
    /// How results come to the client, in systems that know several ways (Jakiro); default: as is best for each server.
    pub transfer: ResultTransfer,
    /// What the length of the first READ of a result is chosen by, where the client READs results; default: the exact rate.
    pub objective: FetchObjective,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            connect_timeout: Ns::from_s(5),
            call_timeout: Ns::from_s(5),
            window: 16,
            credentials: None,
            tls: None,
            secret: Vec::new(),
            transfer: ResultTransfer::Auto,
            objective: FetchObjective::default(),
        }
    }
}

impl Options {
    pub(crate) fn of_connection(&self) -> ConnectOptions {
        ConnectOptions {
            window: self.window,
            deadline: self.call_timeout,
            rests: true,
            secret: self.secret.clone(),
            transfer: self.transfer,
            objective: self.objective,
            ..ConnectOptions::default()
        }
    }
}

/// Any error of a client: one type for functions that use `?`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text given as the service's address is not an address.
    #[error(transparent)]
    Address(#[from] AddrError),
    /// The text given as the address of a service of several members is not one.
    #[error(transparent)]
    ServiceUrl(#[from] BadServiceUrl),
    /// The client could not connect.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A call failed or its result is unknown.
    #[error(transparent)]
    Call(#[from] CallError),
}
