//! Where memcached's and native clients connect.

use super::offered::Feature::Memcached;
use super::words::mask_of;
use super::{flags, list, optional, parsed, path, value};
use crate::exit::{self, Failure};
use crate::serve::ops::group_id;
use drover_control::SocketAccess;
use std::path::PathBuf;

/// memcached's default port.
const PORT: i32 = 11211;
/// memcached's default, 20, would split pipelines; a turn of this many takes less than a tenth of a millisecond.
const REQUESTS_PER_EVENT: usize = 200;

flags! {
    /// Arguments about sockets.
    #[command(next_help_heading = "Addresses")]
    struct SocketArgs;
    /// Settings of the sockets.
    struct SocketSettings(default_port: i32);

    /// TCP port for memcached clients; 0: none; -1: any free port, which is logged and written to the file named by the
    /// environment variable MEMCACHED_PORT_FILENAME [default: 11211, or none with -s]
    #[arg(long = "port", short = 'p', value_name = "PORT", allow_negative_numbers = true)]
    port: i32 = value(default_port).needs(Memcached).check(
        |port| (-1..=65535).contains(port),
        |port| format!("--port {port}: from 0 to 65535, or -1"),
    );

    /// UDP port: only 0, because UDP is not supported
    #[arg(long = "udp-port", short = 'U', value_name = "PORT")]
    udp_port: u16 = value(0).rows([]);

    /// Unix socket for memcached clients
    #[arg(long = "unix-socket", short = 's', value_name = "PATH")]
    unix_socket: PathBuf as Option<PathBuf> = path().needs(Memcached);

    /// Mode of the files of Unix sockets, for native clients, too, octal [default: 700]
    #[arg(long = "unix-mask", short = 'a', value_name = "MASK")]
    unix_mask: String as u32 = parsed("700".to_string(), mask_of).show(|mask| format!("{mask:o}"));

    /// Group of the files of Unix sockets, by its name or number, which -a 770 lets in [default: that of the process]
    #[arg(long = "group", value_name = "GROUP")]
    group: String as Option<String> = optional();

    /// Addresses that -p listens on, each optionally with its own port: IP, name or IP:port, separated by commas or
    /// given several times [default: 127.0.0.1]; the prefix notls: exempts an address from -Z. rdma://host:port is the
    /// same as --fabric
    #[arg(long = "listen", short = 'l', value_name = "ADDR", value_delimiter = ',')]
    listen: Vec<String> = list(vec!["127.0.0.1".to_string()]).needs(Memcached);

    /// Additional control channel for native clients: tcp://host:port (notls:tcp://host:port without TLS) or
    /// unix:/path.sock
    #[arg(long = "control-listen", value_name = "ADDR", value_delimiter = ',')]
    control_listen: Vec<String> = list(Vec::new());

    /// Protocol of memcached clients: ascii or auto, which mean the same here; binary is refused
    #[arg(long = "protocol", short = 'B', value_name = "NAME")]
    protocol: String = value("auto".to_string()).needs(Memcached);

    /// Connections that may wait to be accepted [default: 1024]
    #[arg(long = "listen-backlog", short = 'b', value_name = "COUNT")]
    backlog: u32 = value(1024).needs(Memcached)
        .check(|count| *count > 0, |_| "-b 0: at least 1".to_string());

    /// Requests served per turn of a memcached connection [default: 200]
    #[arg(long = "max-reqs-per-event", short = 'R', value_name = "COUNT")]
    requests_per_event: usize = value(REQUESTS_PER_EVENT).needs(Memcached)
        .check(|count| *count > 0, |_| "-R 0: at least 1".to_string());
}

impl SocketSettings {
    /// Who may connect to Unix sockets.
    ///
    /// # Errors
    /// There is no such group.
    pub fn access(&self) -> Result<SocketAccess, Failure> {
        Ok(SocketAccess {
            mode: self.unix_mask.value,
            group: self.group.value.as_deref().map(group_id).transpose()?,
        })
    }

    /// Refuses protocols that memcached has and drover has not.
    pub(super) fn refuse_what_is_not_there(&self) -> Result<(), Failure> {
        let refuse = |text: String| Err(Failure::new(exit::USAGE, text));
        match (self.udp_port.value, self.protocol.value.as_str()) {
            (0, "ascii" | "auto") => Ok(()),
            (0, "binary") => {
                refuse("-B binary: there is no binary protocol; ascii includes the meta commands".to_owned())
            }
            (0, other) => refuse(format!("-B {other}: expected ascii or auto")),
            (port, _) => refuse(format!(
                "-U {port}: there is no UDP; clients use TCP (-p) or a Unix socket (-s)"
            )),
        }
    }
}

/// The port without `-p`. `memcached`: the system serves memcached clients.
pub(super) fn default_port(typed: &SocketArgs, file: &SocketArgs, memcached: bool) -> i32 {
    // As with memcached: a Unix socket without `-p` means no TCP port.
    let has_unix_socket = typed.unix_socket.is_some() || file.unix_socket.is_some();
    if memcached && !has_unix_socket { PORT } else { 0 }
}
