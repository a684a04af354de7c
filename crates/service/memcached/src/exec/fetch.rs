//! `get`, `gets`, `gat`, `gats` for one key.

use super::notify;
use crate::Executor;
use crate::detail::Seen;
use crate::line::{digits, write_number};
use crate::request::Fetch;
use crate::watch::kind;
use drover_base::Cpu;
use drover_net::Output;
use drover_store::{Hint, ItemRef, Key, Mark};

/// Fetches one key and appends `VALUE` and the value if the key exists, nothing otherwise.
#[inline]
pub(crate) fn fetch<C: Cpu>(
    executor: &mut Executor<'_, C>,
    fetch: Fetch,
    key: Key<'_>,
    hint: Hint,
    output: &mut Output,
) {
    let mark = Mark {
        access: true,
        expire_s: fetch.touch.map(|expiry| executor.expire_s(expiry)),
        ..Mark::default()
    };
    let expired = executor.partition.expired();
    let item = executor
        .partition
        .get_and_mark(executor.cpu, key, executor.now_s, hint, |_| mark);
    let seen = if item.is_some() { Seen::Hit } else { Seen::Miss };
    executor.server.detail.count(key.bytes, seen);
    let counters = &mut executor.core.counters;
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
    if executor.core.watched & kind::FETCHERS != 0 {
        let bytes = item.as_ref().map(ItemRef::value_len);
        notify::fetched(executor.server, executor.core.connection, key.bytes, bytes);
    }
    if let Some(item) = item {
        write_value(item, key.bytes, fetch.with_cas, output);
    } else if fetch.touch.is_none() {
        counters.get_expired += executor.partition.expired() - expired;
    }
}

/// `VALUE <key> <flags> <bytes> [<cas>]`, and the value, built in place.
#[inline]
fn write_value(item: ItemRef<'_>, key: &[u8], with_cas: bool, output: &mut Output) {
    let value = item.value();
    let flags = u64::from(item.flags());
    let numbers = [flags, value.len() as u64, item.cas()];
    let numbers = &numbers[..if with_cas { 3 } else { 2 }];
    let header_len = 6 + key.len() + numbers.iter().map(|&number| 1 + digits(number)).sum::<usize>() + 2;
    let space = output.space(header_len + value.len() + 2);
    space[..6].copy_from_slice(b"VALUE ");
    space[6..6 + key.len()].copy_from_slice(key);
    let mut at = 6 + key.len();
    for &number in numbers {
        space[at] = b' ';
        let end = at + 1 + digits(number);
        write_number(number, &mut space[at + 1..end]);
        at = end;
    }
    space[at..at + 2].copy_from_slice(b"\r\n");
    let end = header_len + value.len();
    value.copy_out(&mut space[header_len..end]);
    space[end..].copy_from_slice(b"\r\n");
}
