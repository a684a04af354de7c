//! [`Worker`]: one core, one partition, one UD queue pair.

use super::bulk::Scratch;
use super::clients::{Client, Clients, NewClient};
use super::counters::values;
use super::datagram::Datagrams;
use super::intake::{Intake, TORN_NS_MAX};
use super::mail::{Command, Event, SenderExport};
use super::options::{ServeMode, ServerOptions};
use super::pipeline::{Pipeline, STAGES};
use super::reply::Replies;
use super::served::Membership;
use super::setup::Setup;
use super::stats::Counters;
use super::sweep::{Around, Sweeper};
use super::variant::{Mistake, Standard, Variant};
use crate::control::Resync;
use crate::costs::STEP;
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_kv::{StartError, WorkerStats};
use drover_mem::{AllocError, pause};
use drover_rt::{Mailbox, Mailer, Rounds, RunStats, unbounded_mailbox};
use drover_slots::server::{Clock, Share, SlotState};
use drover_store::Partition;
use drover_verbs::{Bell, Context, Device, Provider, Qpn, QueuePair};
use std::rc::Rc;

/// Handle to a worker, for other threads.
#[derive(Clone, Debug)]
pub(super) struct WorkerHandle {
    /// Number of the worker's UD queue pair.
    pub(super) qpn: u32,
    /// Rung by WRITEs of requests, to wake the worker if it sleeps.
    pub(super) bell: Bell,
    mailer: Mailer<Command>,
}

impl WorkerHandle {
    /// Sends a command to the worker, and wakes it. If it has ended, the command is dropped and nothing answers it.
    pub(super) fn send(&self, command: Command) {
        let _ = self.mailer.send(command);
    }
}

/// Serves one partition on one core: finds requests, executes them, sends replies. A step never blocks, and executes at
/// most one batch.
pub struct Worker<P: Provider, V: Variant = Standard> {
    ctx: Rc<P::Context>,
    options: Rc<ServerOptions>,
    pub(super) variant: V,
    index: usize,
    /// What it may serve, as part of a member of a service of several; `None`: everything.
    pub(super) membership: Option<Membership>,
    pub(super) clock: Clock,
    pub(super) clients: Clients,
    /// Finds requests in their slots.
    pub(super) sweeper: Sweeper,
    pub(super) datagrams: Option<Box<Datagrams<P>>>,
    /// Where requests wait for execution: one intake for a batch, or three for one request each in a pipeline.
    pub(super) intakes: [Intake<V>; STAGES],
    pub(super) pipeline: Pipeline,
    pub(super) partition: Partition<V::Sharing>,
    /// Buffer for a value on its way to or from bulk memory.
    pub(super) scratch: Scratch,
    pub(super) replies: Replies<P, V>,
    pub(super) counters: Counters,
    restarts: u64,
    rounds: Rounds,
    mail: Mailbox<Command>,
    mailer: Mailer<Command>,
    events: Mailer<Event>,
    stopping: bool,
    /// Clients that may send datagrams, and the numbers that these carry.
    senders: Vec<(u32, Qpn)>,
}

