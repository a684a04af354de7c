//! [`Door`]: the address of a server for the clients of a simulated cluster.

use drover_control::{ControlStream, Dial, DialError, LocalListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The place where clients of a simulated cluster connect to one server: clients dial, the server accepts. It is
/// created closed: the cluster opens it with `set_open` when the server starts, and closes it when the server crashes.
/// Dialing a closed door is refused. Clones share the state.
#[derive(Clone)]
pub struct Door {
    /// Name of the server in errors.
    server: &'static str,
    /// Relaxed: a cluster and everything in it stay on one thread.
    open: Arc<AtomicBool>,
    listener: LocalListener,
}

impl Door {
    /// Creates the closed door of a server; `server` is its name in errors.
    pub fn new(server: &'static str) -> Door {
        Door {
            server,
            open: Arc::default(),
            listener: LocalListener::new(),
        }
    }

    /// Returns a dialer for a client. It connects if the door is open at that time.
    pub fn dial(&self) -> Dial {
        let door = self.clone();
        Dial::new(self.server, move || match door.open.load(Ordering::Relaxed) {
            true => Ok(door.listener.connect()),
            false => Err(DialError::Refused {
                addr: door.server.to_owned(),
            }),
        })
    }

    /// Opens or closes the door; connections that the server has not accepted end.
    pub fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
        self.listener.clear();
    }

    /// Takes the server's end of the oldest connection not accepted yet.
    pub fn accept(&self) -> Option<ControlStream> {
        self.listener.accept()
    }
}
