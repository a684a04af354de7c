//! [`Pending`]: requests of a connected queue pair that wait for the peer, in order, with their inline bytes and operands.

use crate::core::Source;
use crate::device::SGE_MAX;
use drover_base::Ns;
use drover_verbs::{MaskedSwap, SendWr, Sge};
use std::collections::VecDeque;

/// Waiting requests, at most a send queue's worth. It grows when a peer first makes us wait, which is not a hot path.
#[derive(Default)]
pub(crate) struct Pending {
    queue: VecDeque<Waiting>,
    /// Inline buffers for reuse.
    spare: Vec<Vec<u8>>,
    /// Time from which the first request has waited for a RECV.
    since: Option<Ns>,
}

struct Waiting {
    wr: SendWr,
    /// Operands of a masked CAS.
    swap: MaskedSwap,
    up_to: u32,
    payload: Kept,
}

enum Kept {
    Inline(Vec<u8>),
    Pieces([Sge; SGE_MAX], usize),
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn push(&mut self, wr: &SendWr, source: &Source<'_>, swap: MaskedSwap, up_to: u32) {
        let payload = match source {
            Source::Inline(bytes) => {
                let mut kept = self.spare.pop().unwrap_or_default();
                kept.extend_from_slice(bytes);
                Kept::Inline(kept)
            }
            Source::Pieces(sges) => {
                let mut kept = [Sge::default(); SGE_MAX];
                kept[..sges.len()].copy_from_slice(sges);
                Kept::Pieces(kept, sges.len())
            }
        };
        self.queue.push_back(Waiting {
            wr: *wr,
            swap,
            up_to,
            payload,
        });
    }

    pub(crate) fn front(&self) -> Option<(SendWr, Source<'_>, MaskedSwap, u32)> {
        let front = self.queue.front()?;
        let source = match &front.payload {
            Kept::Inline(bytes) => Source::Inline(bytes),
            Kept::Pieces(sges, count) => Source::Pieces(&sges[..*count]),
        };
        Some((front.wr, source, front.swap, front.up_to))
    }

    pub(crate) fn pop(&mut self) -> Option<(SendWr, u32)> {
        self.since = None;
        let front = self.queue.pop_front()?;
        if let Kept::Inline(mut bytes) = front.payload {
            bytes.clear();
            self.spare.push(bytes);
        }
        Some((front.wr, front.up_to))
    }

    /// Time that the first request has waited for a RECV as of `now`; zero if it does not wait.
    pub(crate) fn waited_for_recv(&mut self, for_recv: bool, now: Ns) -> Ns {
        if !for_recv {
            self.since = None;
            return Ns::ZERO;
        }
        now.since(*self.since.get_or_insert(now))
    }
}
