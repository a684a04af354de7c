//! The datagram front end: the bytes of a slot by SEND instead of by WRITE, for more clients than slots can be
//! polled for `[HERD §5.5]`. Costs a RECV per request; from the intake on everything is the same.

use super::intake::Taken;
use super::variant::{Mistake, Variant};
use super::worker::Worker;
use crate::control::FrontEnd;
use crate::layout::{Commit, DATAGRAM_HEADER_BYTES, SLOT_BYTES_MAX, TRAILER_BYTES};
use drover_mem::{AllocError, MaskedRegion, PageWish, round_up};
use drover_slots::server::Found;
use drover_verbs::{
    Access, CompletionQueue, Context, GRH_BYTES, MemoryRegion, PostError, Provider, QueuePair, RecvList,
    RecvWr, Wc, WcStatus, WrId,
};

/// Bytes of memory for one RECV.
const PIECE_BYTES: usize = round_up(GRH_BYTES + DATAGRAM_HEADER_BYTES + SLOT_BYTES_MAX, 64);
/// Number of used RECVs at which they are posted again, with one doorbell; fewer if a worker has few RECVs.
const REPOST: usize = 64;

/// A worker's RECVs for request datagrams, and their memory.
pub(super) struct Datagrams<P: Provider> {
    pub(super) recv_cq: P::Cq,
    memory: P::Mr,
    /// Used RECVs, to be posted again: fewer than [`REPOST`] and what one poll takes.
    recvs: RecvList,
    recv_count: usize,
    /// Memory like one slot, into which a datagram's request is copied, right-aligned, so that it is taken like any
    /// other.
    slot: MaskedRegion,
    wcs: Vec<Wc>,
}

impl<P: Provider> Datagrams<P> {
    /// Creates memory for `recv_count` RECVs, and their completion queue. At most `batch` datagrams are taken at a
    /// time. Errors are for people.
    pub(super) fn new(ctx: &P::Context, recv_count: usize, batch: usize) -> Result<Datagrams<P>, String> {
        let text = |error: AllocError| error.to_string();
        let recv_cq = ctx.create_cq(recv_count).map_err(|error| error.to_string())?;
        let region = ctx
            .alloc(recv_count * PIECE_BYTES, PageWish::HugeIfAny)
            .map_err(text)?;
        let memory = ctx
            .register(&region, Access::LOCAL)
            .map_err(|error| error.to_string())?;
        Ok(Datagrams {
            recv_cq,
            memory,
            recvs: RecvList::with_capacity((REPOST + batch).min(recv_count)),
            recv_count,
            slot: MaskedRegion::private(SLOT_BYTES_MAX, PageWish::Small).map_err(text)?,
            wcs: vec![Wc::default(); batch],
        })
    }

    /// Posts all RECVs to `qp`. Called before any client knows where to send datagrams.
    pub(super) fn start(&self, cpu: &P::Cpu, qp: &mut P::Qp) -> Result<(), String> {
        let mut all = RecvList::with_capacity(self.recv_count);
        for piece in 0..self.recv_count {
            all.push(self.recv(piece));
        }
        qp.post_recv(cpu, &all).map_err(|error| error.to_string())
    }

    /// The RECV of the memory with index `piece`.
    fn recv(&self, piece: usize) -> RecvWr {
        RecvWr {
            wr_id: WrId(piece as u64),
            sge: self.memory.sge(piece * PIECE_BYTES, PIECE_BYTES),
        }
    }

    /// Posts the RECVs that have been used.
    fn repost(&mut self, cpu: &P::Cpu, qp: &mut P::Qp) -> Result<(), PostError> {
        let posted = qp.post_recv(cpu, &self.recvs);
        self.recvs.clear();
        posted
    }
}

/// The fields of the 8 bytes before a request: see [the layout](crate::layout).
struct Header {
    client: u32,
    slot: u32,
    generation: u16,
}

impl Header {
    fn from_word(word: u64) -> Header {
        Header {
            client: word as u32,
            slot: (word >> 32) as u32 & 0xffff,
            generation: (word >> 48) as u16,
        }
    }
}

