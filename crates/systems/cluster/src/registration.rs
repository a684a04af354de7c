//! [`Registration`]: a member's lease, as the member itself counts it.
//!
//! The registry counts the lease from when it executes a renewal; the member counts it from when it *submitted* the renewal, which is earlier, and
//! only two thirds of it. As long as its clock is at least two thirds as fast as the registry's, it has stopped before the registry
//! can give its shards to others. Delays make the member stop earlier, never later.

use crate::MemberId;
use drover_base::{Ns, mix};

/// What a member does when it cannot reach the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnRegistryLoss {
    /// It stops serving after two thirds of its lease, so that no two members ever serve a shard.
    #[default]
    Stop,
    /// It serves on until it learns that it has lost its shards. If others reach the registry and it does not, clients that
    /// still reach it read old values and lose what they write.
    Serve,
}

/// Times of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseTerms {
    /// How long the registry keeps the registration without a renewal. The same for all members.
    pub ttl: Ns,
    /// Time between two renewals. Less than a third of `ttl`, so that one may fail.
    pub renew_every: Ns,
    /// What an outage of the registry means.
    pub on_loss: OnRegistryLoss,
}

impl LeaseTerms {
    /// Time after which a member that could not renew its lease stops: two thirds of it.
    pub fn stop_after(&self) -> Ns {
        Ns(self.ttl.0 / 3 * 2)
    }

    /// Whether a member can renew several times before it stops.
    pub fn are_consistent(&self) -> bool {
        self.renew_every > Ns::ZERO && self.renew_every * 3 < self.ttl
    }
}

impl Default for LeaseTerms {
    fn default() -> LeaseTerms {
        LeaseTerms {
            ttl: Ns::from_s(6),
            renew_every: Ns::from_s(1),
            on_loss: OnRegistryLoss::Stop,
        }
    }
}

/// What a registration needs of the registry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeaseRequest {
    /// To register, with this [`instance`](crate::RegistryRequest::Register::instance).
    Register(u64),
    /// To renew.
    Renew(MemberId),
}

/// The lease of one member. It submits nothing: [`next`](Registration::next) says what is due.
#[derive(Debug)]
pub struct Registration {
    terms: LeaseTerms,
    instance: u64,
    id: Option<MemberId>,
    /// From when on the lease is counted: when the last request that succeeded was submitted; without a registration,
    /// when the first one with this instance was.
    counted_from: Option<Ns>,
    next_at: Ns,
}

impl Registration {
    /// Not registered. `instance` is a random number.
    pub fn new(terms: LeaseTerms, instance: u64) -> Registration {
        Registration {
            terms,
            instance,
            id: None,
            counted_from: None,
            next_at: Ns::ZERO,
        }
    }

    /// The member's identity, if it is registered, as far as it knows.
    pub fn id(&self) -> Option<&MemberId> {
        self.id.as_ref()
    }

    /// What is to be submitted at `now`, if anything is due.
    pub fn next(&mut self, now: Ns) -> Option<LeaseRequest> {
        if now < self.next_at {
            return None;
        }
        self.next_at = now + self.terms.renew_every;
        Some(match &self.id {
            Some(id) => LeaseRequest::Renew(id.clone()),
            None => {
                // A request whose reply was lost may have begun the lease already.
                self.counted_from.get_or_insert(now);
                LeaseRequest::Register(self.instance)
            }
        })
    }

    /// The registry has registered the member with this instance. Returns whether that is news. A request of an earlier instance
    /// may be executed late: its lease began before what is counted now, so it is left to run out.
    pub fn registered(&mut self, instance: u64, id: MemberId) -> bool {
        let is_news = self.id.is_none() && instance == self.instance;
        if is_news {
            self.id = Some(id);
        }
        is_news
    }

    /// The registry has renewed the registration `id`, by a request that was submitted at `submitted_at`.
    pub fn renewed(&mut self, id: &MemberId, submitted_at: Ns) {
        if self.id.as_ref() == Some(id) {
            self.counted_from = self.counted_from.max(Some(submitted_at));
        }
    }

    /// The registry does not know the registration `id`. Returns whether it was the member's: then it is nobody now, and
    /// registers again as another one.
    pub fn lost(&mut self, id: &MemberId) -> bool {
        let is_ours = self.id.as_ref() == Some(id);
        if is_ours {
            *self = Registration::new(self.terms, mix(self.instance.wrapping_add(1)));
        }
        is_ours
    }

    /// Time at which the member stops serving, on its own clock, if nothing else happens.
    pub fn stop_at(&self) -> Ns {
        match (&self.id, self.counted_from, self.terms.on_loss) {
            (None, ..) | (_, None, _) => Ns::ZERO,
            (_, _, OnRegistryLoss::Serve) => Ns::MAX,
            (_, Some(from), OnRegistryLoss::Stop) => from + self.terms.stop_after(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: LeaseTerms = LeaseTerms {
        ttl: Ns::from_ms(300),
        renew_every: Ns::from_ms(50),
        on_loss: OnRegistryLoss::Stop,
    };

    fn id(incarnation: u64) -> MemberId {
        let name = "a".into();
        MemberId { name, incarnation }
    }

    #[test]
    fn a_lease_is_counted_from_when_it_was_asked_for() {
        let mut lease = Registration::new(TERMS, 1);
        assert_eq!(lease.stop_at(), Ns::ZERO);
        assert_eq!(lease.next(Ns::from_ms(10)), Some(LeaseRequest::Register(1)));
        assert_eq!(lease.next(Ns::from_ms(20)), None);
        assert_eq!(
            lease.next(Ns::from_ms(60)),
            Some(LeaseRequest::Register(1)),
            "no reply yet"
        );
        assert_eq!(lease.stop_at(), Ns::ZERO, "not registered");
        assert!(!lease.registered(2, id(3)), "another instance");
        assert!(lease.registered(1, id(4)) && !lease.registered(1, id(4)));
        assert_eq!(
            lease.stop_at(),
            Ns::from_ms(210),
            "the first request may have begun it"
        );
        assert_eq!(lease.next(Ns::from_ms(110)), Some(LeaseRequest::Renew(id(4))));
        lease.renewed(&id(4), Ns::from_ms(110));
        assert_eq!(lease.stop_at(), Ns::from_ms(310));
        lease.renewed(&id(4), Ns::from_ms(100));
        lease.renewed(&id(3), Ns::from_ms(200));
        assert_eq!(lease.stop_at(), Ns::from_ms(310), "late replies change nothing");
    }

    #[test]
    fn a_member_that_lost_its_lease_is_another_one() {
        let mut lease = Registration::new(TERMS, 1);
        lease.next(Ns::ZERO);
        lease.registered(1, id(4));
        assert!(!lease.lost(&id(3)) && lease.lost(&id(4)));
        assert_eq!((lease.id(), lease.stop_at()), (None, Ns::ZERO));
        let need = lease.next(Ns::from_ms(1));
        assert!(matches!(need, Some(LeaseRequest::Register(instance)) if instance != 1));
    }

    #[test]
    fn a_member_that_serves_on_stops_when_it_hears_of_its_loss() {
        let on_loss = OnRegistryLoss::Serve;
        let mut lease = Registration::new(LeaseTerms { on_loss, ..TERMS }, 1);
        lease.next(Ns::ZERO);
        lease.registered(1, id(4));
        assert_eq!(lease.stop_at(), Ns::MAX);
        lease.lost(&id(4));
        assert_eq!(lease.stop_at(), Ns::ZERO);
    }
}
