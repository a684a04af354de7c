//! The service manager's protocol `[sd_notify]`: datagrams of `NAME=value` lines to a Unix socket.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager that started us, if it wants notifications.
#[derive(Debug, Default)]
pub struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Finds the service manager by `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    pub fn from_env() -> Notify {
        let var = |name: &str| std::env::var(name).ok();
        let ours = var("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let usec = var("WATCHDOG_USEC").filter(|_| ours);
        Notify::new(var("NOTIFY_SOCKET").as_deref(), usec.as_deref())
    }

    fn new(socket: Option<&str>, watchdog_usec: Option<&str>) -> Notify {
        let Some(name) = socket else {
            return Notify::default();
        };
        let to = address(name).and_then(|addr| {
            let ours = UnixDatagram::unbound()?;
            ours.set_nonblocking(true)?; // a manager that does not read must not block us
            Ok((ours, addr))
        });
        Notify {
            to: to
                .inspect_err(|error| tracing::warn!("NOTIFY_SOCKET={name}: {error}"))
                .ok(),
            watchdog: watchdog_usec
                .and_then(|usec| usec.parse().ok())
                .filter(|usec| *usec > 0)
                .map(Duration::from_micros),
        }
    }

    /// Time without a call of [`alive`](Notify::alive) after which the service manager counts the service as hanging;
    /// `None`: it does not watch, or there is no manager.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog.filter(|_| self.to.is_some())
    }

    /// Reports that the service is ready; `status` describes it.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", status.replace('\n', " ")));
    }

    /// Reports that the service is stopping.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Reports that the service is alive. To be called again and again while all workers answer, at intervals below
    /// [`watchdog`](Notify::watchdog).
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, text: &str) {
        if let Some((socket, addr)) = &self.to
            && let Err(error) = socket.send_to_addr(text.as_bytes(), addr)
        {
            tracing::debug!("cannot notify the service manager of {text}: {error}");
        }
    }
}

/// Parses a path, or `@` and a name in the abstract namespace.
fn address(name: &str) -> std::io::Result<SocketAddr> {
    match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None if name.starts_with('/') => SocketAddr::from_pathname(name),
        None => Err(std::io::Error::other("neither a path nor @name")),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The manager's end, with its own name, and ours.
    pub fn pair(name: &str, watchdog_usec: Option<&str>) -> (UnixDatagram, Notify) {
        let name = format!("drover-notify-{}-{name}", std::process::id());
        let addr = SocketAddr::from_abstract_name(&name).expect("a name");
        let manager = UnixDatagram::bind_addr(&addr).expect("nobody has it");
        manager.set_nonblocking(true).expect("a socket");
        (manager, Notify::new(Some(&format!("@{name}")), watchdog_usec))
    }

    /// The next message, if there is one.
    pub fn heard(manager: &UnixDatagram) -> Option<String> {
        let mut bytes = [0; 256];
        let len = manager.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..len]).into_owned())
    }

    #[test]
    fn messages_as_the_manual_has_them() {
        let (manager, notify) = pair("messages", Some("1500000"));
        assert_eq!(notify.watchdog(), Some(Duration::from_millis(1500)));
        notify.ready("serving at\nshm:x");
        assert_eq!(
            heard(&manager).as_deref(),
            Some("READY=1\nSTATUS=serving at shm:x")
        );
        notify.alive();
        notify.stopping();
        assert_eq!(heard(&manager).as_deref(), Some("WATCHDOG=1"));
        assert_eq!(heard(&manager).as_deref(), Some("STOPPING=1"));
        assert_eq!(heard(&manager), None);
    }

    #[test]
    fn a_socket_in_a_folder() {
        let path = std::env::temp_dir().join(format!("drover-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let manager = UnixDatagram::bind(&path).expect("a new file");
        manager.set_nonblocking(true).expect("a socket");
        Notify::new(path.to_str(), None).alive();
        assert_eq!(heard(&manager).as_deref(), Some("WATCHDOG=1"));
        std::fs::remove_file(&path).expect("ours");
    }

    #[test]
    fn nobody_to_tell() {
        Notify::default().ready("x");
        assert_eq!(Notify::new(None, Some("1")).watchdog(), None);
        let odd = Notify::new(Some("vsock:2:9"), Some("1"));
        odd.ready("x");
        assert_eq!(odd.watchdog(), None);
        assert_eq!(pair("zero", Some("0")).1.watchdog(), None);
    }
}
