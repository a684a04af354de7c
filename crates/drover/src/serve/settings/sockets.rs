//! Where memcached's and native clients connect.

use super::show::path_or_none;
use super::words::{mask_of, some};
use super::{Origin, Row, Setting, pick, row};
use crate::exit::{self, Failure};
use std::path::PathBuf;

/// memcached's default port.
const PORT: i32 = 11211;
/// memcached's default, 20, would split pipelines; a turn of this many takes less than a tenth of a millisecond.
const REQUESTS_PER_EVENT: usize = 200;

/// Arguments about sockets.
#[derive(clap::Args, Clone, Default, Debug)]
pub struct SocketArgs {
    /// TCP port for memcached clients; 0: none; -1: any free port, which is logged and written to the file named by the
    /// environment variable MEMCACHED_PORT_FILENAME [default: 11211, or none with -s]
    #[arg(short = 'p', long, value_name = "PORT", allow_negative_numbers = true)]
    pub port: Option<i32>,
    /// UDP port: only 0, because UDP is not supported
    #[arg(short = 'U', long, value_name = "PORT")]
    pub udp_port: Option<u16>,
    /// Unix socket for memcached clients
    #[arg(short = 's', long, value_name = "PATH")]
    pub unix_socket: Option<PathBuf>,
    /// Mode of the Unix socket's file, octal [default: 700]
    #[arg(short = 'a', long, value_name = "MASK")]
    pub unix_mask: Option<String>,
    /// Addresses that -p listens on, each optionally with its own port: IP, name or IP:port, separated by commas or
    /// given several times [default: 127.0.0.1]; the prefix notls: exempts an address from -Z. rdma://host:port is the
    /// same as --fabric
    #[arg(short = 'l', long, value_name = "ADDR", value_delimiter = ',')]
    pub listen: Vec<String>,
    /// Additional control channel for native clients: tcp://host:port or unix:/path.sock
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    pub control_listen: Vec<String>,
    /// Protocol of memcached clients: ascii or auto, which mean the same here; binary is refused
    #[arg(short = 'B', long, value_name = "NAME")]
    pub protocol: Option<String>,
    /// Connections that may wait to be accepted [default: 1024]
    #[arg(short = 'b', long, value_name = "COUNT")]
    pub listen_backlog: Option<u32>,
    /// Requests served per turn of a memcached connection [default: 200]
    #[arg(short = 'R', long, value_name = "COUNT")]
    pub max_reqs_per_event: Option<usize>,
}

/// Settings of the sockets.
#[derive(Clone, Debug)]
pub struct SocketSettings {
    /// TCP port for memcached clients, for addresses without their own; 0: no TCP at all; -1: any free port.
    pub port: Setting<i32>,
    /// Path of the Unix socket for memcached clients.
    pub unix_socket: Setting<Option<PathBuf>>,
    /// Mode of the Unix socket's file, for example 0o700.
    pub unix_mask: Setting<u32>,
    /// TCP addresses for memcached clients, each optionally with its own port and the prefix `notls:`; unused if `port`
    /// is 0.
    pub listen: Setting<Vec<String>>,
    /// Additional addresses of the control channel, for native clients: `tcp://host:port` or `unix:/path.sock`.
    pub control_listen: Setting<Vec<String>>,
    /// Maximum number of memcached connections waiting to be accepted, per listening socket.
    pub backlog: Setting<u32>,
    /// Maximum number of requests of a memcached connection in one turn.
    pub requests_per_event: Setting<usize>,
    /// `-B`: `ascii` or `auto`, which mean the same.
    pub protocol: Setting<String>,
}

impl SocketArgs {
    /// Refuses protocols that memcached has and drover has not.
    pub(super) fn refuse_what_is_not_there(&self) -> Result<(), Failure> {
        let refuse = |text: String| Err(Failure::new(exit::USAGE, text));
        if let Some(port) = self.udp_port.filter(|port| *port != 0) {
            return refuse(format!(
                "-U {port}: there is no UDP; clients use TCP (-p) or a Unix socket (-s)"
            ));
        }
        match self.protocol.as_deref() {
            None | Some("ascii" | "auto") => Ok(()),
            Some("binary") => {
                refuse("-B binary: there is no binary protocol; ascii includes the meta commands".to_owned())
            }
            Some(other) => refuse(format!("-B {other}: expected ascii or auto")),
        }
    }
}

impl SocketSettings {
    /// Merges command line, file and defaults, in this order. `memcached`: the system serves memcached clients.
    pub(super) fn fill(
        typed: SocketArgs,
        file: SocketArgs,
        memcached: bool,
    ) -> Result<SocketSettings, Failure> {
        let unix_socket = Setting::optional(typed.unix_socket, file.unix_socket);
        // As with memcached: a Unix socket without `-p` means no TCP port.
        let port = match unix_socket.value.is_some() || !memcached {
            true => 0,
            false => PORT,
        };
        let by_default = Origin::Default;
        Ok(SocketSettings {
            port: pick(typed.port, file.port, port, by_default),
            unix_socket,
            unix_mask: mask_of(pick(
                typed.unix_mask,
                file.unix_mask,
                "700".to_string(),
                by_default,
            ))?,
            listen: pick(
                some(typed.listen),
                some(file.listen),
                vec!["127.0.0.1".to_string()],
                by_default,
            ),
            control_listen: pick(
                some(typed.control_listen),
                some(file.control_listen),
                Vec::new(),
                by_default,
            ),
            backlog: pick(typed.listen_backlog, file.listen_backlog, 1024, by_default),
            requests_per_event: pick(
                typed.max_reqs_per_event,
                file.max_reqs_per_event,
                REQUESTS_PER_EVENT,
                by_default,
            ),
            protocol: pick(typed.protocol, file.protocol, "auto".to_string(), by_default),
        })
    }

    /// Rows of `drover config`.
    pub(super) fn rows(&self) -> [Row; 8] {
        [
            row("port", &self.port, i32::to_string),
            row("unix-socket", &self.unix_socket, path_or_none),
            row("unix-mask", &self.unix_mask, |mask| format!("{mask:o}")),
            row("listen", &self.listen, |addrs| addrs.join(",")),
            row("control-listen", &self.control_listen, |list| list_or_none(list)),
            row("listen-backlog", &self.backlog, u32::to_string),
            row("max-reqs-per-event", &self.requests_per_event, usize::to_string),
            row("protocol", &self.protocol, Clone::clone),
        ]
    }
}

fn list_or_none(list: &[String]) -> String {
    if list.is_empty() {
        "none".into()
    } else {
        list.join(",")
    }
}
