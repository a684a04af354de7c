//! Sockets passed by a service manager `[sd_listen_fds]`: it listens from boot on, so clients that connect while we
//! start or restart wait instead of being refused.

use crate::exit::{self, Failure};
use drover_net::Listener;
use listenfd::ListenFd;
use std::os::fd::OwnedFd;

/// Listeners for memcached clients, passed by `LISTEN_FDS`. Works once: it clears the environment.
///
/// # Errors
/// A descriptor is not a listening TCP or Unix socket.
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
