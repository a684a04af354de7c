//! `get`, `gets`, `gat`, `gats` for one key.

use super::notify;
use crate::decide;
use crate::detail::Seen;
use crate::request::Fetch;
use crate::watch::kind;
use crate::{Core, Counters, Executor, Server};
use drover_base::Cpu;
use drover_net::Output;
use drover_store::{Hint, ItemRef, Key, Mark, ReadOutcome, Sharing};

/// Fetches one key and appends `VALUE` and the value if the key exists, nothing otherwise.
#[inline]
pub(crate) fn fetch<C: Cpu, S: Sharing>(
    executor: &mut Executor<'_, C, S>,
    fetch: Fetch,
    key: Key<'_>,
    hint: Hint,
    output: &mut Output,
) {
    if fetch.touch.is_some() {
        executor.will_change(key.hash, key.bytes);
    }
    let mark = Mark {
        access: true,
        expire_s: fetch.touch.map(|expiry| executor.expire_s(expiry)),
        ..Mark::default()
    };
    let expired = executor.partition.expired();
    let item = executor
        .partition
        .get_and_mark(executor.cpu, key, executor.now_s, hint, |_| mark);
    let is_there = item.is_some();
    let core = &mut *executor.core;
    let asker = (core.watched, core.connection);
    answer(
        executor.server,
        &mut core.counters,
        asker,
        fetch,
        key,
        item,
        output,
    );
    if !is_there && fetch.touch.is_none() {
        core.counters.get_expired += executor.partition.expired() - expired;
    }
}

/// As [`fetch`], of a key of `core`, whose partition is read in place. Returns whether that was possible; if not, nothing
/// has changed.
#[inline]
pub(crate) fn fetch_in_place<C: Cpu, S: Sharing>(
    executor: &mut Executor<'_, C, S>,
    core: usize,
    fetch: Fetch,
    key: Key<'_>,
    output: &mut Output,
) -> bool {
    if fetch.touch.is_some() {
        return false;
    }
    let (cpu, now_s) = (executor.cpu, executor.now_s);
    let Core {
        reads,
        counters,
        watched,
        connection,
        ..
    } = &mut *executor.core;
    let Some((outcome, peer)) = reads.get(core, cpu, key, now_s) else {
        return false;
    };
    let access = Mark {
        access: true,
        ..Mark::default()
    };
    let found = match outcome {
        ReadOutcome::Hit(read) if !read.item.would_change(&access, now_s) => Some(read),
        ReadOutcome::Miss => None,
        ReadOutcome::Hit(_) | ReadOutcome::Unknown => return false,
    };
    peer.count(found.as_ref());
    let item = found.map(|read| read.item);
    answer(
        executor.server,
        counters,
        (*watched, *connection),
        fetch,
        key,
        item,
        output,
    );
    true
}

/// Counts a fetch whose key has `item`, or none, tells watchers, and appends the reply. The connection asks, and
/// `watched` is what any connection watches.
#[inline]
fn answer(
    server: &Server,
    counters: &mut Counters,
    (watched, connection): (u32, u32),
    fetch: Fetch,
    key: Key<'_>,
    item: Option<ItemRef<'_>>,
    output: &mut Output,
) {
    let seen = if item.is_some() { Seen::Hit } else { Seen::Miss };
    server.detail.count(key.bytes, seen);
    match (fetch.touch.is_some(), item.is_some()) {
        (false, true) => {
            (counters.cmd_get, counters.get_hits) = (counters.cmd_get + 1, counters.get_hits + 1)
        }
        (false, false) => {
            (counters.cmd_get, counters.get_misses) = (counters.cmd_get + 1, counters.get_misses + 1)
        }
        (true, true) => {
            (counters.cmd_touch, counters.touch_hits) = (counters.cmd_touch + 1, counters.touch_hits + 1)
        }
        (true, false) => {
            (counters.cmd_touch, counters.touch_misses) = (counters.cmd_touch + 1, counters.touch_misses + 1)
        }
    }
    if watched & kind::FETCHERS != 0 {
        let bytes = item.as_ref().map(ItemRef::value_len);
        notify::fetched(server, connection, key.bytes, bytes);
    }
    if let Some(item) = item {
        write_value(item, key.bytes, fetch.with_cas, output);
    }
}

/// `VALUE <key> <flags> <bytes> [<cas>]`, and the value, built in place.
#[inline]
fn write_value(item: ItemRef<'_>, key: &[u8], with_cas: bool, output: &mut Output) {
    let value = item.value();
    let flags = u64::from(item.flags());
    let numbers = [flags, value.len() as u64, item.cas()];
    let numbers = &numbers[..if with_cas { 3 } else { 2 }];
    let (space, head_len) = decide::value_head(key, numbers, value.len(), |len| output.space(len));
    let end = head_len + value.len();
    value.copy_out(&mut space[head_len..end]);
    space[end..].copy_from_slice(b"\r\n");
}
