//! Clients of a service of several members: each operation goes to the member that serves its key.
//!
//! ```text
//! registry --- map ---> ClusterSession --- operation ---> client of member a, with a session of its own
//!                          Redirects   <-- elsewhere ---  client of member b, made when it is first asked
//!                          Operations: copies, to be sent again
//! ```
//! A request that is answered "elsewhere" was not executed: it is sent again, to the owner by a newer map or after a pause, until the
//! operation's deadline. An update whose member was lost while it was under way is not: nobody knows whether it took effect.
//! - [`MapSource`] is what the map comes from; `first_look` waits for the first one.
//! - `Members` has the clients of single members, and `addresses` says how each is reached.
//! - `Operations` keeps what is not complete, and its order; `Dispatch` decides when it is sent again.
//!
//! Operations on one key take effect in the order of submission because two that conflict are never under way together.

mod addresses;
mod dispatch;
mod first_look;
mod members;
mod operations;
mod session;

use crate::Options;
use crate::session::Connected;
use drover_cluster::{LocalRegistry, Registry};
use drover_cluster_etcd::{EtcdRegistry, ServiceUrl};
use drover_kv::ConnectError;
use members::Members;
use session::ClusterSession;

/// What a client learns the members and their shards from.
pub trait MapSource: Registry {
    /// Why there is no answer, for people; `None`: it always answers.
    fn no_answer(&self) -> Option<String> {
        None
    }
}

impl MapSource for LocalRegistry {}

impl MapSource for EtcdRegistry {
    fn no_answer(&self) -> Option<String> {
        Some(EtcdRegistry::no_answer(self).to_string())
    }
}

/// Connects to the service of `url`.
pub(crate) fn connect(url: &ServiceUrl, options: &Options) -> Result<Connected, ConnectError> {
    let registry = url.options().and_then(EtcdRegistry::open);
    let registry = registry.map_err(|error| ConnectError::Service(error.into()))?;
    let connected = connect_through(Box::new(registry), options);
    connected.map_err(|error| ConnectError::Service(format!("{url}: {error}").into()))
}

/// Connects to the service that `registry` keeps. Blocks until the members are known, for at most `options.connect_timeout`; each is
/// connected to when it is first asked.
///
/// # Errors
/// The registry does not answer, the service has no members yet, or none has an address that this machine can use.
pub fn connect_through(
    mut registry: Box<dyn MapSource>,
    options: &Options,
) -> Result<Connected, ConnectError> {
    let (settings, map) = first_look::look(&mut *registry, options.connect_timeout)?;
    let members = Members::new(&map, options)?;
    let session = ClusterSession::new(registry, settings, map, members, options);
    Ok(Connected(Box::new(session)))
}
