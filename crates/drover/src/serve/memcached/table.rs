//! [`Table`]: what a worker does for memcached's clients and, in a member of a service, for other members.

use super::copies::Copies;
use super::member_links::MemberLinks;
use drover_base::{Cpu, Ns, Progress};
use drover_kv::CoActor;
use drover_links::{LinkHandler, LinkReply, Source as LinkSource};
use drover_memcached::{
    Core, CoreRouter, Delivery, Executor, MemberRouter, Receiver, Rings, Server, Session, Source,
};
use drover_net::{Output, PendingReply, Sockets, Token};
use drover_store::{Hint, Partition, Sharing};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Time between two looks at what native clients have changed, for `stats` on other cores and for metrics.
const PUBLISH_EVERY: Ns = Ns::from_ms(10);

/// Longest sleep of a core with a reply that found the ring to another core full.
const OWING: Ns = Ns::from_us(100);

/// A negative expiry becomes the server's first second, already over; so for memcached clients no time is before it.
const FIRST_S: u32 = 1;

/// The sockets of one core, with memcached sessions.
pub(super) struct Table<C: Cpu + 'static, S: Sharing + 'static> {
    pub(super) sockets: Sockets<Session<C, S>>,
    /// Rings to and from other cores.
    pub(super) rings: Rings,
    /// Links to and from other members; `None`: there is no cluster.
    pub(super) links: Option<MemberLinks>,
    /// In a member with replicas.
    pub(super) copies: Option<Copies>,
    /// Reply to the other core's request being served.
    reply: Output,
    pub(super) core: Core,
    pub(super) server: Arc<Server>,
    /// What native clients change is published from this time on.
    publish_at: Ns,
    /// Set while the server stops: whether this core still has connections.
    leaving: Option<bool>,
    busy_cores: Arc<AtomicUsize>,
}

impl<C: Cpu + 'static, S: Sharing + 'static> Table<C, S> {
    pub(super) fn new(
        sockets: Sockets<Session<C, S>>,
        rings: Rings,
        links: Option<MemberLinks>,
        core: Core,
        server: Arc<Server>,
        busy_cores: Arc<AtomicUsize>,
    ) -> Table<C, S> {
        Table {
            sockets,
            rings,
            links,
            copies: None,
            reply: Output::new(0, usize::MAX),
            core,
            server,
            publish_at: Ns::ZERO,
            leaving: None,
            busy_cores,
        }
    }

    /// Has replies wait until other members have copies of what they say, which go over `links`.
    pub(super) fn with_copies(mut self, links: MemberLinks) -> Table<C, S> {
        self.rings.inbound.stage_replies();
        self.copies = Some(Copies::new(links));
        self
    }

    /// In a member: takes what has arrived over links. The messages of other members are served, never sent on.
    fn step_links(&mut self, cpu: &C, partition: &mut Partition<S>, now: Ns, now_s: u32) -> Progress {
        let mut executor = executor_of(
            &mut self.core,
            &self.server,
            &mut self.rings.outbound,
            cpu,
            (partition, now_s),
        );
        executor.begin_round();
        let Some(links) = &mut self.links else {
            return Progress::Idle { wake_at: Ns::MAX };
        };
        executor.begin_step();
        let mut incoming = Incoming {
            executor: &mut executor,
            sockets: &mut self.sockets,
        };
        links.step(&mut incoming, now)
    }
}

/// What executes requests on a core, in the second `now_s`, and sends others on by `router`.
#[inline]
pub(super) fn executor_of<'e, C: Cpu, S: Sharing>(
    core: &'e mut Core,
    server: &'e Server,
    router: &'e mut dyn CoreRouter,
    cpu: &'e C,
    (partition, now_s): (&'e mut Partition<S>, u32),
) -> Executor<'e, C, S> {
    Executor {
        partition,
        cpu,
        now_s: now_s.max(FIRST_S),
        core,
        server,
        router,
    }
}

/// Receiver of messages from other cores, and their replies.
pub(super) struct Incoming<'a, 'd, C: Cpu + 'static, S: Sharing + 'static> {
    pub(super) executor: &'a mut Executor<'d, C, S>,
    pub(super) sockets: &'a mut Sockets<Session<C, S>>,
}

/// Gives a pending reply to its connection.
fn deliver<C: Cpu + 'static, S: Sharing + 'static>(
    sockets: &mut Sockets<Session<C, S>>,
) -> impl FnMut(PendingReply, Delivery<'_>) {
    |pending, delivery| match delivery {
        Delivery::Reply(reply) => sockets.fill(pending, reply),
        Delivery::Close => sockets.give_up(pending),
    }
}

impl<C: Cpu, S: Sharing> Receiver for Incoming<'_, '_, C, S> {
    fn prefetch(&mut self, message: &[u8]) {
        self.executor.prefetch(message);
    }

    fn hint(&mut self, message: &[u8]) -> Hint {
        self.executor.hint(message)
    }

    fn arrived(&mut self, from: usize) {
        self.executor.begin_arrivals();
        self.executor.set_source(Source::Core(from));
    }

    fn serve(&mut self, message: &[u8], hint: Hint, reply: &mut Output) {
        self.executor.serve(message, hint, reply);
    }

    fn served(&mut self) {
        self.executor.publish();
    }

    fn reply(&mut self, pending_reply: PendingReply, reply: &[u8]) {
        self.executor
            .take_reply(pending_reply, reply, &mut deliver(self.sockets));
    }

    fn fill(&mut self, pending_reply: PendingReply, reply: &[u8]) {
        self.sockets.fill(pending_reply, reply);
    }
}

