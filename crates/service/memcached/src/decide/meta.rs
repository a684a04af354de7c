//! `mg`, `ms`, `md`, `ma`. Returned flags are in the order of the request's flags.

use crate::line::{LineBuffer, digits};
use crate::parse::base64::{self, TEXT_BYTES_MAX};
use crate::parse::scan;
use crate::request::{Meta, MetaKind};
use drover_base::Condition;
use drover_store::{ExtraOutcome, ItemRef, Join};

/// What the reply to a meta command may say of an item.
pub trait ItemFacts {
    /// Length of its value, bytes.
    fn value_len(&self) -> usize;
    /// The client's flags.
    fn flags(&self) -> u32;
    /// Its CAS.
    fn cas(&self) -> u64;
    /// Second in which it expires; 0: never.
    fn expire_s(&self) -> u32;
    /// Second in which it was last accessed.
    fn accessed_s(&self) -> u32;
    /// Whether it was fetched since it was stored.
    fn is_fetched(&self) -> bool;
    /// Whether a client has been told to store it anew.
    fn is_won(&self) -> bool;
    /// Whether it was marked as stale.
    fn is_stale(&self) -> bool;
}

impl ItemFacts for ItemRef<'_> {
    #[inline(always)]
    fn value_len(&self) -> usize {
        ItemRef::value_len(self)
    }

    #[inline(always)]
    fn flags(&self) -> u32 {
        ItemRef::flags(self)
    }

    #[inline(always)]
    fn cas(&self) -> u64 {
        ItemRef::cas(self)
    }

    #[inline(always)]
    fn expire_s(&self) -> u32 {
        ItemRef::expire_s(self)
    }

    #[inline(always)]
    fn accessed_s(&self) -> u32 {
        ItemRef::accessed_s(self)
    }

    #[inline(always)]
    fn is_fetched(&self) -> bool {
        ItemRef::is_fetched(self)
    }

    #[inline(always)]
    fn is_won(&self) -> bool {
        ItemRef::is_won(self)
    }

    #[inline(always)]
    fn is_stale(&self) -> bool {
        ItemRef::is_stale(self)
    }
}

/// An `mg` about to be answered. Times are seconds since the server's start.
#[derive(Clone, Copy, Debug)]
pub struct MetaGet<'a> {
    /// The command.
    pub meta: &'a Meta<'a>,
    /// Its key, decoded.
    pub key: &'a [u8],
    /// The current time.
    pub now_s: u32,
    /// Flag `T`.
    pub expiry_s: u32,
    /// Flag `N`.
    pub vivify_s: u32,
    /// Flag `R`.
    pub recache_s: u32,
    /// This request created the item.
    pub created: bool,
}

/// Change that an `mg` makes to its item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetaChange {
    /// New second in which it expires, if that changes.
    pub expire_s: Option<u32>,
    /// Whether this client is told to store it anew.
    pub wins: bool,
}

impl MetaGet<'_> {
    /// Writes the reply's line from `item` as it was before the request; returns the change to make to it.
    #[inline]
    pub fn write(&self, item: &impl ItemFacts, line: &mut LineBuffer) -> MetaChange {
        let meta = self.meta;
        match meta.has(b'v') {
            true => line.start(b"VA ").number(item.value_len() as u64),
            false => line.start(b"HD"),
        };
        let mut expire_s = item.expire_s();
        let (is_won, mut wins) = (item.is_won(), false);
        for flag in scan::Words::new(meta.flags) {
            match flag[0] {
                b'T' => expire_s = self.expiry_s,
                b'N' if self.created => (expire_s, wins) = (self.vivify_s, true),
                b'R' => wins |= !is_won && !self.created && expire_s != 0 && expire_s < self.recache_s,
                b's' => _ = line.flag(b's', item.value_len() as u64),
                b't' => time_left(line, expire_s, self.now_s),
                b'c' => _ = line.flag(b'c', item.cas()),
                b'f' => _ = line.flag(b'f', u64::from(item.flags())),
                b'l' => _ = line.flag(b'l', u64::from(self.now_s.saturating_sub(item.accessed_s()))),
                b'h' => _ = line.flag(b'h', u64::from(item.is_fetched())),
                _ => repeat(line, flag, meta, self.key),
            }
        }
        if is_won {
            line.push(b" Z");
        }
        if item.is_stale() {
            line.push(b" X");
            wins |= !is_won;
        }
        if wins {
            line.push(b" W");
        }
        line.push(b"\r\n");
        MetaChange {
            expire_s: (expire_s != item.expire_s()).then_some(expire_s),
            wins,
        }
    }
}

/// What an `ms` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetaSet {
    /// How the new value is joined with the old one.
    pub join: Join,
    /// Condition under which it stores.
    pub condition: Condition,
    /// Whether a CAS may also be older than the item's.
    pub or_older: bool,
    /// Whether it is a `cas`.
    compares: bool,
}

impl MetaSet {
    /// Reads the mode and flag `C`.
    #[inline]
    pub fn of(meta: &Meta<'_>) -> MetaSet {
        let joins = matches!(meta.mode, b'A' | b'P');
        let compares = meta.has(b'C') && !joins && meta.mode != b'E';
        let condition = match meta.mode {
            b'E' => Condition::IfAbsent,
            _ if compares => Condition::IfVersion(meta.cas),
            b'A' | b'P' if meta.cas != 0 => Condition::IfVersion(meta.cas),
            b'A' | b'P' | b'R' => Condition::IfPresent,
            _ => Condition::Always,
        };
        MetaSet {
            join: match meta.mode {
                b'A' => Join::Append,
                b'P' => Join::Prepend,
                _ => Join::Replace,
            },
            condition,
            // No item has CAS 0, and 0 is older than every CAS.
            or_older: compares && meta.has(b'I') && meta.cas != 0,
            compares,
        }
    }

