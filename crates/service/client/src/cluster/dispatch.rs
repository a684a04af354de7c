//! [`Dispatch`]: the operations that are not complete, and when they are sent again.

use super::MapSource;
use super::operations::Operations;
use drover_base::{Cpu, Ns};
use drover_cluster::{Epoch, Map, Redirect, Redirects, RegistryEvent, RegistryReply, RegistryRequest, View};
use drover_kv::{Completion, Outcome, Refusal};
use drover_mem::NativeCpu;
use std::sync::Arc;

/// Longest pause before an operation is sent again.
const PAUSE_MAX: Ns = Ns::from_ms(64);
/// Shortest time between two questions to the registry, which reports changes by itself, too.
const ASK_EVERY: Ns = Ns::from_ms(10);

/// Everything but the clients of the members.
pub(super) struct Dispatch {
    registry: Box<dyn MapSource>,
    pub(super) redirects: Redirects,
    pub(super) operations: Operations,
    pub(super) cpu: NativeCpu,
    /// Time after which an operation that nobody has executed is given up.
    pub(super) deadline: Ns,
    ask_at: Ns,
}

impl Dispatch {
    pub(super) fn new(registry: Box<dyn MapSource>, map: Arc<Map>, deadline: Ns) -> Dispatch {
        let cpu = NativeCpu::new(0);
        cpu.refresh();
        Dispatch {
            registry,
            redirects: Redirects::new(map),
            operations: Operations::new(),
            cpu,
            deadline,
            ask_at: Ns::ZERO,
        }
    }

    /// Has an operation sent again as `redirect` says. The deadline alone gives it up.
    pub(super) fn send_later(&mut self, index: usize, redirect: Redirect) {
        let now = self.cpu.now();
        let pause = match redirect {
            Redirect::Again => Ns::ZERO,
            Redirect::Pause(pause) | Redirect::Refresh(pause) => pause.min(PAUSE_MAX),
            Redirect::GiveUp => PAUSE_MAX,
        };
        if matches!(redirect, Redirect::Refresh(_) | Redirect::GiveUp) && now >= self.ask_at {
            self.ask_at = now + ASK_EVERY;
            self.registry.submit(now, 1, RegistryRequest::Look);
        }
        self.operations.is_due_at(index, now + pause);
    }

    /// Takes an outcome from the client of a member. Returns whether the operation is complete.
    pub(super) fn take(&mut self, completion: Completion<'_>, sink: &mut dyn FnMut(Completion<'_>)) -> bool {
        let index = completion.token as usize;
        let now = self.cpu.now();
        let Some(operation) = self.operations.get_mut(index) else {
            return false;
        };
        let attempts = &mut operation.attempts;
        let redirect = match completion.outcome {
            Outcome::Refused(Refusal::NotServed(theirs)) => {
                self.redirects
                    .elsewhere(attempts, operation.sent_under, Epoch(theirs))
            }
            // Its member was given up before it executed the operation.
            Outcome::Refused(Refusal::Unavailable) if now.since(operation.submitted) < self.deadline => {
                self.redirects.nowhere(attempts)
            }
            outcome => {
                self.complete(index, outcome, sink);
                return true;
            }
        };
        self.send_later(index, redirect);
        false
    }

    pub(super) fn complete(
        &mut self,
        index: usize,
        outcome: Outcome<'_>,
        sink: &mut dyn FnMut(Completion<'_>),
    ) {
        let Some(operation) = self.operations.get_mut(index) else {
            return;
        };
        let token = operation.token;
        self.operations.end(index, self.cpu.now());
        sink(Completion { token, outcome });
    }

    /// Takes what the registry has reported. Returns whether there is a newer map.
    pub(super) fn follow_registry(&mut self) -> bool {
        let (now, mut is_newer) = (self.cpu.now(), false);
        while let Some(event) = self.registry.poll(now) {
            if let RegistryEvent::Changed(View { map: Some(map), .. })
            | RegistryEvent::Reply {
                reply: RegistryReply::View(View { map: Some(map), .. }),
                ..
            } = event
            {
                is_newer |= self.redirects.learn(&map);
            }
        }
        if is_newer {
            self.operations.hurry(now);
        }
        is_newer
    }
}
