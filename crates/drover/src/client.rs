//! `drover get`, `set`, `delete` and `stats`: one operation against a running server. Exit status 0 found or
//! done, 1 missing, 2 error.

use crate::fabric::{self, Fabric, Job};
use crate::rdma::DeviceArgs;
use crate::shards::{System, client as shards};
use clap::Args;
use drover_base::{Cpu, Ns};
use drover_kv::{Caller, KvClient};
use drover_kv_farm::client::FarmClient;
use drover_kv_herd::client::{BlockingClient, ClientOptions};
use drover_kv_herd::control::Message;
use drover_kv_pilaf::client::PilafClient;
use drover_mem::NativeCpu;
use drover_rt::control::{ControlAddr, ControlStream, Dial, service};
use drover_verbs::{Context, Device, Provider};
use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::rc::Rc;

/// Whom to ask.
#[derive(Args)]
pub struct Whom {
    /// The server: shm:NAME, unix:/path.sock, rdma://host:port, or (stats only) tcp://host:port
    #[arg(long, value_name = "ADDR", default_value = "shm:drover")]
    server: ControlAddr,
    /// Give up after this many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    timeout_ms: u64,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Arguments of `get`.
#[derive(Args)]
pub struct Get {
    /// 1 to 250 bytes
    key: String,
    /// The value as it is, without a final newline
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    whom: Whom,
}

/// Arguments of `set`.
#[derive(Args)]
pub struct Set {
    /// 1 to 250 bytes
    key: String,
    /// The value; without one, it is read from the standard input
    value: Option<String>,
    /// Seconds until it expires; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    ttl: u32,
    #[command(flatten)]
    whom: Whom,
}

/// Arguments of `delete`.
#[derive(Args)]
pub struct Delete {
    /// 1 to 250 bytes
    key: String,
    #[command(flatten)]
    whom: Whom,
}

/// Arguments of `stats`.
#[derive(Args)]
pub struct Stats {
    #[command(flatten)]
    whom: Whom,
}

type Answer = Result<bool, Box<dyn Error>>;

/// Prints the value of a key.
pub fn get(args: &Get) -> ExitCode {
    finish(connect(&args.whom).and_then(|mut client| {
        let Some(value) = client.get(args.key.as_bytes())? else {
            return Ok(false);
        };
        let mut out = std::io::stdout().lock();
        out.write_all(&value)?;
        if !args.raw {
            out.write_all(b"\n")?;
        }
        out.flush()?;
        Ok(true)
    }))
}

/// Stores a value.
pub fn set(args: &Set) -> ExitCode {
    finish(value_of(args).and_then(|value| {
        connect(&args.whom)?.put(args.key.as_bytes(), &value, args.ttl)?;
        Ok(true)
    }))
}

/// Removes a key.
pub fn delete(args: &Delete) -> ExitCode {
    finish(connect(&args.whom).and_then(|mut client| client.delete(args.key.as_bytes())))
}

/// Prints the server's counters. Needs the control channel only, so it works over TCP, too.
pub fn stats(args: &Stats) -> ExitCode {
    finish(ask_stats(&args.whom).map(|text| {
        print!("{text}");
        true
    }))
}

fn finish(answer: Answer) -> ExitCode {
    match answer {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("drover: {error}");
            ExitCode::from(2)
        }
    }
}

fn value_of(args: &Set) -> Result<Vec<u8>, Box<dyn Error>> {
    if let Some(value) = &args.value {
        return Ok(value.clone().into_bytes());
    }
    let mut value = Vec::new();
    std::io::stdin().read_to_end(&mut value)?;
    Ok(value)
}

/// A client of some system on some fabric.
trait Client {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Box<dyn Error>>;
    fn put(&mut self, key: &[u8], value: &[u8], ttl_s: u32) -> Result<(), Box<dyn Error>>;
    fn delete(&mut self, key: &[u8]) -> Result<bool, Box<dyn Error>>;
}