impl<P: Provider, V: Variant> Worker<P, V> {
    /// Creates a worker for partition `index`, to be used in this thread.
    ///
    /// # Errors
    /// The fabric cannot be opened, or memory or queues cannot be created.
    pub(super) fn new(setup: &Setup<P, V>, index: usize) -> Result<Worker<P, V>, StartError> {
        let (options, variant) = (&setup.options, setup.variant);
        let ctx = setup.device.context()?;
        let partition = make_partition(options, index, variant)?;
        let batch = options.batch();
        let mut datagrams = match options.clients.datagram_recvs {
            0 => None,
            recvs => {
                let recvs = recvs.min(ctx.caps().recv_depth_max);
                let made =
                    Datagrams::new(&ctx, recvs, batch).map_err(|reason| StartError::Datagrams { reason })?;
                Some(Box::new(made))
            }
        };
        let qkey = ctx.cpu().random() as u32 & 0x7fff_ffff;
        let (recv_cq, recv_depth) = match &datagrams {
            Some(datagrams) => (
                Some(&datagrams.recv_cq),
                options.clients.datagram_recvs.min(ctx.caps().recv_depth_max),
            ),
            None => (None, 0),
        };
        let mut replies = Replies::new(
            &ctx,
            recv_cq,
            recv_depth,
            options.replies.signal_period.max(1),
            batch,
            qkey,
            variant,
        )?;
        replies.inline_bytes_max = replies.inline_bytes_max.min(options.replies.inline_bytes_max);
        if let Some(datagrams) = &mut datagrams {
            datagrams
                .start(ctx.cpu(), &mut replies.qp)
                .map_err(|reason| StartError::Datagrams { reason })?;
        }
        let (intake_count, limit) = match options.mode {
            ServeMode::Batch { .. } => (1, batch),
            ServeMode::Pipeline { .. } => (STAGES, 1),
        };
        let share = Share {
            partition_index: index,
            partition_count: options.partition_count,
        };
        let intake = |number| Intake::new(if number < intake_count { limit } else { 0 }, share, variant);
        let (mailer, mail) = unbounded_mailbox(ctx.waker());
        let served = options.requests.served.clone();
        let membership = served.map(|served| Membership::new(served, index, ctx.waker()));
        Ok(Worker {
            index,
            membership,
            clock: Clock::new(setup.started, options.clock.start_s),
            partition,
            clients: Clients::new(),
            sweeper: Sweeper::new(options.clients.window_max),
            replies,
            datagrams,
            intakes: std::array::from_fn(intake),
            pipeline: Pipeline::default(),
            counters: Counters::default(),
            scratch: Scratch::new(options.item_bytes_max),
            restarts: 0,
            rounds: Rounds::default(),
            mail,
            mailer,
            events: setup.events.clone(),
            senders: Vec::new(),
            stopping: false,
            options: Rc::new(options.clone()),
            variant,
            ctx: Rc::new(ctx),
        })
    }

    pub(super) fn handle(&self) -> WorkerHandle {
        WorkerHandle {
            qpn: self.replies.qp.qpn().0,
            bell: self.ctx.bell(),
            mailer: self.mailer.clone(),
        }
    }

    /// The worker's device context; its core is the one to pass to [`step`](Actor::step).
    pub fn context(&self) -> Rc<P::Context> {
        self.ctx.clone()
    }

    /// The worker's statistics since it was created; those of rounds are all zero if it is stepped by hand.
    pub fn stats(&self) -> WorkerStats {
        let stats = WorkerStats {
            counters: Vec::new(),
            operations: self.counters.operations.total(),
            partition: self.partition.stats(),
            clients: self.clients.len(),
            restarts: self.restarts,
            durations: self.rounds.durations(),
            run: self.rounds.stats(),
        };
        WorkerStats {
            counters: values(&self.counters, &stats),
            ..stats
        }
    }

    /// The worker's counters since it was created; [`restart`](Worker::restart) does not reset them.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The worker's partition, for example to fill it before the first step, or to look at its items.
    pub fn partition_mut(&mut self) -> &mut Partition<V::Sharing> {
        &mut self.partition
    }

    /// Notes that a round of the run loop has ended, whose statistics are now `stats`.
    pub(super) fn note_round(&mut self, stats: RunStats) {
        self.rounds
            .note(self.clock.now(), self.counters.operations.total(), stats);
    }

    /// Time of the server's start, on the clock of the provider's cores.
    pub(super) fn started(&self) -> Ns {
        self.clock.started()
    }

    /// Leaves the partition in the memory file, if there is one, for the next process. Its items must not be written
    /// afterwards.
    pub(super) fn leave(&self) {
        if let Some(warm) = &self.options.warm {
            warm.leave(self.index, &self.partition);
        }
    }

