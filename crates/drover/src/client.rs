//! `drover get`, `set`, `delete` and `stats`: one operation against a running server, or in a pool of memory nodes. Exit status 0 found or done, 1
//! missing, 2 error.

use crate::access::AccessArgs;
use crate::exit::Failure;
use crate::pool::{self, KeysOfPool, PoolNodes};
use crate::rdma::DeviceArgs;
use clap::Args;
use drover_base::Ns;
use drover_client::{Client, Condition, Connected, Effect, Item, Options, PutOptions, Service};
use drover_control::{ControlAddr, service};
use drover_kv::SystemTable;
use drover_mem::NativeCpu;
use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;

/// Environment variable with the server of client commands.
const SERVER: &str = "DROVER_SERVER";
/// The server where nothing says which.
const USUAL: &str = "shm:drover";

/// Options that select the server, and how long to wait for it.
#[derive(Args)]
pub struct Whom {
    /// The server: shm:NAME, unix:/path.sock, rdma://host:port, or (stats only) tcp://host:port [default: that of the
    /// environment variable DROVER_SERVER, or shm:drover]
    #[arg(long, value_name = "ADDR")]
    server: Option<ControlAddr>,
    /// Maximum time of each step (reaching the server, asking for its system, setting up, the operation), milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    timeout_ms: u64,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Arguments of `get`.
#[derive(Args)]
pub struct Get {
    /// Key, 1 to 250 bytes
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// Print the value as it is, without a final newline
    #[arg(long)]
    raw: bool,
    /// Print `version N flags N` on a line before the value
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    whom: Whom,
    #[command(flatten)]
    pool: KeysOfPool,
}

/// Arguments of `set`.
#[derive(Args)]
pub struct Set {
    /// Key, 1 to 250 bytes
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// Value; read from standard input if not given
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
    /// Seconds until it expires; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    ttl: u32,
    /// Flags to store with it
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    flags: u32,
    /// Store it only if the key is absent, is present, or has the version that `get --details` printed; else exit status 1
    #[arg(long = "if", value_name = "absent|present|VERSION", value_parser = condition, default_value = "always", hide_default_value = true)]
    condition: Condition,
    #[command(flatten)]
    whom: Whom,
    #[command(flatten)]
    pool: KeysOfPool,
}

/// Arguments of `delete`.
#[derive(Args)]
pub struct Delete {
    /// Key, 1 to 250 bytes
    #[arg(allow_hyphen_values = true)]
    key: String,
    #[command(flatten)]
    whom: Whom,
    #[command(flatten)]
    pool: KeysOfPool,
}

/// Arguments of `stats`.
#[derive(Args)]
pub struct Stats {
    #[command(flatten)]
    whom: Whom,
}

impl Whom {
    /// The server's address.
    fn addr(&self) -> Result<ControlAddr, Box<dyn Error>> {
        if let Some(server) = &self.server {
            return Ok(server.clone());
        }
        let said = std::env::var(SERVER).unwrap_or_else(|_| USUAL.to_owned());
        said.parse()
            .map_err(|error| format!("{SERVER}={said}: {error}").into())
    }
}

type Answer = Result<bool, Box<dyn Error>>;

fn condition(text: &str) -> Result<Condition, String> {
    match text {
        "always" => Ok(Condition::Always),
        "absent" => Ok(Condition::IfAbsent),
        "present" => Ok(Condition::IfPresent),
        version => match version.parse() {
            Ok(version) => Ok(Condition::IfVersion(version)),
            Err(_) => Err("absent, present, or a version".to_owned()),
        },
    }
}

/// Prints the value of a key. Returns exit status 0, 1 if the key does not exist, or 2 after an error.
pub fn get<T: SystemTable>(args: &Get) -> ExitCode {
    finish(find::<T>(args).and_then(|found| {
        let Some(item) = found else {
            eprintln!("drover: no key {}", args.key.escape_debug());
            return Ok(false);
        };
        let mut out = std::io::stdout().lock();
        if args.details {
            writeln!(out, "version {} flags {}", item.version, item.flags)?;
        }
        out.write_all(&item.value)?;
        if !args.raw {
            out.write_all(b"\n")?;
        }
        out.flush()?;
        Ok(true)
    }))
}

fn find<T: SystemTable>(args: &Get) -> Result<Option<Item>, Box<dyn Error>> {
    let key = args.key.as_bytes();
    if let Some(nodes) = nodes(&args.pool, &args.whom) {
        return pool::get(&nodes, key).map_err(text);
    }
    let mut client = connect::<T>(&args.whom)?;
    if args.details {
        return Ok(client.get_item(key)?);
    }
    let value = client.get(key)?;
    Ok(value.map(|value| Item {
        value,
        version: 0,
        flags: 0,
    }))
}

fn nodes(pool: &KeysOfPool, whom: &Whom) -> Option<PoolNodes> {
    pool.nodes(whom.timeout_ms, &whom.access, &whom.device)
}

fn text(failure: Failure) -> Box<dyn Error> {
    failure.text.into()
}

/// Stores a value. Returns exit status 0, 1 if it was stored under a condition that did not hold, or 2 after an error.
pub fn set<T: SystemTable>(args: &Set) -> ExitCode {
    finish(value_of(args).and_then(|value| {
        let (key, options) = (
            args.key.as_bytes(),
            PutOptions {
                ttl_s: args.ttl,
                flags: args.flags,
                condition: args.condition,
                keep: false,
            },
        );
        let effect = match nodes(&args.pool, &args.whom) {
            Some(nodes) => pool::set(&nodes, key, value, options).map_err(text)?,
            None => connect::<T>(&args.whom)?.put_with(key, &value, &options)?,
        };
        Ok(effect == Effect::Done)
    }))
}

/// Removes a key. Returns exit status 0, 1 if the key did not exist, or 2 after an error.
pub fn delete<T: SystemTable>(args: &Delete) -> ExitCode {
    let key = args.key.as_bytes();
    finish(
        match nodes(&args.pool, &args.whom) {
            Some(nodes) => pool::delete(&nodes, key).map_err(text),
            None => connect::<T>(&args.whom).and_then(|mut client| Ok(client.delete(key)?)),
        }
        .inspect(|deleted| {
            if !deleted {
                eprintln!("drover: no key {}", args.key.escape_debug());
            }
        }),
    )
}

/// Prints the server's counters. It needs only the control channel, so it works over TCP, too, and ignores the options
/// about RDMA devices. Returns exit status 0, or 2 after an error.
pub fn stats<T: SystemTable>(args: &Stats) -> ExitCode {
    finish(ask_stats::<T>(&args.whom).map(|text| {
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

fn options(whom: &Whom) -> Options {
    let timeout = Ns::from_ms(whom.timeout_ms);
    Options {
        connect_timeout: timeout,
        call_timeout: timeout,
        window: 1,
        ..Options::default()
    }
}

fn connect<T: SystemTable>(whom: &Whom) -> Result<Client, Box<dyn Error>> {
    let addr = whom.device.of(&whom.addr()?).map_err(text)?;
    let addr = whom.access.of(addr).map_err(text)?;
    Ok(Connected::to_one_of::<T>(addr, &options(whom))?.into())
}

fn ask_stats<T: SystemTable>(whom: &Whom) -> Result<String, Box<dyn Error>> {
    let timeout = Ns::from_ms(whom.timeout_ms);
    let addr = whom.access.of(whom.addr()?).map_err(text)?;
    let mut stream = Service::<T>::at(addr, timeout)?.into_channel();
    let reply: service::StatsReply =
        service::ask(&mut stream, &NativeCpu::new(0), &service::StatsQuery, timeout)?;
    Ok(reply.text)
}
