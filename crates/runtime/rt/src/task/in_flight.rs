//! [`InFlight`]: which task waits for which requests, and which tasks are ready.

use super::error::{Failure, WcError};
use super::ready::Ready;
use super::requests::{List, NONE, Requests, Stage};
use drover_base::Ns;
use std::rc::Rc;

/// Requests, the tasks that wait for them, and the queue of ready tasks.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) requests: Requests,
    pub(super) tasks: Vec<TaskState>,
    pub(super) ready: Rc<Ready>,
    /// Number of syncs that wait.
    pub(super) sync_count: u32,
    /// Number of detached requests that have not ended.
    pub(super) detached_count: u32,
    /// Number of detached requests that failed.
    pub(super) detached_failures: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TaskState {
    /// Requests not submitted yet.
    pub(super) staged: List,
    /// Counts the tasks that have had this place.
    pub(super) life: u32,
    /// Number of its detached requests that have not ended.
    pub(super) detached: u32,
    /// The first failure of a detached request since the last drain.
    pub(super) detached_failure: Option<WcError>,
    /// Number of permits and conflict slots that the task holds.
    pub(super) holds: u32,
    /// Time of the timer that is set.
    pub(super) wake_at: Ns,
}

const NEW_TASK: TaskState = TaskState {
    staged: List::EMPTY,
    life: 0,
    detached: 0,
    detached_failure: None,
    holds: 0,
    wake_at: Ns::MAX,
};

impl InFlight {
    pub(super) fn new(task_count_max: usize, inline_bytes: usize) -> InFlight {
        InFlight {
            requests: Requests::new(2 * task_count_max, inline_bytes),
            tasks: vec![NEW_TASK; task_count_max],
            ready: Rc::new(Ready::new(task_count_max)),
            sync_count: 0,
            detached_count: 0,
            detached_failures: 0,
        }
    }

    #[inline(always)]
    pub(super) fn make_ready(&self, task: u32) {
        self.ready.push(task);
    }

    /// Frees the place of a task that has ended.
    pub(super) fn forget_task(&mut self, task: u32) {
        let state = &mut self.tasks[task as usize];
        let life = state.life.wrapping_add(1);
        *state = TaskState { life, ..NEW_TASK };
    }

    /// Takes the staged requests of `task`; returns the first of them.
    #[inline(always)]
    pub(super) fn seal(&mut self, task: u32) -> u32 {
        std::mem::replace(&mut self.tasks[task as usize].staged, List::EMPTY).first
    }

    /// Releases the sync whose head is `first`.
    pub(super) fn release(&mut self, first: u32) {
        if first != NONE && self.requests.slot(first).sync.pending > 0 {
            // It waited until now.
            self.sync_count -= 1;
        }
        self.requests.release(first);
    }

    /// Ends a request; wakes its task after the last one of its sync.
    #[inline]
    pub(super) fn finish(&mut self, slot: u32, result: Result<(), Failure>) {
        let request = self.requests.slot_mut(slot);
        if request.is_abandoned {
            return self.requests.free(slot);
        }
        request.stage = Stage::Done(result);
        let (head, task) = (request.head, request.owner.task);
        if head == NONE {
            return self.finish_detached(slot, result);
        }
        let sync = &mut self.requests.slot_mut(head).sync;
        sync.failed |= result.is_err();
        sync.pending -= 1;
        if sync.pending == 0 {
            self.sync_count -= 1;
            self.make_ready(task);
        }
    }

    fn finish_detached(&mut self, slot: u32, result: Result<(), Failure>) {
        self.end_detached(slot, result);
        self.requests.free(slot);
    }

    /// Notes the end of a detached request, whose slot may still be in use.
    pub(super) fn end_detached(&mut self, slot: u32, result: Result<(), Failure>) {
        self.detached_count -= 1;
        let (ticket, request) = (self.requests.ticket(slot), self.requests.slot(slot));
        let (task, life) = (request.owner.task, request.owner.life);
        let state = &mut self.tasks[task as usize];
        let lives = state.life == life;
        if let Err(failure) = result {
            self.detached_failures += 1;
            let error = WcError { ticket, failure };
            match lives {
                true => _ = state.detached_failure.get_or_insert(error),
                false => {
                    tracing::warn!(%error, peer = request.peer.0, "a request failed that no task waits for")
                }
            }
        }
        if lives {
            state.detached -= 1;
            if state.detached == 0 {
                self.make_ready(task);
            }
        }
    }
}