impl<C: Cpu, S: Sharing> LinkHandler for Incoming<'_, '_, C, S> {
    type Hint = Hint;
    const NO_HINT: Hint = Hint::NONE;

    fn arrived(&mut self) {
        self.executor.begin_arrivals();
    }

    fn prefetch(&mut self, message: &[u8]) {
        self.executor.prefetch(message);
    }

    fn hint(&mut self, message: &[u8]) -> Hint {
        self.executor.hint(message)
    }

    fn serve(&mut self, source: LinkSource, message: &[u8], hint: Hint, reply: &mut Output) {
        self.executor.set_source(Source::Link(source.0));
        self.executor.serve(message, hint, reply);
    }

    fn served(&mut self) {
        self.executor.publish();
    }

    fn source_closed(&mut self, source: LinkSource) {
        self.executor.core.forget_link(source.0);
    }

    fn fill(&mut self, pending_reply: PendingReply, reply: LinkReply<'_>) {
        let deliver = &mut deliver(self.sockets);
        match reply {
            LinkReply::Bytes(bytes) => self.executor.take_reply(pending_reply, bytes, deliver),
            LinkReply::Lost { member } => self.executor.take_lost(pending_reply, member, deliver),
        }
    }

    fn unsent(&mut self, _route: usize, pending_reply: PendingReply, message: &[u8]) {
        self.executor.take_unsent(pending_reply, message);
    }
}

impl<C: Cpu, S: Sharing> CoActor<C, S> for Table<C, S> {
    fn step(&mut self, cpu: &C, partition: &mut Partition<S>, now: Ns, now_s: u32) -> Progress {
        if let Some(held) = self.begin_copies(cpu, partition, now, now_s) {
            return held;
        }
        let linked = self.step_links(cpu, partition, now, now_s);
        let mut member_router;
        let router: &mut dyn CoreRouter = match &mut self.links {
            None => &mut self.rings.outbound,
            Some(links) => {
                member_router = MemberRouter::new(&mut self.rings.outbound, links);
                &mut member_router
            }
        };
        let mut executor = executor_of(&mut self.core, &self.server, router, cpu, (partition, now_s));
        executor.begin_step();
        let mut incoming = Incoming {
            executor: &mut executor,
            sockets: &mut self.sockets,
        };
        let mut crossed = self.rings.inbound.step(&mut incoming, &mut self.reply);
        crossed |= executor.step_parked(&mut deliver(&mut self.sockets));
        let mut progress = self.sockets.step(&mut executor, now, now_s);
        let (own, sockets) = (executor.router.own(), &mut self.sockets);
        self.server.watchers.each_waiting(own, |token| {
            if sockets.notify(Token(token)) {
                progress = Progress::Busy;
            }
        });
        if progress == Progress::Busy {
            // Before the replies leave: a client that has read one finds its command counted.
            executor.publish();
        } else if now >= self.publish_at && executor.publish_changes() {
            self.publish_at = now + PUBLISH_EVERY;
        }
        if now < self.publish_at {
            // There may be changes by then.
            progress = progress.and(Progress::Idle {
                wake_at: self.publish_at,
            });
        }
        self.rings.outbound.publish();
        if self.rings.outbound.has_space_again() {
            self.sockets.resume_routes(usize::MAX);
        }
        if let Some(held) = self.hold_replies(cpu, partition, now_s) {
            return held;
        }
        self.sockets.flush();
        if self.links.is_some() {
            progress = progress.and(linked).and(self.end_member_step());
            progress = progress.and(self.copies_progress());
        }
        if self.leaving == Some(true) && self.sockets.is_empty() {
            self.leaving = Some(false);
            self.busy_cores.fetch_sub(1, Ordering::AcqRel);
        }
        match (crossed, self.rings.inbound.owes()) {
            (true, _) => Progress::Busy,
            (false, true) => progress.and(Progress::Idle { wake_at: now + OWING }),
            (false, false) => progress,
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.sockets.fd()
    }

    fn restarted(&mut self) {
        self.sockets.recover();
        self.rings.inbound.recover();
        if let Some(links) = &mut self.links {
            links.recover();
        }
        if let Some(copies) = &mut self.copies {
            copies.links.recover();
        }
        self.reply = Output::new(0, usize::MAX);
        self.core.partition_replaced();
    }

    fn leave(&mut self) {
        self.sockets.leave();
        self.leaving.get_or_insert(true);
    }

    /// Whether all cores are done: a core without connections still answers the requests of others.
    fn has_left(&self) -> bool {
        self.busy_cores.load(Ordering::Acquire) == 0
    }
}

impl<C: Cpu + 'static, S: Sharing + 'static> Table<C, S> {
    /// In a member: writes to the links, and says when the core is needed again for those and for parked messages.
    fn end_member_step(&mut self) -> Progress {
        let due_at = self.core.parked_until().unwrap_or(Ns::MAX);
        let due_at = due_at.min(self.core.copies_due());
        let Some(links) = &mut self.links else {
            return Progress::Idle { wake_at: Ns::MAX };
        };
        if links.has_space_again() {
            self.sockets.resume_routes(usize::MAX);
        }
        match links.flush() {
            true => Progress::Busy,
            false => Progress::Idle { wake_at: due_at },
        }
    }

    /// Lets replies leave that have waited.
    pub(super) fn release_replies(&mut self) {
        self.rings.inbound.release();
        self.sockets.flush();
        if let Some(links) = &mut self.links {
            // What it has to do at once, it finds in its next step.
            let _ = links.flush();
        }
    }
}
