//! Behaviour under a flaw, where it takes more than a condition.

use super::Flaw;
use super::execute::Attempt;
use super::fabric::Fabric;
use super::memory::land;
use super::request::{Bytes, Request};
use drover_mem::Region;
use drover_verbs::{Imm, MaskedSwap, SendOp, UdDest};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Number of polls, of any context, that the late part of a torn WRITE waits.
const TORN_POLLS: usize = 5;

/// What flaws remember.
#[derive(Debug, Default)]
pub(super) struct FlawState {
    /// Number of WRITEs so far.
    writes: u64,
    /// Number of lists posted to shared queues so far.
    shared_posts: u64,
    late: Vec<Late>,
    kept: Vec<Kept>,
    /// Values of words after the last atomic on them, by address.
    words: BTreeMap<usize, u64>,
    last_read: Vec<u8>,
}

/// Bytes in flight.
#[derive(Debug)]
struct Late {
    polls: usize,
    region: Region,
    offset: usize,
    bytes: Vec<u8>,
}

impl Fabric {
    /// Whether the list that is being posted to a shared queue is one of those that are lost.
    pub(super) fn loses_shared_post(&mut self) -> bool {
        self.flawed.shared_posts += 1;
        self.flawed.shared_posts.is_multiple_of(7)
    }

    /// Executes a WRITE, with the flaw if there is one.
    pub(super) fn land(&mut self, region: &Region, offset: usize, bytes: &[u8]) {
        let whole_words = (bytes.len() + 7) & !7;
        let last_word = bytes.len().saturating_sub(1) & !7;
        self.flawed.writes += 1;
        match self.flaw {
            Some(Flaw::LosesSomeUcWrites) if self.flawed.writes.is_multiple_of(97) => {}
            Some(Flaw::LosesLongWrites) if bytes.len() >= 257 => {}
            Some(Flaw::CutsAtMtu) => land(region, offset, &bytes[..bytes.len().min(self.caps.mtu_bytes)]),
            Some(Flaw::WritesWholeWords) if region.contains(offset, whole_words) => {
                let mut padded = bytes.to_vec();
                padded.resize(whole_words, 0xff);
                land(region, offset, &padded);
            }
            Some(Flaw::CompletesBeforeLanding) => self.delay(usize::MAX, region, offset, bytes),
            Some(Flaw::LastWordFirst) => {
                land(region, offset + last_word, &bytes[last_word..]);
                self.delay(TORN_POLLS, region, offset, &bytes[..last_word]);
            }
            _ => land(region, offset, bytes),
        }
    }

    fn delay(&mut self, polls: usize, region: &Region, offset: usize, bytes: &[u8]) {
        self.flawed.late.push(Late {
            polls,
            region: region.clone(),
            offset,
            bytes: bytes.to_vec(),
        });
    }

    /// Called after a poll (or, with `all`, a post): makes late bytes visible.
    pub(super) fn land_late(&mut self, all: bool) {
        for late in &mut self.flawed.late {
            late.polls = if all {
                0
            } else {
                late.polls.saturating_sub(usize::from(late.polls != usize::MAX))
            };
        }
        for late in self.flawed.late.extract_if(.., |late| late.polls == 0) {
            land(&late.region, late.offset, &late.bytes);
        }
    }