impl<P: Provider> Client for BlockingClient<P> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
        Ok(self.get(key)?)
    }

    fn put(&mut self, key: &[u8], value: &[u8], ttl_s: u32) -> Result<(), Box<dyn Error>> {
        Ok(self.put(key, value, ttl_s)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, Box<dyn Error>> {
        Ok(self.delete(key)?)
    }
}

impl<P: Provider, C: KvClient<P>> Client for Caller<P, C> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
        Ok(self.get(key)?)
    }

    fn put(&mut self, key: &[u8], value: &[u8], ttl_s: u32) -> Result<(), Box<dyn Error>> {
        Ok(self.put(key, value, ttl_s)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, Box<dyn Error>> {
        Ok(self.delete(key)?)
    }
}

struct Connect {
    first: ControlStream,
    addr: ControlAddr,
    timeout: Ns,
}

impl Job for Connect {
    type Answer = Result<Box<dyn Client>, Box<dyn Error>>;

    fn run<P: Provider<Cpu = NativeCpu>>(mut self, device: &P::Device) -> Self::Answer {
        let ctx = Rc::new(device.context()?);
        let (system, shards) = shards::system_at(&mut self.first, ctx.cpu(), self.timeout)?;
        match system {
            System::Herd => self.herd::<P>(ctx),
            System::Pilaf => self.one_sided::<P, PilafClient<P>>(ctx, shards),
            System::Farm => self.one_sided::<P, FarmClient<P>>(ctx, shards),
        }
    }
}

impl Connect {
    fn herd<P: Provider>(self, ctx: Rc<P::Context>) -> Result<Box<dyn Client>, Box<dyn Error>> {
        let options = ClientOptions {
            window: 1,
            deadline: self.timeout,
            ..ClientOptions::default()
        };
        let (mut first, addr) = (Some(self.first), self.addr);
        let dial = Dial::new(move || {
            first
                .take()
                .map_or_else(|| ControlStream::connect(&addr, Ns::from_s(1)), Ok)
        });
        let client = BlockingClient::<P>::connect(ctx, dial, options, self.timeout)?;
        Ok(Box::new(client))
    }

    fn one_sided<P: Provider, C: shards::ShardClient<P> + 'static>(
        self,
        ctx: Rc<P::Context>,
        shard_count: usize,
    ) -> Result<Box<dyn Client>, Box<dyn Error>> {
        let client: C = shards::connect::<P, C>(&ctx, &self.addr, shard_count, 1, self.timeout)?;
        Ok(Box::new(Caller::<P, C>::new(ctx, client)))
    }
}

fn connect(whom: &Whom) -> Result<Box<dyn Client>, Box<dyn Error>> {
    let timeout = Ns::from_ms(whom.timeout_ms);
    // The first attempt is made here, so that a dead address is an answer and not something to retry.
    let first = ControlStream::connect(&whom.server, timeout)?;
    let addr = fabric::with_device(&whom.server, &whom.device).map_err(|failure| failure.text)?;
    let fabric = Fabric::towards(&addr).map_err(|failure| failure.text)?;
    fabric.run(Connect { first, addr, timeout })
}

fn ask_stats(whom: &Whom) -> Result<String, Box<dyn Error>> {
    let cpu = NativeCpu::new(0);
    let timeout = Ns::from_ms(whom.timeout_ms);
    let mut stream = ControlStream::connect(&whom.server, timeout)?;
    match shards::system_at(&mut stream, &cpu, timeout)? {
        (System::Herd, _) => ask_herd(&mut stream, &cpu, timeout),
        _ => {
            let figures: service::StatsReply =
                service::ask(&mut stream, &cpu, &service::StatsQuery, timeout)?;
            Ok(figures.text)
        }
    }
}

fn ask_herd(stream: &mut ControlStream, cpu: &NativeCpu, timeout: Ns) -> Result<String, Box<dyn Error>> {
    let question = Message::StatsRequest.encode();
    stream.send(question.kind, &question.bytes, &question.fds)?;
    let frame = stream.recv_until(cpu, cpu.refresh() + timeout)?;
    match Message::decode(frame.kind, &frame.body, frame.fds)? {
        Message::Stats { text } => Ok(text),
        Message::Error { text, .. } => Err(format!("refused by the server: {text}").into()),
        _ => Err("the server answered something else".into()),
    }
}
