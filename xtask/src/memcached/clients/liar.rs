//! [`Liar`]: a proxy that changes some of a server's answers.

use crate::memcached::built_versus;
use std::io::BufRead;
use std::net::SocketAddr;
use std::process::{Child, Stdio};

/// A `versus lie` process; killed by its id when dropped.
pub(super) struct Liar {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Liar {
    pub(super) fn start(lie: &str, server: SocketAddr) -> Result<Liar, String> {
        let mut command = built_versus();
        command.args(["lie", lie, "--server", &server.to_string()]);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let mut line = String::new();
        let said = child
            .stdout
            .take()
            .map(|out| std::io::BufReader::new(out).read_line(&mut line));
        let mut liar = Liar {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        liar.address = line
            .trim()
            .parse()
            .map_err(|e| format!("versus lie: {e} {said:?}"))?;
        Ok(liar)
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
