//! [`Desk`]: what a step needs of its core; [`Core`]: what stays from step to step.

use crate::{Counters, Elsewhere, Server};
use drover_base::Cpu;
use drover_store::Partition;

/// What this core keeps for its memcached clients: one for all of its connections.
#[derive(Debug, Default)]
pub struct Core {
    /// What was counted here.
    pub counters: Counters,
    /// When everything stored before is to be forgotten (`flush_all` with a delay), in seconds since the start.
    pub(crate) flush_at: Option<u32>,
}

/// What a step needs of its core. Made anew for each step: it is a handful of references.
pub struct Desk<'d, C: Cpu> {
    /// The items that live here.
    pub partition: &'d mut Partition,
    /// The core.
    pub cpu: &'d C,
    /// Seconds since the server's start.
    pub now_s: u32,
    /// What stays.
    pub core: &'d mut Core,
    /// What all cores share.
    pub server: &'d Server,
    /// The way to the others.
    pub elsewhere: &'d mut dyn Elsewhere,
}
