//! twemproxy, which shares keys out between several servers, before two of them.

use super::{Args, FLAGS, limited, python, start_logging};
use crate::command;
use crate::counts::Counts;
use crate::memcached::folder;
use crate::memcached::server::{Server, free_port};
use crate::steps::StepResult;
use std::net::SocketAddr;

/// Starts two servers and the proxy, and sends a client there.
pub(super) fn before_two_servers(args: &Args) -> StepResult {
    let servers = [
        start_logging(args, FLAGS, "clients-first.txt")?,
        start_logging(args, FLAGS, "clients-second.txt")?,
    ];
    let addresses = servers.each_ref().map(Server::address);
    let proxy = start(&addresses)?;
    let mut round = limited(&python("proxy_round.py"));
    round.arg(proxy.address().to_string());
    command::run(round.args(addresses.map(|address| address.to_string()))).map(|_| Counts::ONE)
}

fn start(servers: &[SocketAddr]) -> Result<Server, String> {
    let (port, statistics) = (free_port()?, free_port()?);
    let listed: String = servers
        .iter()
        .map(|server| format!("   - {server}:1\n"))
        .collect();
    let settings = folder().join("nutcracker.yml");
    let text = format!(
        "drover:\n  listen: 127.0.0.1:{port}\n  hash: md5\n  distribution: ketama\n  timeout: 10000\n  servers:\n{listed}"
    );
    std::fs::write(&settings, text).map_err(|e| format!("{}: {e}", settings.display()))?;
    let words = [
        "nutcracker",
        "-c",
        &settings.display().to_string(),
        "-a",
        "127.0.0.1",
        "-s",
        &statistics.to_string(),
    ];
    let words = words.map(str::to_string);
    Server::start_at(port, words, &folder().join("nutcracker.txt"))
}