    /// Whether the worker has received the command to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopping
    }

    /// Whether the control thread has sent commands.
    pub(super) fn has_mail(&self) -> bool {
        self.mail.has_mail()
    }

    /// Restarts the worker with an empty partition, as after a panic: items are lost, connections stay. No request that
    /// was taken before executes again; in format D neither does any that is in a slot now: their retransmissions,
    /// reads included, are answered `StaleEpoch`. Datagrams not received yet, and untaken requests of format P,
    /// execute.
    ///
    /// # Errors
    /// The new partition's memory cannot be allocated, or the memory for datagrams was lost in a panic.
    pub fn restart(&mut self) -> Result<(), StartError> {
        if self.datagrams.is_none() && self.options.clients.datagram_recvs > 0 {
            let reason = "their memory was lost in a panic".to_owned();
            return Err(StartError::Datagrams { reason });
        }
        let clear_at_s = self.partition.clear_at_s();
        // The new partition may be in the same memory.
        self.partition.end_reads();
        self.partition = make_partition(&self.options, self.index, self.variant)?;
        self.partition.set_clear_at_s(clear_at_s);
        for intake in &mut self.intakes {
            intake.requests.clear();
        }
        self.pipeline = Pipeline::default();
        self.discard_replies();
        match self.variant.makes(Mistake::ExecutesLeftovers) {
            true => self.clients.unlearn_all(),
            false => self.clients.forget_all(self.variant),
        }
        self.restarts += 1;
        Ok(())
    }

    /// Executes the commands that the control thread has sent.
    #[cold]
    #[inline(never)]
    pub(super) fn obey(&mut self, cpu: &P::Cpu) {
        // No request of a client that is removed may be in the pipeline.
        self.drain_pipeline(cpu);
        while let Some(command) = self.mail.recv() {
            match command {
                Command::Add(new, reply) => reply.send(self.add(*new)),
                Command::Remove { client, reply } => {
                    self.remove(client);
                    reply.send(());
                }
                Command::Resync { client, resync } => {
                    self.counters.irregular.resyncs += 1;
                    if !self.postpone_resync(client, resync) {
                        self.resync(client, resync);
                    }
                }
                Command::OpenBulk { client, bulk, reply } => {
                    if let Some(known) = self.clients.get_mut(client) {
                        known.bulk = Some(bulk);
                    }
                    reply.send(());
                }
                Command::Export { client, reply } => {
                    reply.send(self.export_for(client).map_err(|error| error.to_string()));
                }
                Command::Stats(_) if self.variant.makes(Mistake::KeepsSilent) => {}
                Command::Stats(reply) => reply.send(self.stats()),
                Command::Stop => self.stopping = true,
            }
        }
    }

    /// Exports the queue pair for the datagrams of a client.
    fn export_for(&mut self, client: u32) -> Result<SenderExport, AllocError> {
        let qp = &self.replies.qp;
        if self.variant.makes(Mistake::TrustsSenders) {
            return Ok((qp.export()?, None));
        }
        let (export, sender) = qp.export_for_sender()?;
        self.senders.extend(sender.map(|sender| (client, sender)));
        Ok((export, sender))
    }

    /// Takes the export for a client back: a client that is gone may hold on to it.
    fn forget_sender(&mut self, client: u32) {
        let own = self.senders.iter().position(|(other, _)| *other == client);
        if let Some(at) = own {
            let (_, sender) = self.senders.swap_remove(at);
            self.replies.qp.forget_sender(sender);
        }
    }

    fn add(&mut self, new: NewClient) -> Result<(), String> {
        let quota = match self.variant.makes(Mistake::NoQuota) {
            true => usize::MAX,
            false => self.options.batch().min((new.params.map.window / 2).max(1)),
        };
        let inline = self.replies.inline_bytes_max;
        if new.params.map.body_bytes_max() > inline {
            self.replies.stage_long_payloads(&self.ctx)?;
        }
        let client = Client::new::<P>(&self.ctx, self.index, &new, quota, inline)?;
        // What the new client sends by was exported before it is added.
        self.drop_client(new.id);
        self.clients.insert(client, new.slots);
        Ok(())
    }

    /// Drops a client, if the worker has it, and what was exported for it.
    pub(super) fn remove(&mut self, client: u32) {
        self.forget_sender(client);
        self.drop_client(client);
    }

    /// Drops a client, if the worker has it. Its address is destroyed once no reply to it is held.
    fn drop_client(&mut self, client: u32) {
        if let Some(dest) = self.clients.remove(client)
            && !self.keep_address(client, dest)
        {
            self.ctx.destroy_ah(&dest);
        }
    }

    /// Answers a client's question about a request that it gave up.
    pub(super) fn resync(&mut self, client: u32, resync: Resync) {
        if let Some(resynced) = self.clients.resync(client, resync) {
            self.report(Event::Resynced { client, resynced });
        }
    }

    /// Sends an event to the control thread, which may have ended.
    pub(super) fn report(&self, event: Event) {
        let _ = self.events.send(event);
    }

    /// Checks every slot and the receive queue, and works on what it found. Returns whether there was anything, even if
    /// only datagrams to be ignored: so a worker that reports that it is idle has an empty receive queue.
    fn work_around(&mut self, cpu: &P::Cpu) -> bool {
        match self.options.mode {
            ServeMode::Batch { .. } => {
                self.look_around(cpu, 0, Around::All);
                let received = self.receive_datagrams(cpu, 0);
                self.finish_batch(cpu) | received
            }
            ServeMode::Pipeline { drain } => {
                let at = self.pipeline.next_intake();
                self.look_around(cpu, at, Around::All);
                let received = self.intakes[at].requests.is_empty() && self.receive_datagrams(cpu, at);
                self.pipeline_once(cpu, drain) | received
            }
        }
    }
}

