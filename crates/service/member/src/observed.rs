//! [`Observed`]: a registry whose answers are watched, for the member's status.

use crate::status::RegistryHealth;
use drover_base::Ns;
use drover_cluster::{Registry, RegistryEvent, RegistryReply, RegistryRequest};

/// A registry, and how it does.
pub(crate) struct Observed<R> {
    registry: R,
    pub(crate) health: RegistryHealth,
    /// Whether it has confirmed that the registration has ended.
    pub(crate) has_left: bool,
}

impl<R: Registry> Observed<R> {
    pub(crate) fn new(registry: R) -> Observed<R> {
        Observed {
            registry,
            health: RegistryHealth::default(),
            has_left: false,
        }
    }

    fn note(&mut self, event: &RegistryEvent, now: Ns) {
        let reply = match event {
            RegistryEvent::Changed(_) => return,
            RegistryEvent::Failed { .. } => {
                if self.health.failures == 0 {
                    tracing::warn!("the registry does not answer");
                }
                self.health.failures += 1;
                return;
            }
            RegistryEvent::Reply { reply, .. } => reply,
        };
        if self.health.failures > 0 {
            let failures = self.health.failures;
            tracing::info!(failures, "the registry answers again");
        }
        self.health.failures = 0;
        self.health.answered_at = Some(now);
        match reply {
            RegistryReply::NameTaken => {
                if !self.health.name_taken {
                    tracing::warn!(
                        "another member has this one's name, or an earlier process of this one whose lease has not run out yet"
                    );
                }
                self.health.name_taken = true;
            }
            RegistryReply::Registered(_) => self.health.name_taken = false,
            RegistryReply::Left => self.has_left = true,
            _ => {}
        }
    }
}

impl<R: Registry> Registry for Observed<R> {
    fn submit(&mut self, now: Ns, ticket: u64, request: RegistryRequest) {
        self.registry.submit(now, ticket, request);
    }

    fn poll(&mut self, now: Ns) -> Option<RegistryEvent> {
        let event = self.registry.poll(now)?;
        self.note(&event, now);
        Some(event)
    }
}
