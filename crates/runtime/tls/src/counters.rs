//! Counters of handshakes, and the session cache that feeds one of them.

use drover_base::sync::{AtomicU64, Ordering};
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};
use std::sync::Arc;

/// Number of sessions cached for returning clients. A few hundred bytes each.
const SESSIONS_MAX: usize = 20 << 10;

/// Counters of handshakes, over all connections of a [`TlsAcceptor`](crate::TlsAcceptor).
#[derive(Debug, Default)]
pub struct TlsCounters {
    new_sessions: AtomicU64,
    handshake_errors: AtomicU64,
}

impl TlsCounters {
    /// Number of sessions ever put into the cache; 0 without a cache.
    pub fn new_sessions(&self) -> u64 {
        self.new_sessions.load(Ordering::Relaxed)
    }

    /// Number of failed handshakes: another protocol, no common version, a missing or wrong certificate. A client that
    /// hangs up during the handshake does not count.
    pub fn handshake_errors(&self) -> u64 {
        self.handshake_errors.load(Ordering::Relaxed)
    }

    pub(crate) fn handshake_failed(&self) {
        self.handshake_errors.fetch_add(1, Ordering::Relaxed);
    }
}

/// Session cache that counts insertions.
#[derive(Debug)]
pub(crate) struct CountingCache {
    cache: Arc<ServerSessionMemoryCache>,
    counters: Arc<TlsCounters>,
}

impl CountingCache {
    pub(crate) fn new(counters: Arc<TlsCounters>) -> CountingCache {
        CountingCache {
            cache: ServerSessionMemoryCache::new(SESSIONS_MAX),
            counters,
        }
    }
}

impl StoresServerSessions for CountingCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let kept = self.cache.put(key, value);
        self.counters
            .new_sessions
            .fetch_add(u64::from(kept), Ordering::Relaxed);
        kept
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.take(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}
