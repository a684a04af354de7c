//! [`RunningMember`]: the threads of a member.

use crate::filler::Filler;
use crate::mover::Mover;
use crate::network::{MemberAddress, Network};
use crate::observed::Observed;
use crate::owner::ControlHandler;
use crate::shared::Shared;
use crate::state::{End, State};
use crate::status::MemberStatus;
use crate::sweeper::Sweeper;
use drover_base::{Cpu, Ns};
use drover_cluster::{Advert, Agent, AgentOptions, HandoverTimes, LeaseTerms, Registry, ServedShards};
use drover_mem::{NativeCpu, entropy};
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Longest time between two steps of the agent.
const STEP: Duration = Duration::from_millis(2);
/// Owners from which shards are fetched at a time. *(our choice: each of them works for its clients meanwhile)*
const MOVERS: usize = 4;
/// A member that leaves waits so long for the registry to confirm it.
const LEAVE_MAX: Ns = Ns::from_s(1);

/// What a [`RunningMember`] is made with.
pub struct MemberOptions {
    /// What the member says of itself. One of its addresses must be a [`MemberAddress`].
    pub advert: Advert,
    /// Times of its lease.
    pub terms: LeaseTerms,
    /// Times of hand-overs to it.
    pub handover: HandoverTimes,
    /// Most shards that are handed over to it at a time.
    pub handovers_max: usize,
    /// Members that are to have each item, 1 or 2: as the [settings](drover_cluster::ServiceSettings::replicas) of the service say. With 2 the cores
    /// must send copies.
    pub replicas: u8,
    /// What its cores ask.
    pub shards: Arc<ServedShards>,
    /// Its way to cores, its own and those of others.
    pub network: Arc<dyn Network>,
}

/// Reasons why a [`RunningMember`] cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// None of the addresses is for members.
    #[error("no address of the member has the form member://HOST:PORT?cores=N")]
    NoAddress,
    /// There is no thread to be had.
    #[error("cannot start a thread of the member")]
    Thread(#[source] io::Error),
}

/// A member of a service: threads that keep its registration and its map, fetch shards that are handed over to it, fill the
/// copies that others keep, and delete items of shards that it has lost. Dropping it ends the threads and nothing else, as if the process had died: the registration lives until
/// its lease runs out.
pub struct RunningMember {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl RunningMember {
    /// Starts the threads. The cores' partitions must be empty.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn start(
        options: MemberOptions,
        registry: impl Registry + Send + 'static,
    ) -> Result<RunningMember, StartError> {
        let own = MemberAddress::of(options.advert.addresses()).ok_or(StartError::NoAddress)?;
        let (name, shards) = (options.advert.name().clone(), options.shards);
        let agent = Agent::new(AgentOptions {
            advert: options.advert,
            terms: options.terms,
            handover: options.handover,
            handovers_max: options.handovers_max,
            shard_count: shards.shard_count(),
            instance: entropy(),
            replicas: options.replicas,
        });
        let state = State::new(agent, shards.clone());
        let shared = Arc::new(Shared::new(state, shards, options.network, name, own));
        let (movers, sweeper) = (shared.clone(), Sweeper::new(shared.clone()));
        let filler = (options.replicas > 1).then(|| Filler::new(shared.clone()));
        let mut member = RunningMember {
            shared: shared.clone(),
            threads: Vec::new(),
        };
        member.spawn("member", move || control(&shared, Observed::new(registry)))?;
        for _ in 0..MOVERS {
            let mover = Mover::new(movers.clone());
            member.spawn("mover", move || mover.run())?;
        }
        member.spawn("sweeper", move || sweeper.run())?;
        if let Some(filler) = filler {
            member.spawn("filler", move || filler.run())?;
        }
        Ok(member)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
        let thread = Builder::new().name(name.to_string()).spawn(body);
        self.threads.push(thread.map_err(StartError::Thread)?);
        Ok(())
    }

    /// Answers what other members ask this one's control thread.
    pub fn control_handler(&self) -> ControlHandler {
        ControlHandler::new(self.shared.clone())
    }

    /// The member now. Cost: a lock that is held for microseconds, and a look at every shard.
    pub fn status(&self) -> MemberStatus {
        let now = NativeCpu::new(0).refresh();
        self.shared.state().status(now)
    }

    /// Serves nothing more and ends the registration, so that others take the shards over at once. Items that were not handed over
    /// before are lost to the service. Waits for the registry for up to a second.
    pub fn leave(mut self) {
        self.end(End::Leave);
    }

    fn end(&mut self, how: End) {
        self.shared.state().ends.get_or_insert(how);
        self.shared.notify();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the member has panicked");
            }
        }
    }
}

impl Drop for RunningMember {
    fn drop(&mut self) {
        self.end(End::Vanish);
    }
}

/// Steps the agent until the member ends.
fn control(shared: &Shared, mut registry: Observed<impl Registry>) {
    let cpu = NativeCpu::new(0);
    let mut state = shared.state();
    let how = loop {
        if let Some(how) = state.ends {
            break how;
        }
        let is_busy = state.step(cpu.refresh(), &mut registry);
        state.health = registry.health;
        if is_busy {
            shared.notify();
        }
        state = shared.wait(state, STEP);
    };
    shared.shards.set_stop_at(Ns::ZERO);
    drop(state);
    if how == End::Leave {
        leave(shared, &mut registry, &cpu);
    }
}

/// Ends the registration, after every core has stopped: the shards may belong to others the moment after.
fn leave(shared: &Shared, registry: &mut Observed<impl Registry>, cpu: &NativeCpu) {
    if !shared.pass_rounds(cpu) || !shared.pass_holds(cpu, LEAVE_MAX) {
        tracing::warn!("a core does not answer, or waits for a copy: the lease is left to run out");
        return;
    }
    let mut state = shared.state();
    if state.agent.id().is_none() {
        return;
    }
    state.agent.leave(cpu.refresh(), registry);
    let until = cpu.refresh() + LEAVE_MAX;
    while !registry.has_left && cpu.refresh() < until {
        if registry.poll(cpu.now()).is_none() {
            state = shared.wait(state, STEP);
        }
    }
    if !registry.has_left {
        tracing::warn!("the registry has not confirmed that the member leaves: its lease is left to run out");
    }
}
