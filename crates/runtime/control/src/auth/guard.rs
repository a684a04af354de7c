//! [`Guard`]: who is let in at a listener, how fast somebody may guess, and how often somebody guessed wrong.

use crate::Peer;
use drover_base::Ns;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Time that a caller waits after its first wrong secret; it doubles with each further one.
const DELAY_MIN: Ns = Ns::from_ms(50);
/// Longest such time.
const DELAY_MAX: Ns = Ns::from_s(1);
/// Time after which a caller's wrong secrets are forgotten.
const FORGET_AFTER: Ns = Ns::from_s(10);
/// Most callers whose wrong secrets are remembered; a further one replaces the oldest.
const CALLERS_MAX: usize = 256;

/// The users that a listener lets in.
pub trait Users: Send + Sync {
    /// Calls `found` with each secret of `user`; not at all if there is no such user.
    fn each_secret(&self, user: &[u8], found: &mut dyn FnMut(&[u8]));
}

/// A peer, as far as guesses are concerned: its connections and ports do not matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    /// A user of this machine.
    User(u32),
    /// A host; of an IPv6 address the first 64 bits, because a host may have all others.
    Host(IpAddr),
    /// Nobody knows.
    Unknown,
}

impl Caller {
    pub(crate) fn of(peer: Peer) -> Caller {
        match peer {
            Peer::Process(cred) => Caller::User(cred.uid),
            Peer::Host(addr) => Caller::of_host(Some(addr.ip())),
            Peer::ThisProcess | Peer::Unknown => Caller::Unknown,
        }
    }

    fn of_host(ip: Option<IpAddr>) -> Caller {
        match ip.map(|ip| ip.to_canonical()) {
            Some(IpAddr::V6(v6)) => Caller::Host(IpAddr::V6((u128::from(v6) >> 64 << 64).into())),
            Some(v4) => Caller::Host(v4),
            None => Caller::Unknown,
        }
    }
}

/// Wrong secrets of a caller.
#[derive(Clone, Copy, Debug)]
struct Record {
    caller: Caller,
    count: u32,
    /// Its next secret is not looked at before.
    until: Ns,
}

/// Guards listeners: knows the users, slows callers that guess, and counts wrong secrets. All methods take a moment;
/// nobody is made to wait inside them.
pub struct Guard {
    users: Arc<dyn Users>,
    failures: AtomicU64,
    records: Mutex<Vec<Record>>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

impl Guard {
    /// Creates a guard that lets in `users`.
    pub fn new(users: Arc<dyn Users>) -> Arc<Guard> {
        Arc::new(Guard {
            users,
            failures: AtomicU64::new(0),
            records: Mutex::default(),
        })
    }

    /// Number of wrong secrets so far.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// For a listener with a protocol of its own: time from which on a secret of the host `ip` may be
    /// [judged](Guard::judge_host); at most a second from `now`. Without an address it is this machine.
    pub fn host_may_try_at(&self, ip: impl Into<Option<IpAddr>>, now: Ns) -> Ns {
        self.may_try_at(Caller::of_host(ip.into()), now)
    }

    /// For a listener with a protocol of its own: whether `secret` is one of `user`'s. Takes as long wherever the first
    /// difference is. A wrong one is counted, and slows the host `ip`.
    pub fn judge_host(&self, ip: impl Into<Option<IpAddr>>, user: &[u8], secret: &[u8], now: Ns) -> bool {
        // The HMACs of both, which have one length, are compared.
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &super::handshake::nonce());
        let given = ring::hmac::sign(&key, secret);
        let mut is_good = false;
        self.users.each_secret(user, &mut |secret| {
            is_good |= ring::hmac::verify(&key, secret, given.as_ref()).is_ok();
        });
        if !is_good {
            self.failed(Caller::of_host(ip.into()), now);
        }
        is_good
    }

    pub(crate) fn each_secret(&self, user: &[u8], found: &mut dyn FnMut(&[u8])) {
        self.users.each_secret(user, found);
    }

    /// Time from which on a secret of `caller` may be looked at; `now` for most callers.
    pub(crate) fn may_try_at(&self, caller: Caller, now: Ns) -> Ns {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let until = records.iter().find(|record| record.caller == caller);
        until.map_or(now, |record| record.until.clamp(now, now + DELAY_MAX))
    }

    /// Counts a wrong secret of `caller`, and slows it.
    pub(crate) fn failed(&self, caller: Caller, now: Ns) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.retain(|record| now < record.until + FORGET_AFTER);
        let index = records.iter().position(|record| record.caller == caller);
        let count = index.map_or(0, |index| records.swap_remove(index).count);
        if records.len() == CALLERS_MAX {
            let oldest = (0..CALLERS_MAX).min_by_key(|&index| records[index].until);
            oldest.map(|index| records.swap_remove(index));
        }
        let delay = Ns(DELAY_MIN.0 << count.min(8)).min(DELAY_MAX);
        records.push(Record {
            caller,
            count: count.saturating_add(1),
            until: now + delay,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Credentials;

    fn guard() -> Arc<Guard> {
        Guard::new(Arc::new(Credentials::parse(b"me:secret").expect("credentials")))
    }

    #[test]
    fn guesses_slow_their_caller_and_nobody_else() {
        let (guard, now) = (guard(), Ns::from_s(100));
        let (bad, good) = (Caller::User(1), Caller::User(2));
        let mut delays = Vec::new();
        for _ in 0..100 {
            guard.failed(bad, now);
            delays.push(guard.may_try_at(bad, now).since(now));
        }
        assert_eq!(delays[..3], [DELAY_MIN, DELAY_MIN * 2, DELAY_MIN * 4]);
        assert_eq!(delays[99], DELAY_MAX);
        assert_eq!(guard.may_try_at(good, now), now);
        assert_eq!(guard.failures(), 100);
        let later = now + DELAY_MAX + FORGET_AFTER;
        guard.failed(bad, later);
        assert_eq!(
            guard.may_try_at(bad, later).since(later),
            DELAY_MIN,
            "it is forgotten"
        );
    }

    #[test]
    fn as_many_callers_as_there_are_leave_the_memory_bounded() {
        let guard = guard();
        for uid in 0..10_000 {
            guard.failed(Caller::User(uid), Ns(u64::from(uid)));
        }
        assert_eq!(guard.records.lock().expect("no panic").len(), CALLERS_MAX);
    }

    #[test]
    fn addresses_of_one_host_are_one_caller() {
        let host = |text: &str| Caller::of_host(Some(text.parse().expect("an address")));
        assert_eq!(host("2001:db8::1"), host("2001:db8::ffff:0:2"));
        assert_ne!(host("2001:db8::1"), host("2001:db8:0:1::1"));
        assert_eq!(host("::ffff:10.0.0.1"), host("10.0.0.1"));
        assert_ne!(host("10.0.0.2"), host("10.0.0.1"));
    }

    #[test]
    fn secrets_of_other_protocols_are_judged_whole() {
        let (guard, now) = (guard(), Ns::from_s(1));
        let ip: IpAddr = "10.0.0.1".parse().expect("an address");
        assert!(guard.judge_host(ip, b"me", b"secret", now));
        for (user, secret) in [
            ("me", ""),
            ("me", "secre"),
            ("me", "secrets"),
            ("you", "secret"),
            ("", ""),
        ] {
            assert!(!guard.judge_host(ip, user.as_bytes(), secret.as_bytes(), now));
        }
        assert_eq!(guard.failures(), 5);
        assert!(guard.host_may_try_at(ip, now) > now);
    }
}