/// Partition `index`: as an earlier process left it in the memory file; empty if there is no file, its contents fail a
/// check, or this process has had the partition before.
fn make_partition<V: Variant>(
    options: &ServerOptions,
    index: usize,
    variant: V,
) -> Result<Partition<V::Sharing>, AllocError> {
    let Some(warm) = &options.warm else {
        let mut partition = Partition::create(&options.partition_options())?;
        variant.plant(&mut partition);
        return Ok(partition);
    };
    let (partition, doubt) = warm.partition(index)?;
    if let Some(doubt) = doubt {
        tracing::warn!(index, "a partition starts cold: {doubt}");
    }
    Ok(partition)
}

impl<P: Provider, V: Variant> Actor<P::Cpu> for Worker<P, V> {
    /// Sweeps up to [`ServerOptions::idle_sweeps`] times until requests are found, and executes them. Handles commands
    /// of the control thread instead if there are any, and does nothing while its send queue has no space for a batch
    /// of replies. Reports idle only after it has checked every slot, so requests that arrive later ring the bell.
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        self.sweep_times(cpu, self.options.idle_sweeps.max(1))
    }
}

impl<P: Provider, V: Variant> Worker<P, V> {
    /// A step of at most `sweeps` sweeps.
    #[inline(always)]
    pub(super) fn sweep_times(&mut self, cpu: &P::Cpu, sweeps: usize) -> Progress {
        match self.options.mode {
            ServeMode::Batch { .. } => self.batch_times(cpu, sweeps),
            ServeMode::Pipeline { drain } => self.pipeline_times(cpu, sweeps, drain),
        }
    }

    // Functions of their own, so that each saves only the registers that it needs.
    #[inline(never)]
    fn batch_times(&mut self, cpu: &P::Cpu, sweeps: usize) -> Progress {
        self.work_times(cpu, sweeps, Worker::batch)
    }

    #[inline(never)]
    fn pipeline_times(&mut self, cpu: &P::Cpu, sweeps: usize, drain: bool) -> Progress {
        self.work_times(cpu, sweeps, |worker, cpu| worker.pipeline(cpu, drain))
    }

    /// A step that calls `work`, which makes a sweep and works on what it found, at most `sweeps` times: until it returns
    /// true, which means that there was something.
    #[inline(always)]
    fn work_times(
        &mut self,
        cpu: &P::Cpu,
        sweeps: usize,
        work: impl Fn(&mut Worker<P, V>, &P::Cpu) -> bool,
    ) -> Progress {
        cpu.charge(STEP.cost, 1);
        self.clock.set(cpu.now());
        if self.membership.is_some()
            && let Some(progress) = self.begin_member_round(cpu)
        {
            return progress;
        }
        // What is found must be answered in this very step.
        if !self.replies.has_space(cpu, &mut self.counters) {
            return Progress::Busy;
        }
        for _ in 0..sweeps {
            if self.mail.has_mail() {
                self.obey(cpu);
                return Progress::Busy;
            }
            if work(self, cpu) {
                return Progress::Busy;
            }
            // Not to take the line away from a client that is just writing it, nor the core from its sibling.
            pause();
        }
        if self.work_around(cpu) {
            return Progress::Busy;
        }
        let wake_at = match self.clients.torn_since() {
            Ns::MAX => Ns::MAX,
            since => since + TORN_NS_MAX,
        };
        Progress::Idle { wake_at }
    }
}

impl Clients {
    /// The mistake of [`Mistake::ExecutesLeftovers`]: requests that are in the slots count as new.
    fn unlearn_all(&mut self) {
        for index in 0..self.lanes.len() {
            if let Some((lane, client)) = self.lane_and_client(index) {
                client.states.fill(SlotState::UNUSED);
                client.aim(lane);
            }
        }
    }
}
