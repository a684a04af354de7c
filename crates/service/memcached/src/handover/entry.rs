//! [`Entry`]: an item on its way, or the name of one.
//!
//! | offset | size | field | |
//! |---|---|---|---|
//! | 0 | 1 | kind | 0: an item; 1: the name of an item that is gone; 2: the name of one that is to be looked up |
//! | 1 | 16 | hash | of the key |
//! | 17 | 1 | length of the key | 0: the hash is the key |
//! | 18 | | key | the end of a name |
//! | then | 4 | length of the value | |
//! | | 4 | seconds left | 0: it does not expire |
//! | | 4 | flags | the client's |
//! | | 4 | version | |
//! | | 1 | marks | bit 0: has extras; 1: fetched; 2: stale; 3: won; 4: its access is recorded |
//! | | 4 | seconds since the last access | |
//! | | 8 | CAS number | if it has extras |
//! | | | value | |
//!
//! Times are relative, since each member counts from its own start; so an expiry is up to a second off after a hand-over.

use super::PAGE_BYTES;
use drover_base::{Cpu, KeyHash};
use drover_store::{
    CopiedExtras, CopiedFields, ExtraPut, ItemRef, KEY_BYTES_MAX, Key, Mark, Partition, Sharing,
};

const ITEM: u8 = 0;
const GONE: u8 = 1;
const NAMED: u8 = 2;

const NAME_BYTES: usize = 18;
const FIELD_BYTES: usize = 29;

const HAS_EXTRAS: u8 = 1;
const FETCHED: u8 = 1 << 1;
const STALE: u8 = 1 << 2;
const WON: u8 = 1 << 3;
const ACCESS_KNOWN: u8 = 1 << 4;

/// Hash and key of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name<'n> {
    /// Hash of the key.
    pub hash: KeyHash,
    /// The key; empty: the hash is the key.
    pub key: &'n [u8],
}

impl<'n> Name<'n> {
    pub(crate) fn key(self) -> Key<'n> {
        Key {
            hash: self.hash,
            bytes: self.key,
        }
    }

    /// Appends the name as an entry, to be looked up.
    pub fn put(self, to: &mut Vec<u8>) {
        self.put_as(NAMED, to);
    }

    /// Appends an entry that says that there is no such item.
    pub(super) fn put_gone(self, to: &mut Vec<u8>) {
        self.put_as(GONE, to);
    }

    fn put_as(self, kind: u8, to: &mut Vec<u8>) {
        to.push(kind);
        to.extend_from_slice(&self.hash.to_bytes());
        to.push(self.key.len() as u8);
        to.extend_from_slice(self.key);
    }
}

/// Bytes of the entry of an item.
pub(super) fn entry_bytes(item: &ItemRef<'_>) -> usize {
    NAME_BYTES + item.key_len() + FIELD_BYTES + item.value_len()
}

/// Appends the entry of an item.
pub(super) fn put_item(name: Name<'_>, item: &ItemRef<'_>, now_s: u32, to: &mut Vec<u8>) {
    name.put_as(ITEM, to);
    let fields = CopiedFields::of(item);
    let seconds_left = match item.expire_s() {
        0 => 0,
        expire_s => expire_s.saturating_sub(now_s).max(1),
    };
    let (mut marks, mut idle_s, mut cas) = (0, 0, 0);
    if let Some(extras) = fields.extras {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        marks = HAS_EXTRAS
            | flag(extras.fetched, FETCHED)
            | flag(extras.stale, STALE)
            | flag(extras.won, WON)
            | flag(extras.accessed_s != 0, ACCESS_KNOWN);
        idle_s = now_s.saturating_sub(extras.accessed_s);
        cas = extras.cas;
    }
    for field in [
        item.value_len() as u32,
        seconds_left,
        item.flags(),
        fields.version,
    ] {
        to.extend_from_slice(&field.to_le_bytes());
    }
    to.push(marks);
    to.extend_from_slice(&idle_s.to_le_bytes());
    to.extend_from_slice(&cas.to_le_bytes());
    let start = to.len();
    to.resize(start + item.value_len(), 0);
    item.copy_value(&mut to[start..]);
}

