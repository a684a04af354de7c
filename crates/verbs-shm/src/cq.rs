//! [`ShmCq`]: completions, and the lanes they come from.

use crate::Shm;
use crate::core::{Core, Tables};
use crate::inbox::{Inbox, Step};
use crate::qp::Queue;
use crate::recv::RecvQueue;
use drover_mem::NativeCpu;
use drover_verbs::{CompletionQueue, Wc};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// A completion queue. Polling it is what moves messages from lanes to RECVs.
pub struct ShmCq {
    pub(crate) core: Rc<Core>,
    pub(crate) shared: Rc<CqShared>,
}

/// What the queue pairs of a completion queue share with it.
pub(crate) struct CqShared {
    state: RefCell<State>,
    /// Queue pairs with requests that wait for a RECV or for room.
    waiting: RefCell<Vec<Rc<Queue>>>,
    waiting_count: Cell<usize>,
}

struct State {
    /// Completions not yet polled.
    ready: VecDeque<Entry>,
    /// Completions that lanes may add before somebody polls; the rest of the capacity is for send queues.
    depth: usize,
    reserved: usize,
    /// Lanes into queue pairs that complete here.
    inboxes: Vec<Inbox>,
    /// Where the next sweep starts: no lane is served twice while another waits.
    next: usize,
}

struct Entry {
    wc: Wc,
    /// Polling it frees the send queue of this queue pair up to this request.
    retires: Option<(Rc<Queue>, u32)>,
}

impl CqShared {
    pub(crate) fn new(depth: usize) -> CqShared {
        let state = State {
            ready: VecDeque::with_capacity(depth),
            depth,
            reserved: depth,
            inboxes: Vec::new(),
            next: 0,
        };
        CqShared {
            state: state.into(),
            waiting: Vec::new().into(),
            waiting_count: 0.into(),
        }
    }

    /// Makes room for what `count` more outstanding requests may complete, so that pushing never allocates.
    pub(crate) fn reserve(&self, count: usize) {
        let state = &mut *self.state.borrow_mut();
        state.reserved += count;
        state
            .ready
            .reserve(state.reserved.saturating_sub(state.ready.len()));
    }

    pub(crate) fn push(&self, wc: Wc, retires: Option<(Rc<Queue>, u32)>) {
        self.state.borrow_mut().ready.push_back(Entry { wc, retires });
    }

    pub(crate) fn add_inbox(&self, inbox: Inbox) {
        self.state.borrow_mut().inboxes.push(inbox);
    }

    /// Forgets everything of a queue pair that is being destroyed, and gives back the room it had.
    pub(crate) fn forget(&self, queue: &Rc<Queue>, count: usize) {
        let state = &mut *self.state.borrow_mut();
        state.inboxes.retain(|inbox| !Rc::ptr_eq(inbox.queue(), queue));
        let qpn = queue.qpn();
        state.ready.retain(|entry| entry.wc.qpn != qpn);
        state.reserved -= count;
        self.waiting
            .borrow_mut()
            .retain(|other| !Rc::ptr_eq(other, queue));
        self.waiting_count.set(self.waiting.borrow().len());
    }

    /// Lets go of the lanes into a queue pair that failed: their senders see it.
    pub(crate) fn drop_inboxes(&self, queue: &Queue) {
        self.state
            .borrow_mut()
            .inboxes
            .retain(|inbox| !std::ptr::eq(&**inbox.queue(), queue));
    }

    /// `queue` has requests that wait: polls push them on.
    pub(crate) fn add_waiting(&self, queue: &Rc<Queue>) {
        self.waiting.borrow_mut().push(queue.clone());
        self.waiting_count.set(self.waiting.borrow().len());
    }

    /// Takes what has arrived for queue pairs that use `recvs` and keeps the completions. Messages that find no
    /// RECV are dropped now (UD, UC): this is their arrival.
    #[inline]
    pub(crate) fn ingest(&self, core: &Core, recvs: &Rc<RefCell<RecvQueue>>) {
        let mut failed = None;
        {
            let state = &mut *self.state.borrow_mut();
            let tables = core.tables.borrow();
            let (ready, depth) = (&mut state.ready, state.depth);
            let mut index = 0;
            while let Some(inbox) = state.inboxes.get_mut(index) {
                index += 1;
                if !Rc::ptr_eq(inbox.queue().recvs(), recvs) {
                    continue;
                }
                while ready.len() < depth {
                    match inbox.step(core, &tables) {
                        Step::Idle => break,
                        Step::Skip => {}
                        Step::Complete(wc) => ready.push_back(Entry { wc, retires: None }),
                        Step::Fail(wc) => {
                            ready.extend(wc.map(|wc| Entry { wc, retires: None }));
                            failed = Some(inbox.queue().clone());
                            break;
                        }
                        Step::Gone => {
                            index -= 1;
                            state.inboxes.swap_remove(index);
                            break;
                        }
                    }
                }
            }
        }
        if let Some(queue) = failed {
            queue.fail();
        }
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
    /// Takes kept completions.
    #[inline]
    fn take_ready(&mut self, wcs: &mut [Wc]) -> usize {
        let mut n = 0;
        while n < wcs.len()
            && let Some(entry) = self.ready.pop_front()
        {
            wcs[n] = entry.wc;
            n += 1;
            if let Some((queue, up_to)) = entry.retires {
                queue.retire(up_to);
            }
        }
        n
    }

    /// Looks at every lane once round, draining each, until `wcs` is full.
    #[inline]
    fn sweep(
        &mut self,
        core: &Core,
        tables: &Tables,
        wcs: &mut [Wc],
        failed: &mut Option<Rc<Queue>>,
    ) -> usize {
        let (mut n, mut left) = (0, self.inboxes.len());
        while left > 0 && n < wcs.len() {
            if self.next >= self.inboxes.len() {
                self.next = 0;
            }
            let inbox = &mut self.inboxes[self.next];
            match inbox.step(core, tables) {
                Step::Complete(wc) => {
                    wcs[n] = wc;
                    n += 1;
                    continue;
                }
                Step::Skip => continue,
                Step::Fail(wc) => {
                    if let Some(wc) = wc {
                        wcs[n] = wc;
                        n += 1;
                    }
                    *failed = Some(inbox.queue().clone());
                    return n;
                }
                Step::Gone => {
                    self.inboxes.swap_remove(self.next);
                }
                Step::Idle => self.next += 1,
            }
            left -= 1;
        }
        n
    }
}

impl CompletionQueue<Shm> for ShmCq {
    fn poll(&mut self, _cpu: &NativeCpu, wcs: &mut [Wc]) -> usize {
        if self.shared.waiting_count.get() > 0 {
            self.shared.push_on_waiting();
        }
        let mut failed = None;
        let n = {
            let state = &mut *self.shared.state.borrow_mut();
            let n = if state.ready.is_empty() {
                0
            } else {
                state.take_ready(wcs)
            };
            n + state.sweep(&self.core, &self.core.tables.borrow(), &mut wcs[n..], &mut failed)
        };
        if let Some(queue) = failed {
            queue.fail();
        }
        n
    }
}
