//! [`LocalRegistry`]: the registry of a service whose members are in one process.

use super::state::RegistryState;
use super::{Registry, RegistryEvent, RegistryRequest};
use drover_base::Ns;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// A registry in the memory of this process. Clones reach the same registry, from any thread; all of them must be given the times of
/// one clock. It never fails.
#[derive(Default)]
pub struct LocalRegistry {
    state: Arc<Mutex<RegistryState>>,
    events: VecDeque<RegistryEvent>,
    /// Revision of the last view that was reported here.
    seen: u64,
}

impl Clone for LocalRegistry {
    /// Another way to the same registry, with events of its own.
    fn clone(&self) -> LocalRegistry {
        LocalRegistry {
            state: self.state.clone(),
            ..LocalRegistry::default()
        }
    }
}

impl LocalRegistry {
    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().expect("no method panics half way")
    }
}

impl Registry for LocalRegistry {
    fn submit(&mut self, now: Ns, ticket: u64, request: RegistryRequest) {
        let reply = self.state().execute(now, request);
        self.events.push_back(RegistryEvent::Reply { ticket, reply });
    }

    fn poll(&mut self, now: Ns) -> Option<RegistryEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let mut state = self.state();
        state.expire(now);
        if state.revision() == self.seen {
            return None;
        }
        let view = state.view();
        drop(state);
        self.seen = view.revision;
        Some(RegistryEvent::Changed(view))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RegistryReply, Transaction};
    use super::*;
    use crate::{Advert, Draft, Map, MemberId, Standing};

    const TTL: Ns = Ns::from_ms(100);

    fn ask(registry: &mut LocalRegistry, now: Ns, request: RegistryRequest) -> RegistryReply {
        registry.submit(now, 7, request);
        loop {
            match registry.poll(now) {
                Some(RegistryEvent::Reply { ticket: 7, reply }) => return reply,
                Some(_) => {}
                None => panic!("no reply"),
            }
        }
    }

    fn register(registry: &mut LocalRegistry, now: Ns, name: &str, instance: u64) -> RegistryReply {
        let advert = Advert::new(name, 1, vec!["shm:x".to_string()]).expect("a sound advert");
        let ttl = TTL;
        let request = RegistryRequest::Register {
            advert,
            instance,
            ttl,
        };
        ask(registry, now, request)
    }

    fn id(reply: RegistryReply) -> MemberId {
        match reply {
            RegistryReply::Registered(id) => id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_name_is_free_again_when_its_lease_has_run_out() {
        let mut registry = LocalRegistry::default();
        let first = id(register(&mut registry, Ns(0), "a", 1));
        assert_eq!(
            register(&mut registry, Ns(5), "a", 1),
            RegistryReply::Registered(first.clone())
        );
        let at = Ns::from_ms(99);
        assert_eq!(register(&mut registry, at, "a", 2), RegistryReply::NameTaken);
        assert_eq!(
            ask(&mut registry, at, RegistryRequest::Renew(first.clone())),
            RegistryReply::Renewed
        );
        let at = Ns::from_ms(198);
        assert_eq!(register(&mut registry, at, "a", 2), RegistryReply::NameTaken);
        let at = Ns::from_ms(199);
        assert_eq!(
            ask(&mut registry, at, RegistryRequest::Renew(first.clone())),
            RegistryReply::LeaseLost
        );
        let second = id(register(&mut registry, at, "a", 2));
        assert!(second.incarnation > first.incarnation);
        assert_eq!(
            ask(&mut registry, at, RegistryRequest::Renew(first.clone())),
            RegistryReply::LeaseLost
        );
        assert_eq!(
            ask(&mut registry, at, RegistryRequest::Leave(first)),
            RegistryReply::Left
        );
        assert_eq!(
            ask(&mut registry, at, RegistryRequest::Renew(second.clone())),
            RegistryReply::Renewed
        );
        assert_eq!(
            ask(&mut registry, at, RegistryRequest::Leave(second)),
            RegistryReply::Left
        );
        id(register(&mut registry, at, "a", 3));
    }

    #[test]
    fn a_transaction_takes_effect_only_if_its_conditions_hold() {
        let mut registry = LocalRegistry::default();
        let a = id(register(&mut registry, Ns(0), "a", 1));
        let stranger = MemberId {
            name: "a".into(),
            incarnation: a.incarnation + 1,
        };
        let mut draft = Draft::after(&Map::none(4));
        let RegistryReply::View(view) = ask(&mut registry, Ns(0), RegistryRequest::Look) else {
            panic!("no view");
        };
        draft.add(view.members[0].clone(), Standing::Joining);
        let map = Arc::new(draft.finish().expect("a change"));
        let mut commit = |alive: &[&MemberId], gone: &[&MemberId]| {
            let copy = |ids: &[&MemberId]| ids.iter().map(|id| (*id).clone()).collect();
            let (alive, gone, map) = (copy(alive), copy(gone), map.clone());
            let transaction = Transaction { map, alive, gone };
            ask(&mut registry, Ns(1), RegistryRequest::Commit(transaction))
        };
        assert_eq!(commit(&[&stranger], &[]), RegistryReply::Conflict);
        assert_eq!(commit(&[&a], &[&a]), RegistryReply::Conflict);
        assert_eq!(commit(&[&a], &[&stranger]), RegistryReply::Committed);
        assert_eq!(
            commit(&[&a], &[]),
            RegistryReply::Conflict,
            "the epoch has passed"
        );
    }

    #[test]
    fn every_clone_hears_of_changes() {
        let mut registry = LocalRegistry::default();
        let mut other = registry.clone();
        assert_eq!(other.poll(Ns(0)), None);
        register(&mut registry, Ns(0), "a", 1);
        assert!(matches!(other.poll(Ns(1)), Some(RegistryEvent::Changed(view)) if view.members.len() == 1));
        assert_eq!(other.poll(Ns(1)), None);
        assert!(matches!(other.poll(TTL), Some(RegistryEvent::Changed(view)) if view.members.is_empty()));
    }
}