/// Appends the item of this name as it is now, or that it is gone. Returns whether it fits: an entry that is too long for a page fits alone.
pub(crate) fn put_state<C: Cpu, S: Sharing>(
    partition: &mut Partition<S>,
    cpu: &C,
    now_s: u32,
    name: Name<'_>,
    to: &mut Vec<u8>,
) -> bool {
    let is_first = to.is_empty();
    let (mut is_there, mut fits) = (false, true);
    partition.mark(cpu, name.key(), now_s, |item| {
        is_there = true;
        fits = is_first || to.len() + entry_bytes(&item) <= PAGE_BYTES;
        if fits {
            put_item(name, &item, now_s, to);
        }
        Mark::default()
    });
    if !is_there {
        fits = to.len() <= PAGE_BYTES;
        if fits {
            name.put_gone(to);
        }
    }
    fits
}

/// An entry, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'e> {
    /// The item's name.
    pub name: Name<'e>,
    kind: u8,
    /// Fields and value of an item, otherwise empty.
    body: &'e [u8],
    bytes: &'e [u8],
}

impl<'e> Entry<'e> {
    /// Takes the first entry of `from` apart; `None`: it is malformed.
    fn take(from: &'e [u8]) -> Option<(Entry<'e>, &'e [u8])> {
        let (head, rest) = from.split_first_chunk::<NAME_BYTES>()?;
        let hash = KeyHash::from_bytes(head[1..17].try_into().expect("16 of 18 bytes"));
        let (kind, key_len) = (head[0], usize::from(head[17]));
        if kind > NAMED || key_len > KEY_BYTES_MAX {
            return None;
        }
        let (key, rest) = rest.split_at_checked(key_len)?;
        let body_bytes = match kind {
            ITEM => FIELD_BYTES + word(rest.get(..FIELD_BYTES)?, 0) as usize,
            _ => 0,
        };
        let (body, rest) = rest.split_at_checked(body_bytes)?;
        let entry = Entry {
            name: Name { hash, key },
            kind,
            body,
            bytes: &from[..from.len() - rest.len()],
        };
        Some((entry, rest))
    }

    /// Whether it is the name of an item that is still to be looked up.
    pub fn is_to_look_up(&self) -> bool {
        self.kind == NAMED
    }

    /// Whether it says that there is no such item.
    pub fn is_gone(&self) -> bool {
        self.kind == GONE
    }

    /// Whether it is an item.
    pub fn is_item(&self) -> bool {
        self.kind == ITEM
    }

    /// Length of the value; 0 for a name.
    pub fn value_bytes(&self) -> usize {
        self.body.len().saturating_sub(FIELD_BYTES)
    }

    /// The entry as it came.
    pub fn bytes(&self) -> &'e [u8] {
        self.bytes
    }

    /// The value of an item.
    pub(super) fn value(&self) -> &'e [u8] {
        self.body.get(FIELD_BYTES..).unwrap_or_default()
    }

    /// What is to be stored, at `now_s`, without the value; `None` for a name.
    pub(super) fn put(&self, now_s: u32) -> Option<ExtraPut<'static>> {
        if self.kind != ITEM {
            return None;
        }
        let (seconds_left, marks) = (word(self.body, 4), self.body[16]);
        let cas = self.body[21..29].try_into().map(u64::from_le_bytes);
        let extras = (marks & HAS_EXTRAS != 0).then(|| CopiedExtras {
            cas: cas.expect("8 bytes"),
            accessed_s: match marks & ACCESS_KNOWN {
                0 => 0,
                _ => now_s.saturating_sub(word(self.body, 17)).max(1),
            },
            fetched: marks & FETCHED != 0,
            stale: marks & STALE != 0,
            won: marks & WON != 0,
        });
        let version = word(self.body, 12);
        Some(ExtraPut {
            expire_s: match seconds_left {
                0 => 0,
                seconds => now_s.saturating_add(seconds),
            },
            flags: word(self.body, 8),
            copied: Some(CopiedFields { version, extras }),
            ..ExtraPut::default()
        })
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// Entries that are known to be well-formed.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'e>(&'e [u8]);

impl<'e> Entries<'e> {
    /// All of `bytes`; `None`: an entry is malformed.
    pub fn all(bytes: &'e [u8]) -> Option<Entries<'e>> {
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, rest) = Entry::take(rest)?;
        }
        Some(Entries(bytes))
    }

    /// Entries that this process has written.
    pub(crate) fn known(bytes: &'e [u8]) -> Entries<'e> {
        Entries(bytes)
    }

    /// The bytes of the entries that have not been iterated over.
    pub fn rest(&self) -> &'e [u8] {
        self.0
    }
}

impl<'e> Iterator for Entries<'e> {
    type Item = Entry<'e>;

    fn next(&mut self) -> Option<Entry<'e>> {
        let (entry, rest) = Entry::take(self.0)?;
        self.0 = rest;
        Some(entry)
    }
}
