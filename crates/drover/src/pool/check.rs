//! `drover pool check`: the mark pass by hand. It also repairs what dead clients left.

use super::NodesArgs;
use super::process::{Entered, Work, work_in_pool};
use crate::exit::{self, Failure};
use crate::pool::tables::{POOL_KIND, Race, RaceError, TableHeader};
use drover_base::{HashKind, HashSeed, Ns};
use drover_mem::NativeCpu;
use drover_memnode::recovery::{Recovery, RecoveryOptions, Repair, recover};
use drover_memnode::{Addr, ClientId, MemoryError, Nodes, PoolKind};
use drover_rt::TaskCx;
use drover_verbs::Provider;
use serde::Serialize;
use std::cell::Cell;
use std::process::ExitCode;

/// Arguments of `pool check`.
#[derive(clap::Args)]
#[command(after_help = TEACH)]
pub(super) struct CheckArgs {
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nodes: NodesArgs,
}

const TEACH: &str = "\
Other processes may use the pool meanwhile. Memory of live processes is not looked at, since nothing leads yet to what they \
are about to write. Exit status: 0 nothing to repair, 1 something was repaired or given back, 69 not possible now.";

/// What was found at a node.
#[derive(Serialize)]
struct NodeReport {
    server: String,
    node: usize,
    /// Why nothing was done.
    problem: Option<String>,
    reachable_pieces: u64,
    reachable_bytes: u64,
    /// Dead clients whose remains were repaired.
    repaired_clients: Vec<String>,
    /// Chunks without a live owner, which were looked at.
    chunks_checked: usize,
    /// Blocks of them that nothing led to.
    unreachable_blocks: usize,
    chunks_returned: usize,
}

pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let reports = work_in_pool(
        &args.nodes,
        None,
        Check {
            patience: Ns::from_ms(args.nodes.timeout_ms),
            always_sweep: true,
        },
    )?;
    let is_clean = reports.iter().all(|node| {
        node.repaired_clients.is_empty() && node.unreachable_blocks == 0 && node.chunks_returned == 0
    });
    let failed = reports.iter().any(|node| node.problem.is_some());
    match args.json {
        true => {
            let json = serde_json::json!({ "nodes": reports, "clean": is_clean && !failed });
            println!("{json}");
        }
        false => reports.iter().for_each(print),
    }
    Ok(match (failed, is_clean) {
        (true, _) => ExitCode::from(exit::UNAVAILABLE),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(1),
    })
}

/// Whether it is known how pools of this kind are repaired.
pub(super) fn can_repair(kind: PoolKind) -> bool {
    kind == POOL_KIND
}

/// Repairs what dead clients left at one node, which is the only one asked.
pub(super) fn repair(node: &NodesArgs) -> Result<(), Failure> {
    let check = Check {
        patience: Ns::from_ms(node.timeout_ms),
        always_sweep: false,
    };
    for report in work_in_pool(node, None, check)? {
        match report.problem {
            None => tracing::info!(
                clients = report.repaired_clients.join(" "),
                "repaired what dead clients left"
            ),
            Some(problem) => tracing::warn!(%problem, "what dead clients left is not repaired yet"),
        }
    }
    Ok(())
}

fn print(node: &NodeReport) {
    println!("server {}\nnode {}", node.server, node.node);
    if let Some(problem) = &node.problem {
        println!("not checked: {problem}");
        return;
    }
    println!(
        "reachable_pieces {}\nreachable_bytes {}",
        node.reachable_pieces, node.reachable_bytes
    );
    let repaired = match node.repaired_clients.is_empty() {
        true => "none".to_owned(),
        false => node.repaired_clients.join(" "),
    };
    println!(
        "repaired_clients {repaired}\nchunks_checked {}",
        node.chunks_checked
    );
    println!(
        "unreachable_blocks {}\nchunks_returned {}",
        node.unreachable_blocks, node.chunks_returned
    );
}

struct Check {
    patience: Ns,
    always_sweep: bool,
}

impl Work for Check {
    type Answer = Vec<NodeReport>;

    async fn run<P: Provider<Cpu = NativeCpu>>(
        self,
        entered: Entered<P>,
    ) -> Result<Vec<NodeReport>, RaceError> {
        let Entered { cx, race, arena } = entered;
        let options = RecoveryOptions {
            patience: self.patience,
            always_sweep: self.always_sweep,
        };
        let mut reports = Vec::new();
        for node in 0..arena.nodes().pool().node_count() {
            if arena.nodes().node(node).is_absent() {
                continue;
            }
            let counting = Counting {
                race: race.clone(),
                reached: Cell::default(),
            };
            let done = recover(&cx, &arena, node, &counting, options).await;
            let (reachable_pieces, reachable_bytes) = counting.reached.get();
            let mut report = NodeReport {
                server: arena.nodes().node(node).server().to_owned(),
                node,
                problem: None,
                reachable_pieces,
                reachable_bytes,
                repaired_clients: Vec::new(),
                chunks_checked: 0,
                unreachable_blocks: 0,
                chunks_returned: 0,
            };
            match done {
                Ok(Recovery::Done(done)) => {
                    report.repaired_clients = done.clients.iter().map(ClientId::to_string).collect();
                    report.chunks_checked = done.chunks_swept;
                    report.unreachable_blocks = done.blocks_freed;
                    report.chunks_returned = done.chunks_returned;
                }
                Ok(Recovery::Busy { owner }) => {
                    report.problem = Some(format!("client {owner} is checking it"));
                }
                Ok(Recovery::Unready) => {
                    let why = "a client does not take notice; `pool status` shows which are silent";
                    report.problem = Some(why.to_owned());
                }
                Err(error) => report.problem = Some(error.to_string()),
            }
            arena.give_back(&cx, node).await?;
            reports.push(report);
        }
        Ok(reports)
    }
}

/// Counts what the tables lead to.
struct Counting<P: Provider> {
    race: Race<P>,
    reached: Cell<(u64, u64)>,
}

impl<P: Provider> Repair<P> for Counting<P> {
    async fn repair(
        &self,
        cx: &TaskCx<P>,
        nodes: &Nodes<P>,
        node: usize,
        dead: &[ClientId],
    ) -> Result<(), MemoryError> {
        self.race.repair(cx, nodes, node, dead).await
    }

    async fn visit(
        &self,
        cx: &TaskCx<P>,
        nodes: &Nodes<P>,
        node: usize,
        mark: &mut dyn FnMut(Addr, usize),
    ) -> Result<(), MemoryError> {
        let mut count = |addr, bytes| {
            let (pieces, sum) = self.reached.get();
            self.reached.set((pieces + 1, sum + bytes as u64));
            mark(addr, bytes);
        };
        self.race.visit(cx, nodes, node, &mut count).await
    }
}

/// Creates empty tables at all nodes, whose keys are hashed by `hash`; `evicts`: those of a cache.
pub(super) fn create_tables(nodes: &NodesArgs, evicts: bool, hash: HashKind) -> Result<(), Failure> {
    let seed = HashSeed::drawn(hash, &NativeCpu::new(0));
    let header = TableHeader {
        evicts,
        ..TableHeader::usual(seed)
    };
    work_in_pool(nodes, Some(header), Nothing)
}

struct Nothing;

impl Work for Nothing {
    type Answer = ();

    async fn run<P: Provider<Cpu = NativeCpu>>(self, _: Entered<P>) -> Result<(), RaceError> {
        Ok(())
    }
}
