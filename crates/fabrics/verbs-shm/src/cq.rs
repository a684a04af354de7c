//! [`ShmCq`]: completions, and the lanes that produce them.

use crate::Shm;
use crate::core::Core;
use crate::inbox::{Inbox, Step, Stop};
use crate::lanes::Lanes;
use crate::qp::Queue;
use crate::recv::RecvQueue;
use drover_base::Cpu;
use drover_mem::NativeCpu;
use drover_verbs::{CompletionQueue, Qpn, Wc};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Most messages without a RECV that one poll drops, so that a flood does not delay the poller.
const DROPS_PER_POLL: usize = 256;

/// A completion queue. Polling it also copies arrived messages from their rings to RECVs, and retries requests that
/// wait for the peer. It grows with the queue pairs that use it, so their requests never overrun it.
pub struct ShmCq {
    pub(crate) core: Rc<Core>,
    pub(crate) shared: Rc<CqShared>,
}

/// The part of a completion queue shared with its queue pairs.
pub(crate) struct CqShared {
    state: RefCell<State>,
    /// Queue pairs with requests that wait for a RECV or for space.
    waiting: RefCell<Vec<Rc<Queue>>>,
    waiting_count: Cell<usize>,
}

struct State {
    /// Completions not yet polled.
    ready: VecDeque<Entry>,
    /// Of each queue pair that sends, how far its send queue is free, by the number that [`CqShared::add_sender`] gave.
    senders: Vec<Option<Retired>>,
    /// Completions that lanes may add before the next poll; the rest of the capacity is for send queues.
    depth: usize,
    reserved: usize,
    /// Lanes into queue pairs that complete here.
    lanes: Lanes,
}

/// Number of requests of a send queue whose space is free again.
pub(crate) type Retired = Rc<Cell<u32>>;

/// A completion. It owns nothing: the compiler then builds it where it stays, in stores that wait for nothing. Copied
/// there from elsewhere, it would wait for the stores before it, and those go to other cores' memory.
#[derive(Clone, Copy)]
struct Entry {
    wc: Wc,
    /// Number of the sender whose requests up to `up_to` are retired when this completion is polled; [`NO_SENDER`]: of
    /// none.
    sender: u32,
    up_to: u32,
}

/// No sender.
const NO_SENDER: u32 = u32::MAX;

impl CqShared {
    pub(crate) fn new(depth: usize) -> CqShared {
        let state = State {
            ready: VecDeque::with_capacity(depth),
            senders: Vec::new(),
            depth,
            reserved: depth,
            lanes: Lanes::new(),
        };
        CqShared {
            state: state.into(),
            waiting: Vec::new().into(),
            waiting_count: 0.into(),
        }
    }

    /// Reserves space for the completions of `count` more outstanding requests, so that pushing never allocates.
    pub(crate) fn reserve(&self, count: usize) {
        let state = &mut *self.state.borrow_mut();
        state.reserved += count;
        if state.ready.is_empty() && state.ready.capacity() < state.reserved {
            state.ready = VecDeque::new(); // growing it would copy its entries, none of which is in use
        }
        state
            .ready
            .reserve(state.reserved.saturating_sub(state.ready.len()));
    }

    /// Adds a queue pair whose requests complete here; returns its number.
    pub(crate) fn add_sender(&self, retired: Retired) -> u32 {
        let senders = &mut self.state.borrow_mut().senders;
        let free = senders.iter().position(Option::is_none);
        let number = free.unwrap_or(senders.len());
        senders.resize(senders.len().max(number + 1), None);
        senders[number] = Some(retired);
        number as u32
    }

    /// Removes the sender with that number. Call it after [`forget`](CqShared::forget).
    pub(crate) fn remove_sender(&self, number: u32) {
        self.state.borrow_mut().senders[number as usize] = None;
    }

    /// Adds the completion of a RECV.
    pub(crate) fn push_received(&self, wc: Wc) {
        let (sender, up_to) = (NO_SENDER, 0);
        let entry = Entry { wc, sender, up_to };
        self.state.borrow_mut().ready.push_back(entry);
    }

    /// Adds the completion of a request of `sender`, up to which its requests are retired once it is polled.
    #[inline(always)]
    pub(crate) fn push_sent(&self, wc: Wc, sender: u32, up_to: u32) {
        self.state
            .borrow_mut()
            .ready
            .push_back(Entry { wc, sender, up_to });
    }

    pub(crate) fn add_lane(&self, inbox: Inbox, dormant: bool) {
        let lanes = &mut self.state.borrow_mut().lanes;
        if dormant {
            lanes.add_dormant(inbox);
        } else {
            lanes.add(inbox);
        }
    }

    /// Drops lanes into `queue` whose senders are gone.
    pub(crate) fn reap(&self, queue: &Queue) {
        self.state.borrow_mut().lanes.reap(queue);
    }

    /// Observes the lane of `queue`, which now has RECVs.
    pub(crate) fn wake_lane(&self, queue: &Queue) {
        self.state.borrow_mut().lanes.wake(queue);
    }

    /// Removes a queue pair that is being destroyed, and returns the space that it reserved.
    pub(crate) fn forget(&self, queue: &Rc<Queue>, count: usize) {
        self.drop_lanes(queue);
        let state = &mut *self.state.borrow_mut();
        let qpn = queue.qpn();
        state.ready.retain(|entry| entry.wc.qpn != qpn);
        state.reserved -= count;
        self.waiting
            .borrow_mut()
            .retain(|other| !Rc::ptr_eq(other, queue));
        self.waiting_count.set(self.waiting.borrow().len());
    }

    /// Drops the lanes into a queue pair that failed, which their senders can see.
    pub(crate) fn drop_lanes(&self, queue: &Queue) {
        self.state.borrow_mut().lanes.remove_all_of(queue);
    }