impl<P: Provider, V: Variant> Worker<P, V> {
    /// Makes one sweep and receives datagrams, alternately in this order and in the other: each alone may fill the
    /// intake again and again, and the requests of the others would wait for ever.
    #[inline(never)]
    pub(super) fn sweep_and_receive(&mut self, cpu: &P::Cpu, at: usize) {
        let receive_first = self.sweeper.next_is_odd();
        if receive_first {
            self.poll_datagrams(cpu, at);
        }
        match self.intakes[at].requests.is_full() {
            false => self.sweep(cpu, at),
            true => self.sweeper.skip(),
        }
        if !receive_first {
            self.poll_datagrams(cpu, at);
        }
    }

    /// Takes datagrams that have arrived, as far as intake `at` has space. Returns whether any had arrived, even if all
    /// were to be ignored: more may be behind them, for which no event comes. Costs nothing without clients that send
    /// datagrams.
    #[inline(always)]
    pub(super) fn receive_datagrams(&mut self, cpu: &P::Cpu, at: usize) -> bool {
        self.clients.any_sends_datagrams() && self.poll_datagrams(cpu, at)
    }

    #[inline(never)]
    fn poll_datagrams(&mut self, cpu: &P::Cpu, at: usize) -> bool {
        // Out of `self` for the time being, so that both can be worked on.
        let Some(mut datagrams) = self.datagrams.take() else {
            return false;
        };
        let space = self.intakes[at].requests.space().min(datagrams.wcs.len());
        let count = datagrams.recv_cq.poll(cpu, &mut datagrams.wcs[..space]);
        for k in 0..count {
            let wc = datagrams.wcs[k];
            let arrived = wc.status == WcStatus::Success;
            if !arrived || self.take_datagram(cpu, at, &datagrams, &wc).is_none() {
                self.counters.irregular.stray_datagrams += 1;
            }
            datagrams.recvs.push(datagrams.recv(wc.wr_id.0 as usize));
        }
        let held = datagrams.recvs.wrs().len();
        if held >= REPOST.min(datagrams.recv_count / 2 + 1)
            && datagrams.repost(cpu, &mut self.replies.qp).is_err()
        {
            tracing::error!("the RECVs of request datagrams were refused");
        }
        self.datagrams = Some(datagrams);
        count > 0 && !self.variant.makes(Mistake::IdlesBehindDatagrams)
    }

    /// Takes one datagram, or ignores it if it is a duplicate or shorter than its commit word says. `None`: it is from
    /// no known client, for no slot of its window, or of a wrong length.
    fn take_datagram(&mut self, cpu: &P::Cpu, at: usize, datagrams: &Datagrams<P>, wc: &Wc) -> Option<()> {
        let start = wc.wr_id.0 as usize * PIECE_BYTES + GRH_BYTES;
        let len = (wc.byte_len as usize).checked_sub(GRH_BYTES + DATAGRAM_HEADER_BYTES)?;
        if !(TRAILER_BYTES..=SLOT_BYTES_MAX).contains(&len) {
            return None;
        }
        let mut word = [0; DATAGRAM_HEADER_BYTES];
        datagrams.memory.region().copy_out(start, &mut word);
        let header = Header::from_word(u64::from_le_bytes(word));
        let client = self.clients.get_mut(header.client)?;
        let known = header.generation == client.generation as u16
            && header.slot < client.stripe.window()
            && wc.src_qpn == client.sender
            && client.params.front_end == FrontEnd::Datagrams
            && len <= client.stripe.slot_bytes() as usize;
        if !known {
            return None;
        }
        let mut image = [0; SLOT_BYTES_MAX];
        datagrams
            .memory
            .region()
            .copy_out(start + DATAGRAM_HEADER_BYTES, &mut image[SLOT_BYTES_MAX - len..]);
        datagrams.slot.region().copy_in(0, &image);
        let commit_at = SLOT_BYTES_MAX as u64 - 8;
        let commit = Commit(datagrams.slot.load(commit_at));
        if commit.0 == client.states[header.slot as usize].last_commit()
            || commit.body_len() + TRAILER_BYTES > len
        {
            self.counters.irregular.ignored += 1;
            return Some(()); // a duplicate, or shorter than it says
        }
        let intake = &mut self.intakes[at];
        let found = Found {
            slots: &datagrams.slot,
            slot: header.slot,
            commit_at,
            commit,
        };
        let taken = intake.take(client, found, &mut self.counters);
        if matches!(taken, Taken::New | Taken::Again) {
            self.partition
                .prefetch_bucket(cpu, intake.requests.last_hash(), false);
        }
        Some(())
    }
}
