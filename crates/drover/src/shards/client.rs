//! Clients of services of shards, as tools use them: connected when they have a session with every shard.

use super::System;
use drover_base::{Cpu, Ns};
use drover_bench::Reads;
use drover_kv::KvClient;
use drover_kv_farm::client::FarmClient;
use drover_kv_pilaf::client::{ClientOptions, PilafClient};
use drover_rt::control::{ControlAddr, ControlStream, Dial, service};
use drover_verbs::{Context, Provider};
use std::rc::Rc;

/// How long a client that waits for its sessions sleeps between two looks.
const LOOK_EVERY: Ns = Ns::from_us(200);

/// A client that has a session with each shard of its service.
pub trait ShardClient<P: Provider>: KvClient<P> + Sized {
    /// A client of the shards behind `dials`, in their order, with `window` operations under way at each.
    fn open(ctx: Rc<P::Context>, dials: Vec<Dial>, window: usize, deadline: Ns) -> Self;

    /// Whether it has a session with every shard.
    fn is_ready(&mut self) -> bool;

    /// Why a shard could not be reached last.
    fn error(&mut self) -> Option<String>;

    /// What it has read so far.
    fn reads(&self) -> Reads;
}

impl<P: Provider> ShardClient<P> for PilafClient<P> {
    fn open(ctx: Rc<P::Context>, dials: Vec<Dial>, window: usize, deadline: Ns) -> PilafClient<P> {
        let options = ClientOptions {
            window,
            deadline,
            ..ClientOptions::default()
        };
        PilafClient::new(ctx, dials, options)
    }

    fn is_ready(&mut self) -> bool {
        PilafClient::is_ready(self)
    }

    fn error(&mut self) -> Option<String> {
        self.take_error().map(|error| error.to_string())
    }

    fn reads(&self) -> Reads {
        let stats = self.stats();
        Reads {
            hits: stats.hits,
            probes: stats.entry_reads,
            records: stats.record_reads,
            asked: stats.asked,
            torn: stats.torn,
        }
    }
}

impl<P: Provider> ShardClient<P> for FarmClient<P> {
    fn open(ctx: Rc<P::Context>, dials: Vec<Dial>, window: usize, deadline: Ns) -> FarmClient<P> {
        let options = drover_kv_farm::client::ClientOptions {
            window,
            deadline,
            ..Default::default()
        };
        FarmClient::new(ctx, dials, options)
    }

    fn is_ready(&mut self) -> bool {
        FarmClient::is_ready(self)
    }

    fn error(&mut self) -> Option<String> {
        self.take_error().map(|error| error.to_string())
    }

    fn reads(&self) -> Reads {
        let stats = self.stats();
        Reads {
            hits: stats.hits,
            probes: stats.neighbourhood_reads + stats.overflow_reads,
            records: stats.object_reads,
            asked: stats.confirmed_misses + stats.false_misses,
            torn: stats.retries,
        }
    }
}

/// What the service at the other end is; `patience` for its answer.
///
/// # Errors
/// No answer, another one, or a system that is not known here.
pub fn system_at(
    stream: &mut ControlStream,
    cpu: &impl Cpu,
    patience: Ns,
) -> Result<(System, usize), Box<dyn std::error::Error>> {
    let said: service::ServiceInfo = service::ask(stream, cpu, &service::ServiceQuery, patience)?;
    let system = System::named(&said.system)
        .ok_or_else(|| format!("the server speaks {}, which this program does not", said.system))?;
    Ok((system, usize::from(said.shard_count)))
}

/// A client of the `shard_count` shards at `addr` that has its sessions.
///
/// # Errors
/// Why it does not, after `timeout`.
pub fn connect<P: Provider, C: ShardClient<P>>(
    ctx: &Rc<P::Context>,
    addr: &ControlAddr,
    shard_count: usize,
    window: usize,
    timeout: Ns,
) -> Result<C, String> {
    if shard_count == 0 {
        return Err("the server says that it has no shards".to_owned());
    }
    let dials = (0..shard_count as u16).map(|shard| Dial::to_shard(addr.clone(), shard));
    let mut client = C::open(ctx.clone(), dials.collect(), window, timeout);
    let deadline = ctx.cpu().refresh() + timeout;
    let mut last = None;
    loop {
        let now = ctx.cpu().refresh();
        client.poll(ctx.cpu(), &mut |_| {});
        if client.is_ready() {
            return Ok(client);
        }
        last = client.error().or(last);
        if now >= deadline {
            return Err(last.unwrap_or_else(|| "the server did not answer in time".to_owned()));
        }
        ctx.arm();
        ctx.park((now + LOOK_EVERY).min(deadline));
    }
}