    /// Drops the lane of `queue` whose sender has this name.
    pub(crate) fn drop_sender(&self, queue: &Queue, sender: Qpn) {
        self.state.borrow_mut().lanes.remove_sender(queue, sender);
    }

    /// Registers `queue` as having waiting requests: polls retry them.
    pub(crate) fn add_waiting(&self, queue: &Rc<Queue>) {
        self.waiting.borrow_mut().push(queue.clone());
        self.waiting_count.set(self.waiting.borrow().len());
    }

    /// Takes the messages that have arrived for queue pairs that use `recvs` and keeps the completions. Messages
    /// without a RECV are dropped now (UD, UC): this is the time of their arrival. If `posted` RECVs may be taken from
    /// here and suffice for all messages, the messages may stay in their lanes.
    #[inline(always)]
    pub(crate) fn ingest(&self, core: &Core, recvs: &Rc<RefCell<RecvQueue>>, posted: u32) {
        if !self.state.borrow().lanes.hold_at_most(posted)
            && let Some(queue) = self.take_for(core, recvs)
        {
            queue.fail();
        }
    }

    #[cold]
    #[inline(never)]
    fn take_for(&self, core: &Core, recvs: &Rc<RefCell<RecvQueue>>) -> Option<Rc<Queue>> {
        let mut failed = None;
        let state = &mut *self.state.borrow_mut();
        for index in (0..state.lanes.len()).rev() {
            if !state.lanes.of_recvs(index, recvs) {
                continue;
            }
            let mut wc = Wc::default();
            while state.ready.len() < state.depth {
                let step = state
                    .lanes
                    .inbox(index)
                    .step(core, &core.tables.borrow(), &mut wc);
                if step.has_completed() {
                    let (sender, up_to) = (NO_SENDER, 0);
                    state.ready.push_back(Entry { wc, sender, up_to });
                }
                match step {
                    Step::Complete | Step::Skip => {}
                    Step::Idle => {
                        state.lanes.refresh(index);
                        break;
                    }
                    Step::Gone => {
                        state.lanes.remove(index);
                        break;
                    }
                    Step::Fail { .. } => {
                        failed = Some(state.lanes.inbox(index).queue().clone());
                        break;
                    }
                }
            }
        }
        failed
    }

    #[cold]
    fn push_on_waiting(&self) {
        let mut index = 0;
        while index < self.waiting.borrow().len() {
            let queue = self.waiting.borrow()[index].clone();
            if queue.push_on() {
                self.waiting
                    .borrow_mut()
                    .retain(|other| !Rc::ptr_eq(other, &queue));
            } else {
                index += 1;
            }
        }
        self.waiting_count.set(self.waiting.borrow().len());
    }
}

impl State {
    /// Moves kept completions to `wcs`; returns their number.
    #[inline(always)]
    fn take_ready(&mut self, wcs: &mut [Wc]) -> usize {
        let n = wcs.len().min(self.ready.len());
        for wc in &mut wcs[..n] {
            let entry = self.ready.pop_front().expect("there are so many");
            *wc = entry.wc;
            if let Some(Some(retired)) = self.senders.get(entry.sender as usize) {
                retired.set(entry.up_to);
            }
        }
        n
    }

    /// Takes messages from lane `index`, then from other lanes that have some, each lane at most once per round. The
    /// second result is a queue pair that must fail.
    fn drain(&mut self, mut index: usize, core: &Core, wcs: &mut [Wc]) -> (usize, Option<Rc<Queue>>) {
        let tables = &*core.tables.borrow();
        let (mut n, mut drops, mut rounds) = (0, 0, self.lanes.len());
        loop {
            let stop = loop {
                let (taken, stop) = self.lanes.inbox(index).take_plain(tables, &mut wcs[n..]);
                n += taken;
                if stop != Stop::Again || taken == 0 {
                    break stop;
                }
            };
            while stop != Stop::Idle && n < wcs.len() && drops < DROPS_PER_POLL {
                let inbox = self.lanes.inbox(index);
                let step = inbox.step(core, tables, &mut wcs[n]);
                n += usize::from(step.has_completed());
                match step {
                    Step::Complete => {}
                    Step::Skip => drops += 1,
                    Step::Idle => break,
                    Step::Gone => {
                        self.lanes.remove(index);
                        return (n, None);
                    }
                    Step::Fail { .. } => return (n, Some(inbox.queue().clone())),
                }
            }
            self.lanes.refresh(index);
            if self.lanes.inbox(index).can_sleep() {
                self.lanes.sleep(index);
            }
            rounds -= 1;
            if rounds == 0 || n == wcs.len() || drops == DROPS_PER_POLL {
                return (n, None);
            }
            match self.lanes.find_news() {
                Some(next) => index = next,
                None => return (n, None),
            }
        }
    }
}

impl CompletionQueue<Shm> for ShmCq {
    #[inline]
    fn poll(&mut self, cpu: &NativeCpu, wcs: &mut [Wc]) -> usize {
        let shared = &*self.shared;
        if shared.waiting_count.get() > 0 {
            shared.push_on_waiting();
        }
        let mut state = shared.state.borrow_mut();
        let mut n = 0;
        if !state.ready.is_empty() {
            n = state.take_ready(wcs);
        }
        if n == wcs.len() {
            return n;
        }
        let Some(index) = state.lanes.find_news() else {
            let departures = self.core.departures.get();
            if state.lanes.is_care_due(departures, cpu.now()) {
                state.lanes.take_care(departures, cpu.now());
            }
            return n;
        };
        let (more, failed) = state.drain(index, &self.core, &mut wcs[n..]);
        drop(state);
        if let Some(queue) = failed {
            queue.fail();
        }
        n + more
    }
}
