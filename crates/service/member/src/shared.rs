//! [`Shared`]: what the threads of a member have in common.

use crate::network::{Call, CallTarget, MemberAddress, Network};
use crate::state::State;
use drover_base::{Cpu, Ns};
use drover_cluster::ServedShards;
use drover_mem::NativeCpu;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Time in which every core begins another round, unless the machine stands still. *(our choice)*
const ROUND_MAX: Ns = Ns::from_s(1);
/// Pause between two looks at the rounds of the cores: a busy core's round takes less.
const ROUND_PAUSE: Duration = Duration::from_micros(20);

/// The state of a member, and its ways to cores.
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub(crate) shards: Arc<ServedShards>,
    network: Arc<dyn Network>,
    name: Arc<str>,
    own: MemberAddress,
}

impl Shared {
    pub(crate) fn new(
        state: State,
        shards: Arc<ServedShards>,
        network: Arc<dyn Network>,
        name: Arc<str>,
        own: MemberAddress,
    ) -> Shared {
        Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            shards,
            network,
            name,
            own,
        }
    }

    /// The state. A thread that panicked while it held it leaves it usable: the lease and the map decide what is served.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads that wait for something to do.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits until something may have changed, for at most `longest`.
    pub(crate) fn wait<'s>(
        &'s self,
        state: MutexGuard<'s, State>,
        longest: Duration,
    ) -> MutexGuard<'s, State> {
        let waited = self.changed.wait_timeout(state, longest);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until every core heeds what was published before this call. Returns whether that took less than [`ROUND_MAX`].
    pub(crate) fn pass_rounds(&self, cpu: &NativeCpu) -> bool {
        let (rounds, until) = (self.shards.rounds(), cpu.refresh() + ROUND_MAX);
        while !self.shards.has_passed(&rounds) {
            if cpu.refresh() >= until {
                return false;
            }
            thread::park_timeout(ROUND_PAUSE);
        }
        true
    }

    /// Waits until every core, since the call, has been seen not to wait for keepers of copies, for at most `longest`: then nothing that it
    /// decided about before waits for its reply to leave. Returns whether that is so.
    pub(crate) fn pass_holds(&self, cpu: &NativeCpu, longest: Ns) -> bool {
        let until = cpu.refresh() + longest;
        let mut cores = 0..self.shards.core_count();
        cores.all(|core| {
            while self.shards.is_held(core) {
                if cpu.refresh() >= until {
                    return false;
                }
                thread::park_timeout(ROUND_PAUSE);
            }
            true
        })
    }

    /// Connects to a core of this member, for messages about copies.
    pub(crate) fn connect_copies(&self, core: usize) -> io::Result<Box<dyn Call>> {
        let target = CallTarget::Copies(core as u16);
        self.network.connect(&self.name, &self.own, target)
    }

    /// Connects to the cores of this member.
    pub(crate) fn connect_own(&self) -> io::Result<Vec<Box<dyn Call>>> {
        self.connect_cores(&self.name, &self.own)
    }

    /// Connects to the cores of a member, in their order.
    pub(crate) fn connect_cores(
        &self,
        name: &str,
        address: &MemberAddress,
    ) -> io::Result<Vec<Box<dyn Call>>> {
        let cores = 0..address.core_count;
        let connect = |index| self.network.connect(name, address, CallTarget::Core(index));
        cores.map(connect).collect()
    }

    /// Connects to the control thread of a member.
    pub(crate) fn connect_control(&self, name: &str, address: &MemberAddress) -> io::Result<Box<dyn Call>> {
        self.network.connect(name, address, CallTarget::Control)
    }
}
