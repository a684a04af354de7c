//! Notifications to `watch` connections. All code here is cold: connections rarely watch.

use crate::watch::{Shown, Watchers, kind};
use crate::{Executor, Server};
use drover_base::Cpu;
use drover_store::{ExtraOutcome, ExtraPut, Key, Mark, Sharing};

/// The connection `cfd` requested a key; `bytes` is the length of its value, if there was one.
#[cold]
#[inline(never)]
pub(super) fn fetched(server: &Server, cfd: u32, key: &[u8], bytes: Option<usize>) {
    let (status, class) = match bytes {
        Some(_) => ("found", 1),
        None => ("not_found", 0),
    };
    let (key, size) = (Shown(key), bytes.unwrap_or(0));
    server.watchers.notify(
        kind::FETCHERS,
        format_args!("type=item_get key={key} status={status} clsid={class} cfd={cfd} size={size}"),
    );
}

/// A key was deleted.
#[cold]
#[inline(never)]
pub(super) fn deleted(watchers: &Watchers, cfd: u32, key: &[u8], command: &str) {
    let key = Shown(key);
    watchers.notify(
        kind::DELETIONS,
        format_args!("type=deleted key={key} cmd={command} clsid=1 cfd={cfd}"),
    );
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Called before a value is stored: memcached looks its key up and reports that.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_lookup(&mut self, key: Key<'_>) {
        let mut bytes = None;
        self.partition.mark(self.cpu, key, self.now_s, |item| {
            bytes = Some(item.value_len());
            Mark::default()
        });
        fetched(self.server, self.core.connection, key.bytes, bytes);
    }

    /// Called after `command` stored a value or failed to.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_stored(
        &mut self,
        key: Key<'_>,
        put: &ExtraPut<'_>,
        command: &str,
        outcome: ExtraOutcome,
    ) {
        let status = match outcome {
            ExtraOutcome::Stored { .. } => "stored",
            ExtraOutcome::Full => "no_memory",
            ExtraOutcome::TooLarge => "too_large",
            ExtraOutcome::Present { .. } if command == "cas" => "exists",
            ExtraOutcome::Absent if command == "cas" => "not_found",
            ExtraOutcome::Present { .. } | ExtraOutcome::Absent => "not_stored",
        };
        if self.core.watched & kind::EVICTIONS != 0 {
            self.tell_evicted();
        }
        let ttl = put.expire_s.saturating_sub(self.now_s);
        let size: usize = put.value.iter().map(|piece| piece.len()).sum();
        let (key, cfd) = (Shown(key.bytes), self.core.connection);
        self.server.watchers.notify(
            kind::MUTATIONS,
            format_args!(
                "type=item_store key={key} status={status} cmd={command} ttl={ttl} clsid=1 cfd={cfd} size={size}"
            ),
        );
    }
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Called when the watched kinds change, or when a step begins while a connection watches: sets the time, and
    /// reports evicted items.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_watched_step(&mut self, kinds: u32) {
        self.core.watched = kinds;
        let watches = kinds & kind::EVICTIONS != 0;
        if watches {
            self.partition.watch_evictions();
        } else {
            self.partition.unwatch_evictions();
        }
        if kinds != 0 {
            let seconds = self.server.start_unix_s + u64::from(self.now_s);
            let micros = self.cpu.now().0 / 1000 % 1_000_000;
            self.server.watchers.set_time(seconds * 1_000_000 + micros);
        }
        if watches {
            self.tell_evicted();
        }
    }

    /// Reports the items evicted since the last call.
    #[cold]
    #[inline(never)]
    pub(crate) fn tell_evicted(&mut self) {
        for item in self.partition.take_evicted() {
            if item.expire_s != 0 && item.expire_s <= self.now_s {
                continue; // It had expired anyway.
            }
            let fetched = if item.fetched { "yes" } else { "no" };
            let ttl = match item.expire_s {
                0 => -1,
                expire_s => i64::from(expire_s - self.now_s),
            };
            let idle = self.now_s.saturating_sub(item.accessed_s);
            let (key, size) = (Shown(&item.key), item.value_len);
            self.server.watchers.notify(
                kind::EVICTIONS,
                format_args!(
                    "type=eviction key={key} fetch={fetched} ttl={ttl} la={idle} clsid=1 size={size}"
                ),
            );
        }
    }
}
