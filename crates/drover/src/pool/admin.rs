//! `drover pool`: what an operator does with the nodes of a pool.

use super::SecretArgs;
use crate::exit::{self, Failure};
use clap::Subcommand;
use drover_base::{Cpu, Ns};
use drover_control::{ControlAddr, Dial};
use drover_mem::NativeCpu;
use drover_memnode::{ClientId, Inquiry, NodeStatus, Order, PoolKind, PoolOptions};

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
        #[command(flatten)]
        nodes: NodesArgs,
        /// What the pool will hold, at most 8 letters, such as race
        #[arg(long, value_name = "NAME", value_parser = kind)]
        system: PoolKind,
    },
    /// Print what each node shows of itself
    Status {
        #[command(flatten)]
        nodes: NodesArgs,
    },
    /// Shut a client out, for ever
    Fence {
        #[command(flatten)]
        nodes: NodesArgs,
        /// The client, as logs name it: number.epoch
        #[arg(value_name = "CLIENT", value_parser = client)]
        client: ClientId,
    },
}

#[derive(clap::Args)]
struct NodesArgs {
    /// Addresses of the nodes, separated by commas
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', required = true)]
    nodes: Vec<ControlAddr>,
    /// Time within which all nodes must answer, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    timeout_ms: u64,
    #[command(flatten)]
    secret: SecretArgs,
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

pub(super) fn run(args: &PoolArgs) -> Result<(), Failure> {
    match &args.command {
        PoolCommand::Create { nodes, system } => {
            let pool = NativeCpu::new(drover_mem::entropy()).random().max(1);
            nodes.ask(*system, Order::Create { pool })?;
            nodes.show(*system)
        }
        PoolCommand::Status { nodes } => nodes.show(PoolKind::default()),
        PoolCommand::Fence { nodes, client } => {
            let client = *client;
            nodes.ask(PoolKind::default(), Order::Fence { client }).map(drop)
        }
    }
}

type Headers = Vec<(String, drover_memnode::header::Header)>;

impl NodesArgs {
    fn show(&self, kind: PoolKind) -> Result<(), Failure> {
        let headers = self.ask(kind, Order::Status)?;
        let texts = headers
            .iter()
            .map(|(server, header)| NodeStatus { server, header }.to_string());
        print!("{}", texts.collect::<Vec<_>>().join("\n"));
        Ok(())
    }

    fn ask(&self, kind: PoolKind, order: Order) -> Result<Headers, Failure> {
        let cpu = NativeCpu::new(0);
        let options = PoolOptions {
            secret: self.secret.read()?,
            timeout: Ns::from_ms(self.timeout_ms),
            ..PoolOptions::new(kind)
        };
        let dials = self.nodes.iter().cloned().map(Dial::to).collect();
        let mut inquiry = Inquiry::new(dials, options, order);
        loop {
            if let Some(answer) = inquiry.poll(cpu.refresh()) {
                return answer.map_err(|error| Failure::new(exit::UNAVAILABLE, error));
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
