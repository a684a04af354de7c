//! `drover pool`: what an operator does with the nodes of a pool.

use super::NodesArgs;
use super::check::{self, CheckArgs};
use crate::exit::{self, Failure};
use crate::pool::tables::POOL_KIND;
use clap::Subcommand;
use drover_base::{Cpu, HashKind, Ns};
use drover_control::Dial;
use drover_mem::NativeCpu;
use drover_memnode::{
    ClientId, Inquiry, NodeStatus, Order, PoolError, PoolKind, PoolMembership, PoolOptions, check_places,
};
use std::process::ExitCode;

/// Arguments of `pool`.
#[derive(clap::Args)]
pub struct PoolArgs {
    #[command(subcommand)]
    command: PoolCommand,
}

#[derive(Subcommand)]
enum PoolCommand {
    /// Make nodes that belong to no pool a pool, and print what each gives
    Create {
        /// What the pool will hold, at most 8 letters, such as race
        #[arg(long, value_name = "NAME", value_parser = kind)]
        system: PoolKind,
        /// Let all processes remove old items when a node or a table is full, so that writes go on: a cache. Without it,
        /// writes are refused then
        #[arg(long)]
        evict: bool,
        /// Hash that places keys: aes, which no choice of keys floods; or xxh3, without that promise, for processors that
        /// have no instructions for AES. All processes of the pool follow it [default: aes]
        #[arg(long, value_name = "NAME")]
        hash: Option<HashKind>,
        #[command(flatten)]
        nodes: NodesArgs,
    },
    /// Print what each node shows of itself, and what is lost of the pool
    Status {
        #[command(flatten)]
        nodes: NodesArgs,
    },
    /// Shut a client out, for ever
    Fence {
        /// The client, as logs name it: number.epoch
        #[arg(value_name = "CLIENT", value_parser = client)]
        client: ClientId,
        #[command(flatten)]
        nodes: NodesArgs,
    },
    /// Repair what dead clients left, find memory that nothing leads to, and give it back
    Check(CheckArgs),
}

fn kind(text: &str) -> Result<PoolKind, String> {
    match text.len() {
        1..=8 => Ok(PoolKind::new(text)),
        _ => Err("1 to 8 letters".to_owned()),
    }
}

fn client(text: &str) -> Result<ClientId, String> {
    let parse = || {
        let (id, epoch) = text.split_once('.')?;
        let (id, epoch) = (id.parse().ok()?, epoch.parse().ok()?);
        (id != 0).then_some(ClientId { id, epoch })
    };
    parse().ok_or_else(|| "number.epoch, such as 3.17".to_owned())
}

pub(super) fn run(args: &PoolArgs) -> Result<ExitCode, Failure> {
    let done = match &args.command {
        PoolCommand::Create {
            system,
            evict,
            hash,
            nodes,
        } => create(nodes, *system, *evict, *hash),
        PoolCommand::Status { nodes } => nodes.show(),
        PoolCommand::Fence { client, nodes } => {
            let client = *client;
            let answers = nodes.ask(PoolKind::default(), Order::Fence { client })?;
            answers
                .into_iter()
                .try_for_each(|answer| answer.map(drop).map_err(unavailable))
        }
        PoolCommand::Check(args) => return check::run(args),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn create(nodes: &NodesArgs, system: PoolKind, evict: bool, hash: Option<HashKind>) -> Result<(), Failure> {
    let about_tables = [("--evict", evict), ("--hash", hash.is_some())];
    if let Some((flag, _)) = about_tables
        .iter()
        .find(|(_, is_given)| *is_given && system != POOL_KIND)
    {
        let why = format!("{flag}: not in a pool of kind {system}");
        return Err(Failure::new(exit::USAGE, why));
    }
    let pool = NativeCpu::new(0).secret().max(1);
    nodes.ask(system, Order::Create { pool })?;
    if system == POOL_KIND {
        check::create_tables(nodes, evict, hash.unwrap_or_default())?;
    }
    nodes.show()
}

fn unavailable(error: PoolError) -> Failure {
    Failure::new(exit::UNAVAILABLE, error)
}

type Answers = Vec<Result<NodeStatus, PoolError>>;

impl NodesArgs {
    /// Prints what the nodes show, also if some do not answer.
    fn show(&self) -> Result<(), Failure> {
        let answers = self.ask(PoolKind::default(), Order::Status)?;
        let named = self.nodes.iter().zip(&answers);
        let texts = named.map(|(server, answer)| match answer {
            Ok(status) => status.to_string(),
            Err(error) => format!("server {server}\nlost: {error}\n"),
        });
        print!("{}", texts.collect::<Vec<_>>().join("\n"));
        let mut places: Vec<(String, PoolMembership)> = Vec::new();
        for answer in answers {
            let status = answer.map_err(unavailable)?;
            places.extend(status.header.place.map(|place| (status.server, place)));
        }
        places.sort_by_key(|(_, place)| place.index);
        // Nodes that are to become a pool may be looked at, too.
        match places.is_empty() {
            true => Ok(()),
            false => check_places(None, &places).map_err(unavailable),
        }
    }

    fn ask(&self, kind: PoolKind, order: Order) -> Result<Answers, Failure> {
        let cpu = NativeCpu::new(0);
        let options = PoolOptions {
            timeout: Ns::from_ms(self.timeout_ms),
            ..PoolOptions::new(kind)
        };
        let dials = self.addrs()?.into_iter().map(Dial::to).collect();
        let mut inquiry = Inquiry::new(dials, options, order);
        loop {
            if let Some(answer) = inquiry.poll(cpu.refresh()) {
                return answer.map_err(unavailable);
            }
            // The nodes look at their channels once a millisecond.
            std::thread::park_timeout(std::time::Duration::from_micros(200));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_named_as_in_logs() {
        let id = ClientId { id: 3, epoch: 17 };
        assert_eq!(client(&id.to_string()), Ok(id));
        for wrong in ["", "3", "3.", "0.1", "3.99999", "x.1"] {
            assert!(client(wrong).is_err(), "{wrong}");
        }
        assert!(kind("").is_err() && kind("ninechars").is_err());
        assert_eq!(kind("race"), Ok(PoolKind::new("race")));
    }
}
