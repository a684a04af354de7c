//! What a core does for copies of items, in a member with replicas: while other members do not have yet what it has changed, it executes nothing and
//! lets no reply leave.
//!
//! ```text
//! step:  links for copies, what has changed --> still held?   yes: that was all
//!                                               no: replies that waited leave
//!        requests are executed; what has changed is sent --> held?   yes: replies wait
//!                                                            no: replies leave
//! ```

use super::member_links::MemberLinks;
use super::table::{Incoming, Table, executor_of};
use drover_base::{Cpu, Ns, Progress};
use drover_links::{LinkHandler, LinkReply, Source as LinkSource};
use drover_memcached::replicas::Hold;
use drover_memcached::{Executor, Source};
use drover_net::{Output, PendingReply};
use drover_store::{Hint, Partition, Sharing};

/// Links of a core for copies of items.
pub(super) struct Copies {
    pub(super) links: MemberLinks,
    /// Replies wait until the core is not held any more.
    has_waiting: bool,
    /// When these links need the core again, as of this step.
    progress: Progress,
}

impl Copies {
    pub(super) fn new(links: MemberLinks) -> Copies {
        Copies {
            links,
            has_waiting: false,
            progress: Progress::Busy,
        }
    }
}

impl<C: Cpu + 'static, S: Sharing + 'static> Table<C, S> {
    /// Begins a step: takes what has come over the links for copies. Returns what the core waits for if that is all that it may do.
    pub(super) fn begin_copies(
        &mut self,
        cpu: &C,
        partition: &mut Partition<S>,
        now: Ns,
        now_s: u32,
    ) -> Option<Progress> {
        let copies = self.copies.as_mut()?;
        let mut executor = executor_of(
            &mut self.core,
            &self.server,
            &mut self.rings.outbound,
            cpu,
            (partition, now_s),
        );
        executor.begin_round();
        executor.begin_step();
        copies.progress = copies.links.step(&mut IncomingCopies(&mut executor), now);
        let hold = executor.step_copies(&mut copies.links);
        self.settle(hold, cpu, partition, now_s)
    }

    /// When the links for copies need the core again.
    pub(super) fn copies_progress(&self) -> Progress {
        match &self.copies {
            Some(copies) => copies.progress,
            None => Progress::Idle { wake_at: Ns::MAX },
        }
    }

    /// Sends what the step has changed. Returns what the core waits for if its replies must wait.
    pub(super) fn hold_replies(
        &mut self,
        cpu: &C,
        partition: &mut Partition<S>,
        now_s: u32,
    ) -> Option<Progress> {
        let copies = self.copies.as_mut()?;
        let mut executor = executor_of(
            &mut self.core,
            &self.server,
            &mut self.rings.outbound,
            cpu,
            (partition, now_s),
        );
        let hold = executor.step_copies(&mut copies.links);
        copies.has_waiting = true;
        self.settle(hold, cpu, partition, now_s)
    }

    /// Lets replies wait, leave, or never leave.
    fn settle(&mut self, hold: Hold, cpu: &C, partition: &mut Partition<S>, now_s: u32) -> Option<Progress> {
        if hold == Hold::Void {
            self.drop_replies(cpu, partition, now_s);
        }
        let is_held = self.core.is_held();
        let copies = self.copies.as_mut()?;
        if copies.links.flush() {
            copies.progress = Progress::Busy;
        }
        if !is_held && std::mem::take(&mut copies.has_waiting) {
            self.release_replies();
        }
        let due = Progress::Idle {
            wake_at: self.core.copies_due(),
        };
        is_held.then(|| self.copies_progress().and(due))
    }

    /// Replies that wait must never leave: another member may serve by now what they are about.
    fn drop_replies(&mut self, cpu: &C, partition: &mut Partition<S>, now_s: u32) {
        self.sockets.close_unsent();
        self.rings.inbound.make_void();
        let Some(links) = &mut self.links else { return };
        let mut executor = executor_of(
            &mut self.core,
            &self.server,
            &mut self.rings.outbound,
            cpu,
            (partition, now_s),
        );
        links.close_unsent(&mut Incoming {
            executor: &mut executor,
            sockets: &mut self.sockets,
        });
    }
}

/// Receiver of messages about copies, and of the replies to this core's own.
struct IncomingCopies<'a, 'd, C: Cpu, S: Sharing>(&'a mut Executor<'d, C, S>);

impl<C: Cpu, S: Sharing> LinkHandler for IncomingCopies<'_, '_, C, S> {
    type Hint = ();
    const NO_HINT: () = ();

    fn arrived(&mut self) {
        self.0.begin_arrivals();
        self.0.set_source(Source::Copies);
    }

    fn serve(&mut self, _: LinkSource, message: &[u8], (): (), reply: &mut Output) {
        self.0.serve(message, Hint::NONE, reply);
    }

    fn served(&mut self) {
        self.0.publish();
    }

    fn fill(&mut self, pending_reply: PendingReply, reply: LinkReply<'_>) {
        let reply = match reply {
            LinkReply::Bytes(bytes) => Some(bytes),
            LinkReply::Lost { .. } => None,
        };
        self.0.take_copy_reply(pending_reply, reply);
    }

    fn unsent(&mut self, _route: usize, pending_reply: PendingReply, _message: &[u8]) {
        self.0.take_copy_reply(pending_reply, None);
    }
}