    /// Whether it joins its value with the old one.
    #[inline]
    pub fn joins(&self) -> bool {
        self.join != Join::Replace
    }

    /// Name of the classic command that does the same.
    #[inline]
    pub fn classic_name(&self, meta: &Meta<'_>) -> &'static str {
        match meta.mode {
            b'E' => "add",
            b'A' => "append",
            b'P' => "prepend",
            b'R' => "replace",
            _ if self.compares => "cas",
            _ => "set",
        }
    }

    /// Status of the reply.
    ///
    /// # Errors
    /// The reply is this line.
    #[inline]
    pub fn status(&self, meta: &Meta<'_>, outcome: ExtraOutcome) -> Result<&'static [u8], &'static [u8]> {
        let (compares, joins) = (self.compares, self.joins());
        Ok(match outcome {
            ExtraOutcome::Stored { .. } => b"HD",
            ExtraOutcome::Present { .. } if compares || (joins && meta.has(b'C')) => b"EX",
            ExtraOutcome::Absent if compares => b"NF",
            ExtraOutcome::Present { .. } | ExtraOutcome::Absent => b"NS",
            ExtraOutcome::TooLarge if joins => b"NS",
            ExtraOutcome::TooLarge => return Err(super::TOO_LARGE_LINE),
            ExtraOutcome::Full => return Err(super::NO_MEMORY),
        })
    }
}

/// Result of an `ma`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetaSum {
    /// The new number.
    pub value: u64,
    /// The item's CAS.
    pub cas: u64,
    /// Second in which the item expires without flags `T` and `N`; 0: never.
    pub expire_s: u32,
    /// Whether this request created the item.
    pub created: bool,
}

/// Writes the reply to an `ma`; returns the second in which the item expires from now on. `times`: flags `T` and `N`, and
/// the current time, in seconds since the server's start.
#[inline]
pub fn sum_line(
    line: &mut LineBuffer,
    meta: &Meta<'_>,
    key: &[u8],
    sum: &MetaSum,
    (expiry_s, vivify_s, now_s): (u32, u32, u32),
) -> u32 {
    match meta.has(b'v') {
        true => line.start(b"VA ").number(digits(sum.value) as u64),
        false => line.start(b"HD"),
    };
    let mut expire_s = sum.expire_s;
    for flag in scan::Words::new(meta.flags) {
        match flag[0] {
            b'T' => expire_s = expiry_s,
            b'N' if sum.created => expire_s = vivify_s,
            b't' => time_left(line, expire_s, now_s),
            b'c' => _ = line.flag(b'c', sum.cas),
            _ => repeat(line, flag, meta, key),
        }
    }
    line.push(b"\r\n");
    if meta.has(b'v') {
        line.number(sum.value).push(b"\r\n");
    }
    expire_s
}

/// Writes a line of a status, the flags to repeat (opaque and key), and `cas` where flag `c` asks for it, if there is one.
#[inline]
pub fn meta_status(line: &mut LineBuffer, status: &[u8], meta: &Meta<'_>, key: &[u8], cas: Option<u64>) {
    line.start(status);
    for flag in scan::Words::new(meta.flags) {
        match (flag[0], cas) {
            (b'c', Some(cas)) => _ = line.flag(b'c', cas),
            _ => repeat(line, flag, meta, key),
        }
    }
    line.push(b"\r\n");
}

/// Reply to a meta command with a flag that the server does not know: memcached has two.
pub fn unknown_flag_line(kind: MetaKind) -> &'static [u8] {
    match kind {
        MetaKind::Delete | MetaKind::Arithmetic => b"CLIENT_ERROR invalid or duplicate flag\r\n",
        MetaKind::Get | MetaKind::Set | MetaKind::Debug => b"CLIENT_ERROR invalid flag\r\n",
    }
}

/// Calls `with` on the decoded key of `meta`. The parser has checked that it decodes.
pub fn meta_key<T>(meta: &Meta<'_>, with: impl FnOnce(&[u8]) -> T) -> T {
    crate::exec::with_key(meta, with)
}

/// Flag `t`: seconds left, -1 if the item never expires.
fn time_left(line: &mut LineBuffer, expire_s: u32, now_s: u32) {
    match expire_s {
        0 => _ = line.push(b" t-1"),
        _ => _ = line.flag(b't', u64::from(expire_s.wrapping_sub(now_s))),
    }
}

/// Repeats `flag` if it is the opaque or the key flag.
fn repeat(line: &mut LineBuffer, flag: &[u8], meta: &Meta<'_>, key: &[u8]) {
    match flag[0] {
        b'O' => _ = line.push(b" ").push(flag),
        b'k' if meta.has(b'b') => {
            let mut text = [0; TEXT_BYTES_MAX];
            let len = base64::encode(key, &mut text);
            line.push(b" k").push(&text[..len]).push(b" b");
        }
        b'k' => _ = line.push(b" k").push(key),
        _ => {}
    }
}
