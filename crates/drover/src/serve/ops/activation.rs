//! Sockets that a service manager has taken for us `[sd_listen_fds]`: it listens from boot on, and clients that come
//! while we start, or restart, wait instead of being refused.

use crate::exit::{self, Failure};
use drover_net::Listener;
use listenfd::ListenFd;
use std::os::fd::OwnedFd;

/// Listeners for memcached's clients, passed by `LISTEN_FDS`. Once only: it forgets the environment. Errors: one that is
/// neither TCP nor a Unix socket, or does not listen.
pub fn inherited() -> Result<Vec<Listener>, Failure> {
    let mut passed = ListenFd::from_env();
    let count = passed.len();
    let take = |index| {
        let tcp = passed
            .take_tcp_listener(index)
            .map(|taken| taken.map(OwnedFd::from));
        let taken = match tcp {
            Ok(Some(tcp)) => Ok(Some(tcp)),
            _ => passed
                .take_unix_listener(index)
                .map(|taken| taken.map(OwnedFd::from)),
        };
        let listener = taken.map_err(|error| error.to_string()).and_then(|fd| {
            let fd = fd.ok_or("it is gone")?;
            Listener::inherited(fd).map_err(|error| error.to_string())
        });
        listener.map_err(|why| Failure::new(exit::USAGE, format!("LISTEN_FDS, socket {index}: {why}")))
    };
    (0..count).map(take).collect()
}
