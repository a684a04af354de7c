//! Operations of client commands in a pool: by a process of their own, without a server.

use super::process::{Entered, Work, work_in_pool};
use super::{NodesArgs, SecretArgs};
use crate::access::AccessArgs;
use crate::exit::Failure;
use crate::pool::tables::{RaceError, execute_in};
use crate::rdma::DeviceArgs;
use drover_client::{Op, SizeLimits};
use drover_control::ControlAddr;
use drover_kv::{Answer, OwnedOp};
use drover_mem::NativeCpu;
use drover_verbs::Provider;

/// The pool that a key is in, where it is in one.
#[derive(clap::Args)]
#[command(next_help_heading = "Pool of memory nodes")]
pub struct KeysOfPool {
    /// Addresses of the memory nodes of a pool, separated by commas: the command enters it instead of asking a server
    #[arg(
        long,
        value_name = "ADDR,...",
        value_delimiter = ',',
        conflicts_with = "server"
    )]
    pool: Vec<ControlAddr>,
    #[command(flatten)]
    secret: SecretArgs,
}

impl KeysOfPool {
    /// The pool's nodes; `None`: a server is asked.
    pub fn nodes(&self, timeout_ms: u64, access: &AccessArgs, device: &DeviceArgs) -> Option<PoolNodes> {
        (!self.pool.is_empty()).then(|| {
            PoolNodes(NodesArgs {
                nodes: self.pool.clone(),
                timeout_ms,
                secret: self.secret.clone(),
                access: access.clone(),
                device: device.clone(),
                alone: false,
            })
        })
    }
}

/// The nodes of a pool, and how they are reached.
pub struct PoolNodes(NodesArgs);

/// Why a list of operations was not executed to its end.
pub struct TooLarge {
    /// Index of the operation whose key or value is too large; those before it were executed.
    pub index: usize,
    /// What the pool's tables take.
    pub limits: SizeLimits,
}

/// What came of each operation of a list, with the value of a GET.
type Answers = Result<Vec<(Answer, Vec<u8>)>, TooLarge>;

impl PoolNodes {
    /// Executes `ops`, one after the other.
    ///
    /// # Errors
    /// The pool cannot be entered, or an operation failed; the inner error if one was too large.
    pub fn execute(&self, ops: &[Op<'_>]) -> Result<Answers, Failure> {
        let ops = ops.iter().map(OwnedOp::new).collect();
        work_in_pool(&self.0, None, Execute { ops })
    }
}

struct Execute {
    ops: Vec<OwnedOp>,
}

impl Work for Execute {
    type Answer = Answers;

    async fn run<P: Provider<Cpu = NativeCpu>>(self, entered: Entered<P>) -> Result<Answers, RaceError> {
        let Entered { cx, race, .. } = entered;
        let mut answers = Vec::new();
        for (index, op) in self.ops.iter().enumerate() {
            let mut value = Vec::new();
            match execute_in(&race, &cx, &op.as_op(), &mut value).await {
                Ok(answer) => answers.push((answer, value)),
                Err(RaceError::TooLarge) => {
                    let limits = race.size_limits(op.key().len());
                    return Ok(Err(TooLarge { index, limits }));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Ok(answers))
    }
}
