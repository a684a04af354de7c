//! `drover get`, `set` and `delete` in a pool: by a process of their own, without a server.

use super::process::{Entered, Work, work_in_pool};
use super::{NodesArgs, SecretArgs};
use crate::access::AccessArgs;
use crate::exit::{self, Failure};
use crate::pool::tables::{ItemMeta, RaceError};
use crate::rdma::DeviceArgs;
use drover_client::{Condition, Effect, Item, PutOptions};
use drover_control::ControlAddr;
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

/// The value of `key`.
///
/// # Errors
/// The pool cannot be entered, or the operation failed.
pub fn get(nodes: &PoolNodes, key: &[u8]) -> Result<Option<Item>, Failure> {
    let key = key.to_vec();
    work_in_pool(&nodes.0, None, Get { key })
}

/// Stores `value` under `key` as `options` say.
///
/// # Errors
/// As [`get`]; also if the condition compares versions.
pub fn set(nodes: &PoolNodes, key: &[u8], value: Vec<u8>, options: PutOptions) -> Result<Effect, Failure> {
    if let Condition::IfVersion(_) = options.condition {
        let why = "--if VERSION: not in a pool";
        return Err(Failure::new(exit::USAGE, why));
    }
    let key = key.to_vec();
    work_in_pool(&nodes.0, None, Set { key, value, options })
}

/// Removes `key`; whether it had a value.
///
/// # Errors
/// As [`get`].
pub fn delete(nodes: &PoolNodes, key: &[u8]) -> Result<bool, Failure> {
    let key = key.to_vec();
    work_in_pool(&nodes.0, None, Delete { key })
}

struct Get {
    key: Vec<u8>,
}

impl Work for Get {
    type Answer = Option<Item>;

    async fn run<P: Provider<Cpu = NativeCpu>>(self, entered: Entered<P>) -> Result<Option<Item>, RaceError> {
        let found = entered.race.get(&entered.cx, &self.key).await?;
        Ok(found.map(|found| Item {
            value: found.value().to_vec(),
            version: found.version,
            flags: found.flags,
        }))
    }
}

struct Set {
    key: Vec<u8>,
    value: Vec<u8>,
    options: PutOptions,
}

impl Work for Set {
    type Answer = Effect;

    async fn run<P: Provider<Cpu = NativeCpu>>(self, entered: Entered<P>) -> Result<Effect, RaceError> {
        let Entered { cx, race, .. } = entered;
        let (key, value) = (&self.key[..], &self.value[..]);
        let meta = ItemMeta {
            flags: self.options.flags,
            expire_s: race.expire_s(&cx, key, self.options.ttl_s),
        };
        let effect = |is_done, otherwise| if is_done { Effect::Done } else { otherwise };
        match self.options.condition {
            Condition::IfAbsent => Ok(effect(race.add(&cx, key, value, meta).await?, Effect::Exists)),
            Condition::IfPresent => Ok(effect(
                race.update(&cx, key, value, meta).await?,
                Effect::NotFound,
            )),
            Condition::Always | Condition::IfVersion(_) => {
                race.put(&cx, key, value, meta).await.map(|()| Effect::Done)
            }
        }
    }
}

struct Delete {
    key: Vec<u8>,
}

impl Work for Delete {
    type Answer = bool;

    async fn run<P: Provider<Cpu = NativeCpu>>(self, entered: Entered<P>) -> Result<bool, RaceError> {
        entered.race.delete(&entered.cx, &self.key).await
    }
}