    /// The old value of the word as reported to the requester.
    pub(super) fn atomic(&mut self, word: &Region, offset: usize, request: &Request) -> u64 {
        let (op, masked) = (request.op, &request.masked);
        match (op, self.flaw) {
            (_, Some(Flaw::AtomicsLandLate)) => {
                let old = word.fetch_add_u64(offset, 0);
                self.delay(usize::MAX, word, offset, &after(request, old).to_ne_bytes());
                old
            }
            (_, Some(Flaw::AtomicsIgnoreCpu)) => {
                let value = word.fetch_add_u64(offset, 0);
                let known = self.flawed.words.entry(word.addr() + offset).or_insert(value);
                let old = std::mem::replace(known, after(request, *known));
                word.store_u64(offset, *known, Ordering::Relaxed);
                old
            }
            (SendOp::CompareSwap { swap, .. }, Some(Flaw::CasAlwaysSwaps)) => {
                let old = word.fetch_add_u64(offset, 0);
                word.compare_swap_u64(offset, old, swap)
            }
            (SendOp::CompareSwap { compare, swap, .. }, Some(Flaw::CasReturnsNew)) => {
                word.compare_swap_u64(offset, compare, swap);
                word.fetch_add_u64(offset, 0)
            }
            (SendOp::CompareSwap { compare, swap, .. }, _) => word.compare_swap_u64(offset, compare, swap),
            (SendOp::FetchAdd { add, .. }, Some(Flaw::FaaReturnsNew)) => {
                word.fetch_add_u64(offset, add).wrapping_add(add)
            }
            (SendOp::FetchAdd { add, .. }, Some(Flaw::FaaSaturates)) => {
                let old = word.fetch_add_u64(offset, 0);
                word.compare_swap_u64(offset, old, old.saturating_add(add))
            }
            (SendOp::FetchAdd { add, .. }, Some(Flaw::FaaLosesSome)) => {
                let old = word.fetch_add_u64(offset, 0);
                word.fetch_add_u64(offset, if old % 2 == 1 { 0 } else { add })
            }
            (SendOp::FetchAdd { add, .. }, _) => word.fetch_add_u64(offset, add),
            (SendOp::MaskedCompareSwap { .. }, Some(Flaw::MasksOnlyCompare)) => {
                let whole = MaskedSwap {
                    swap_mask: u64::MAX,
                    ..*masked
                };
                whole.execute(word, offset)
            }
            (SendOp::MaskedCompareSwap { .. }, Some(Flaw::MasksOnlySwap)) => {
                let whole = MaskedSwap {
                    compare_mask: u64::MAX,
                    ..*masked
                };
                whole.execute(word, offset)
            }
            (SendOp::MaskedCompareSwap { .. }, Some(Flaw::MasksResults)) => {
                masked.execute(word, offset) & masked.compare_mask
            }
            (SendOp::MaskedCompareSwap { .. }, _) => masked.execute(word, offset),
            _ => unreachable!("only atomics come here"),
        }
    }

    /// Changes the data of a READ under a flaw.
    pub(super) fn spoil_read(&mut self, data: &mut [u8]) {
        let len = data.len();
        if self.has(Flaw::ReadsShort) && len > 0 {
            data[len - 1] = 0;
        }
        if self.has(Flaw::MixesUnits) && len >= 8 {
            let last = std::mem::replace(&mut self.flawed.last_read, data.to_vec());
            if last.len() >= 8 {
                data[4..8].copy_from_slice(&last[4..8]);
            }
        }
    }

    /// Lets the result of a READ arrive late. Returns false, and does nothing, if its memory is invalid.
    pub(super) fn scatter_late(&mut self, ctx: u32, into: &Bytes, data: &[u8]) -> bool {
        let Bytes::Pieces(sges) = into else { return false };
        let Some((region, offset, len)) = sges.first().and_then(|sge| self.local(ctx, sge, true)) else {
            return false;
        };
        self.delay(usize::MAX, &region, offset, &data[..len]);
        sges.len() == 1
    }

    /// Executes a WRITE through a destroyed queue pair.
    pub(super) fn haunt(&mut self, ctx: u32, request: &Request, bytes: &[u8]) -> Attempt {
        if let SendOp::Write { remote, .. } = request.op
            && let Some(mr) = self
                .imports
                .get(&(ctx, remote.rkey))
                .and_then(|import| self.mrs.get(&import.mr))
        {
            land(&mr.region, remote.offset as usize, bytes);
        }
        Attempt::Done(0)
    }

    /// Keeps a datagram that should be dropped.
    pub(super) fn keep(&mut self, from: u32, ctx: u32, dest: UdDest, imm: Option<Imm>, bytes: &[u8]) {
        if self.has(Flaw::KeepsDatagrams) {
            let bytes = bytes.to_vec();
            self.flawed.kept.push(Kept {
                from,
                ctx,
                dest,
                imm,
                bytes,
            });
        }
    }

    /// Retries the datagrams that were kept.
    pub(super) fn deliver_kept(&mut self) {
        for kept in std::mem::take(&mut self.flawed.kept) {
            self.datagram(kept.from, kept.ctx, kept.dest, kept.imm, &kept.bytes);
        }
    }
}

/// The value of a word that was `old`, after an atomic.
fn after(request: &Request, old: u64) -> u64 {
    match request.op {
        SendOp::CompareSwap { compare, swap, .. } if old == compare => swap,
        SendOp::FetchAdd { add, .. } => old.wrapping_add(add),
        SendOp::MaskedCompareSwap { .. } => request.masked.of(old),
        _ => old,
    }
}

/// A datagram that should have been dropped.
#[derive(Debug)]
struct Kept {
    from: u32,
    ctx: u32,
    dest: UdDest,
    imm: Option<Imm>,
    bytes: Vec<u8>,
}
