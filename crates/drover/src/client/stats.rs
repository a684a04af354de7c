//! `drover stats`: a server's counters. It needs only the control channel, so it works over TCP, too.

use super::server::ServerArgs;
use super::{Answer, ClientCommand};
use crate::other_port::Speaks;
use clap::Args;
use drover_client::{ConnectError, Service};
use drover_control::service::{self, StatsQuery, StatsReply};
use drover_control::{ControlAddr, ControlError, Endpoint};
use drover_kv::SystemTable;
use drover_mem::NativeCpu;
use std::error::Error;
use std::io::{ErrorKind, Write};

/// Arguments of `stats`.
#[derive(Args)]
#[command(after_help = "Exit status: 0 printed, 2 an error. Options about RDMA devices have no effect.")]
pub struct Stats {
    #[command(flatten)]
    server: ServerArgs,
}

impl ClientCommand for Stats {
    fn execute<T: SystemTable>(&self) -> Answer {
        let server = &self.server;
        let addr = server.access.of(server.addr()?)?;
        let service = Service::<T>::at(addr.clone(), server.timeout());
        let mut stream = service.map_err(|error| explain(error, &addr))?.into_channel();
        let reply: StatsReply = service::ask(&mut stream, &NativeCpu::new(0), &StatsQuery, server.timeout())?;
        match std::io::stdout().lock().write_all(reply.text.as_bytes()) {
            // The reader has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(true),
            written => written
                .map(|()| true)
                .map_err(|error| format!("standard output: {error}").into()),
        }
    }
}

/// Why there are no statistics, with what is at the address if it is no control channel.
fn explain(error: ConnectError, addr: &ControlAddr) -> Box<dyn Error> {
    let (ConnectError::Service(why), Endpoint::HostPort { host, port }) = (&error, addr.place()) else {
        return error.into();
    };
    let is_silent = why.to_string() == ControlError::Timeout.to_string();
    let what = match Speaks::at((host.as_str(), *port)) {
        Speaks::Memcached => "a port for memcached's clients",
        Speaks::Http => "an HTTP port, perhaps the one that `drover top` takes",
        Speaks::Unknown if is_silent => "silent, and perhaps no control channel of drover",
        Speaks::Unknown => return error.into(),
    };
    let step =
        "name the port of `drover serve --control-listen tcp://HOST:PORT`, or start the server with it";
    format!("{addr} is {what}; {step}").into()
}
