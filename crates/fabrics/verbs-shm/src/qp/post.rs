//! Posting to a send queue: datagrams, requests of connected queue pairs, and requests that have to wait.

use super::{Queue, RemoteEnd, opcode};
use crate::bell::Ringing;
use crate::core::{Remote, Sender, Source, Tables};
use crate::device::SGE_MAX;
use crate::execute::{Attempt, execute, execute_masked};
use crate::flight::Flight;
use crate::lane::LaneMemory;
use crate::ring::{Head, lines_of};
use crate::stats::count;
use drover_base::sync::{Ordering, fence};
use drover_verbs::{
    Imm, MaskedSwap, Opcode, Payload, PostError, PostErrorKind, QpKind, RemoteAddr, SendList, SendOp, SendWr,
    ShortSend, ShortWrite, Signed, UdDest, WcStatus,
};
use std::hint::cold_path;

/// Lines of a READ that are prefetched before it is executed. *(our choice: a neighbourhood of FaRM-KV)*
const LINES_AHEAD: usize = 6;

/// Lines of a WRITE that are prefetched. *(our choice: the request or result of a short operation)*
const LINES_WRITTEN: usize = 2;

/// Prefetches the first lines of every READ and WRITE of the list at the peer, so that the cache misses overlap. The keys
/// and addresses need not be valid: they are checked at execution.
#[inline(never)]
fn prefetch_remote(wrs: &[SendWr], tables: &Tables) {
    for wr in wrs {
        let Payload::Region(sge) = wr.payload else {
            continue;
        };
        let (remote, lines, is_written) = match wr.op {
            SendOp::Read { remote } => (remote, LINES_AHEAD, false),
            SendOp::Write { remote, .. } => (remote, LINES_WRITTEN, true),
            _ => continue,
        };
        let Some(there) = tables.remote.find(remote.rkey) else {
            continue;
        };
        let (mut at, len) = (remote.offset as usize, (sge.len as usize).min(lines * 64));
        let end = at.saturating_add(len);
        while at < end {
            match is_written {
                true => there.region.prefetch_write(at),
                false => there.region.prefetch_read(at),
            }
            at = (at | 63) + 1;
        }
    }
}

/// The receiver of a datagram, if it exists.
#[inline(always)]
fn receiver<'t>(send: &ShortSend, tables: &'t Tables) -> Option<&'t Sender> {
    let sender = tables.senders.find(send.dest.ah)?;
    (sender.qpn == send.dest.qpn.0).then_some(sender)
}

/// Executes WRITEs of bytes in `kept` into `to`, and rings its bells. A function of its own, because the loop needs all
/// registers.
///
/// # Safety
/// The ranges of all are inside `to`, which is writable.
#[inline(never)]
unsafe fn store_writes(to: &Remote, writes: &[ShortWrite], kept: &[u8]) {
    let (region, mut ringing) = (to.region.raw(), Ringing::new());
    // The range of the watch that the previous request fell into: its bell is already listed.
    let mut watched = 0..0;
    for write in writes {
        let (offset, end) = (write.remote.offset, write.remote.offset + write.len() as u64);
        // SAFETY: the caller's promise.
        unsafe { region.copy_in_release(offset as usize, write.bytes(kept)) };
        if offset < watched.start || end > watched.end {
            cold_path();
            watched = to.ring(offset, write.len(), &mut ringing);
        }
    }
}

/// What became of a request.
enum Posted {
    /// Executed, or waiting.
    Taken,
    /// Failed, and the queue pair with it.
    Failed,
    /// Nothing was done: the context has yet to learn this key of its domain.
    Unknown { rkey: u32 },
}

impl Queue {
    /// Completes all requests of `wrs` as flushed, because the queue pair has failed.
    #[cold]
    pub(super) fn post_flushed(&self, wrs: &[SendWr], accepted: usize) -> Result<(), PostError> {
        for (i, wr) in wrs.iter().enumerate() {
            if self.space() == 0 {
                return Err(PostError {
                    accepted: accepted + i,
                    kind: PostErrorKind::QueueFull,
                });
            }
            self.complete(wr, WcStatus::Flushed, 0);
        }
        Ok(())
    }

    /// Whether so many short datagrams can be posted by [`post_short`](Queue::post_short).
    #[inline(always)]
    pub(super) fn takes_short(&self, count: usize) -> bool {
        self.sends_short.get() && count <= self.space()
    }

    /// Posts one short datagram, unsignaled, if nothing prevents it; else it does nothing and returns false.
    #[inline(never)]
    pub(super) fn post_one_short(&self, send: &ShortSend) -> bool {
        let tables = &*self.core.tables.borrow();
        let Some(sender) = receiver(send, tables) else {
            return false;
        };
        let head = Head {
            len: send.len(),
            flags: Head::IMM,
            imm: send.imm.0,
            src_qpn: self.qpn.0,
            qkey: send.dest.qkey,
            following: 0,
        };
        let sent = sender.lane.put(head, send.padded());
        if sent {
            sender.bell.ring();
            self.posted.set(self.posted.get().wrapping_add(1));
        }
        sent
    }

    /// Posts short datagrams, of which those in `signed` are signaled.
    #[inline(always)]
    pub(super) fn post_short(&self, sends: &[ShortSend], signed: &[Signed]) -> Result<(), PostError> {
        let tables = &*self.core.tables.borrow();
        let mut done = 0;
        if let Some(sender) = sends.first().and_then(|send| receiver(send, tables)) {
            done = self.send_short(sender, sends);
            sender.bell.ring();
        }
        // Nearly always all are for one receiver, and none is signaled.
        if done < sends.len() || !signed.is_empty() {
            return self.post_short_rest(sends, done, signed, tables);
        }
        self.posted.set(self.posted.get().wrapping_add(done as u32));
        Ok(())
    }

    /// Sends short datagrams from number `done` on, whatever they are, and completes all.
    #[cold]
    #[inline(never)]
    fn post_short_rest(
        &self,
        sends: &[ShortSend],
        mut done: usize,
        signed: &[Signed],
        tables: &Tables,
    ) -> Result<(), PostError> {
        let before = self.posted.get();
        let mut ringing = Ringing::new();
        let mut result = Ok(());
        while let Some(first) = sends.get(done) {
            let mut sent = 0;
            if let Some(sender) = receiver(first, tables) {
                ringing.note(&sender.bell);
                sent = self.send_short(sender, &sends[done..]);
            }
            if sent == 0 {
                let source = Source::Inline(first.payload());
                let alone = self.datagram(Some(first.dest), Some(first.imm), source, tables, &mut ringing);
                if let Err(kind) = alone {
                    result = Err(PostError { accepted: done, kind });
                    break;
                }
                sent = 1;
            }
            done += sent;
        }
        self.posted.set(before.wrapping_add(done as u32));
        let count = signed.partition_point(|(at, _)| *at < done);
        self.complete_signed(&signed[..count], Opcode::Send, before);
        result
    }

    /// Sends datagrams as long as they are for the receiver of the first, and there is space in a row; returns how many.
    #[inline(always)]
    fn send_short(&self, sender: &Sender, sends: &[ShortSend]) -> usize {
        let (to, src_qpn) = (sends[0].dest.receiver(), self.qpn.0);
        // If the last one is for the same receiver, those in between mostly are too; this is only a hint.
        let (mut following, step) = match sends[sends.len() - 1].dest.receiver() == to {
            true => (sends.len() as u32 - 1, 1),
            false => (0, 0),
        };
        let mut run = sender.lane.run(sends.len());
        for send in &sends[..run.space().min(sends.len())] {
            if send.dest.receiver() != to {
                break;
            }
            let head = Head {
                len: send.len(),
                flags: Head::IMM,
                imm: send.imm.0,
                src_qpn,
                qkey: send.dest.qkey,
                following,
            };
            run.put(head, send.padded());
            following = following.wrapping_sub(step);
        }
        sender.lane.end_run(run)
    }

    pub(super) fn post_ud(&self, list: &SendList) -> Result<(), PostError> {
        let (wrs, space) = (list.wrs(), self.space());
        let fitting = wrs.len().min(space);
        let tables = &*self.core.tables.borrow();
        let mut ringing = Ringing::new();
        for (accepted, wr) in wrs[..fitting].iter().enumerate() {
            let refused = |kind| PostError { accepted, kind };
            let SendOp::Send { dest, imm } = wr.op else {
                return Err(refused(PostErrorKind::NotSupported));
            };
            let source = Source::of(&wr.payload, list);
            self.datagram(dest, imm, source, tables, &mut ringing)
                .map_err(refused)?;
            self.complete(wr, WcStatus::Success, 0);
        }
        if fitting < wrs.len() {
            let (accepted, kind) = (fitting, PostErrorKind::QueueFull);
            return Err(PostError { accepted, kind });
        }
        Ok(())
    }

    /// Sends one datagram, or loses it.
    #[inline(never)]
    fn datagram<'t>(
        &self,
        dest: Option<UdDest>,
        imm: Option<Imm>,
        source: Source<'_>,
        tables: &'t Tables,
        ringing: &mut Ringing<'t>,
    ) -> Result<(), PostErrorKind> {
        let dest = dest.ok_or(PostErrorKind::BadAddress)?;
        let len = self.check_local(&source, tables, false)?;
        if len > self.core.caps.mtu_bytes {
            return Err(PostErrorKind::MessageTooLong);
        }
        let sender = tables.senders.find(dest.ah).ok_or(PostErrorKind::BadAddress)?;
        let head = Head {
            qkey: dest.qkey,
            ..self.head(len, imm)
        };
        if sender.qpn != dest.qpn.0 {
            count(&self.core.counters.no_qp);
        } else if source.push(&sender.lane, head, tables) {
            ringing.note(&sender.bell);
        } else {
            count(&self.core.counters.ring_full);
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn head(&self, len: usize, imm: Option<Imm>) -> Head {
        Head {
            len,
            flags: if imm.is_some() { Head::IMM } else { 0 },
            imm: imm.unwrap_or_default().0,
            src_qpn: self.qpn.0,
            ..Head::default()
        }
    }

    /// Checks that the memory of a request may be used; returns its length.
    #[inline(always)]
    fn check_local(&self, source: &Source<'_>, tables: &Tables, write: bool) -> Result<usize, PostErrorKind> {
        match source {
            Source::Inline(_) if write => Err(PostErrorKind::NotSupported),
            Source::Inline(bytes) if bytes.len() > self.inline_bytes => Err(PostErrorKind::InlineTooLong),
            Source::Inline(bytes) => Ok(bytes.len()),
            Source::Pieces(sges) => {
                if sges.len() > SGE_MAX {
                    return Err(PostErrorKind::MessageTooLong);
                }
                for sge in *sges {
                    tables.local(*sge, write)?;
                }
                Ok(source.len())
            }
        }
    }

    /// Checks a request of a connected queue pair.
    #[inline(always)]
    fn check(&self, wr: &SendWr, source: &Source<'_>, tables: &Tables) -> Result<(), PostErrorKind> {
        let len = match wr.op {
            SendOp::Write { .. } | SendOp::Send { dest: None, .. } => {
                self.check_local(source, tables, false)?
            }
            SendOp::Send { .. } => return Err(PostErrorKind::BadAddress),
            _ if self.kind != QpKind::Rc => return Err(PostErrorKind::NotSupported),
            SendOp::Read { .. } => self.check_local(source, tables, true)?,
            SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } | SendOp::MaskedCompareSwap { .. } => {
                match self.check_local(source, tables, true)? {
                    8 => 8,
                    _ => return Err(PostErrorKind::LocalProtection),
                }
            }
        };
        match len > self.core.caps.message_bytes_max {
            true => Err(PostErrorKind::MessageTooLong),
            false => Ok(()),
        }
    }

    #[inline(always)]
    pub(super) fn post_connected(&self, list: &SendList) -> Result<(), PostError> {
        self.post_from(list, 0)
    }

    /// Posts the requests of `list` behind the first `from`, which are posted.
    fn post_from(&self, list: &SendList, from: usize) -> Result<(), PostError> {
        let kind = PostErrorKind::NotReady;
        let peer = self.peer.get().ok_or(PostError { accepted: from, kind })?;
        let _flight = peer.take_off();
        let wrs = list.wrs();
        let space = from + self.space();
        let borrowed = self.core.tables.borrow();
        let tables = &*borrowed;
        let mut ringing = Ringing::new();
        if wrs.len() > 1 {
            prefetch_remote(wrs, tables);
        }
        let mut accepted = from;
        loop {
            let Some(wr) = wrs.get(accepted) else {
                return Ok(());
            };
            if accepted == space {
                let kind = PostErrorKind::QueueFull;
                return Err(PostError { accepted, kind });
            }
            if !self.post_piece(peer, wr, tables, &mut ringing) {
                match self.post_one(peer, wr, list, tables, &mut ringing) {
                    Ok(Posted::Taken) => {}
                    Ok(Posted::Failed) => return self.post_flushed(&wrs[accepted + 1..], accepted + 1),
                    Ok(Posted::Unknown { rkey }) => {
                        drop(ringing);
                        drop(borrowed);
                        return self.learn_and_post(rkey, list, accepted);
                    }
                    Err(kind) => return Err(PostError { accepted, kind }),
                }
            }
            accepted += 1;
            if self.pending_count.get() > 0 {
                return self.post_behind(peer, list, accepted, space, tables, &mut ringing);
            }
        }
    }

    /// Goes on with a list at the first request to a region that another context of the domain imported.
    #[cold]
    #[inline(never)]
    fn learn_and_post(&self, rkey: u32, list: &SendList, from: usize) -> Result<(), PostError> {
        self.core.learn(rkey);
        self.post_from(list, from)
    }

    /// The region with key `rkey`, if `count` WRITEs to it can be executed now.
    #[inline(always)]
    fn writable_now<'t>(
        &self,
        rkey: u32,
        count: usize,
        tables: &'t Tables,
    ) -> Option<(&'t Remote, Flight<'_, LaneMemory>)> {
        let peer = self.peer.get()?;
        let flight = peer.take_off();
        if self.pending_count.get() > 0 || peer.is_gone() || count > self.space() {
            return None;
        }
        let to = tables.remote.find(rkey)?;
        to.access.remote_write.then_some((to, flight))
    }

    /// As [`post_short_writes`](Queue::post_short_writes), for one WRITE, unsignaled.
    #[inline(never)]
    pub(super) fn post_one_write(&self, write: &ShortWrite, kept: &[u8]) -> bool {
        let tables = &*self.core.tables.borrow();
        let Some((to, _flight)) = self.writable_now(write.remote.rkey, 1, tables) else {
            return false;
        };
        let (offset, bytes) = (write.remote.offset, write.bytes(kept));
        if bytes.len() > self.inline_bytes || to.inside(offset, bytes.len()).is_none() {
            return false;
        }
        // SAFETY: the range was checked; a region exported with write access, which was checked, is mapped writable.
        unsafe { to.region.raw().copy_in_release(offset as usize, bytes) };
        to.ring(offset, bytes.len(), &mut Ringing::new());
        self.posted.set(self.posted.get().wrapping_add(1));
        true
    }

    /// Posts WRITEs of bytes in `kept`, of which those in `signed` are signaled, if all of them go to one region and
    /// nothing prevents them; else it does nothing and returns false.
    #[inline(always)]
    pub(super) fn post_short_writes(&self, writes: &[ShortWrite], signed: &[Signed], kept: &[u8]) -> bool {
        let tables = &*self.core.tables.borrow();
        let first = writes.first().map_or(RemoteAddr::default(), |write| write.remote);
        let Some((to, _flight)) = self.writable_now(first.rkey, writes.len(), tables) else {
            return false;
        };
        let region = to.region.raw();
        let len_max = self.inline_bytes.min(to.len as usize);
        for write in writes {
            // One comparison, because no length is more than `len_max`, and that not more than the region's.
            let is_inside = write.remote.offset <= to.len - write.len().min(len_max) as u64;
            if write.remote.rkey != first.rkey || write.len() > len_max || !is_inside {
                return false;
            }
            // The line is in the cache of the peer's core: the transfers overlap (0 to 5 % more operations in a window of
            // 16).
            region.prefetch_write(write.remote.offset as usize);
        }
        // SAFETY: the range of each request was checked; a region exported with write access, which was checked, is mapped
        // writable.
        unsafe { store_writes(to, writes, kept) };
        let before = self.posted.get();
        self.posted.set(before.wrapping_add(writes.len() as u32));
        if !signed.is_empty() {
            self.complete_signed(signed, Opcode::Write, before);
        }
        true
    }

    /// Completes those in `signed` of a list before which `before` requests had been posted.
    #[cold]
    #[inline(never)]
    fn complete_signed(&self, signed: &[Signed], opcode: Opcode, before: u32) {
        for (at, wr_id) in signed {
            let up_to = before.wrapping_add(*at as u32 + 1);
            self.push_completion(*wr_id, opcode, WcStatus::Success, 0, up_to);
        }
    }

    /// Queues the rest of a list after a request that waits.
    #[cold]
    fn post_behind<'t>(
        &self,
        peer: &'t RemoteEnd,
        list: &SendList,
        from: usize,
        space: usize,
        tables: &'t Tables,
        ringing: &mut Ringing<'t>,
    ) -> Result<(), PostError> {
        for (accepted, wr) in list.wrs().iter().enumerate().skip(from) {
            if accepted == space {
                let kind = PostErrorKind::QueueFull;
                return Err(PostError { accepted, kind });
            }
            self.post_one(peer, wr, list, tables, ringing)
                .map_err(|kind| PostError { accepted, kind })?;
        }
        Ok(())
    }

    /// Executes a READ or WRITE of one piece of memory, if no request waits and nothing prevents it; else it does nothing
    /// and returns false.
    #[inline(always)]
    fn post_piece<'t>(
        &self,
        peer: &RemoteEnd,
        wr: &SendWr,
        tables: &'t Tables,
        ringing: &mut Ringing<'t>,
    ) -> bool {
        let (Payload::Region(sge), SendOp::Read { remote } | SendOp::Write { remote, imm: None }) =
            (wr.payload, wr.op)
        else {
            return false;
        };
        let is_read = matches!(wr.op, SendOp::Read { .. });
        let (Ok(here), Some(there)) = (tables.local(sge, is_read), tables.remote.find(remote.rkey)) else {
            return false;
        };
        let len = sge.len as usize;
        let is_granted = match is_read {
            true => there.access.remote_read && self.kind == QpKind::Rc,
            false => there.access.remote_write,
        };
        let Some(at) = there.inside(remote.offset, len) else {
            return false;
        };
        let is_free = self.pending_count.get() == 0 && !peer.is_gone();
        if !is_granted || len > self.core.caps.message_bytes_max || !is_free {
            return false;
        }
        let (here, remote_bytes, from) = (here.raw(), there.region.raw(), sge.offset as usize);
        if is_read {
            // SAFETY: both ranges were checked, and that memory for results of READs is writable.
            unsafe { remote_bytes.copy_to(at, here, from, len) };
            // Acquire: later READs and loads see no data older than this READ saw.
            fence(Ordering::Acquire);
        } else {
            // SAFETY: both ranges were checked; a region exported with write access, which was checked, is mapped writable.
            unsafe { here.copy_to_release(from, remote_bytes, at, len) };
            there.ring(remote.offset, len, ringing);
        }
        self.complete(wr, WcStatus::Success, sge.len);
        true
    }

    /// Checks and attempts any request.
    #[inline(never)]
    fn post_one<'t>(
        &self,
        peer: &'t RemoteEnd,
        wr: &SendWr,
        list: &SendList,
        tables: &'t Tables,
        ringing: &mut Ringing<'t>,
    ) -> Result<Posted, PostErrorKind> {
        let source = Source::of(&wr.payload, list);
        self.check(wr, &source, tables)?;
        if matches!(wr.op, SendOp::Send { .. }) && lines_of(source.len()) > peer.geometry.lines() / 2 {
            return Err(PostErrorKind::MessageTooLong);
        }
        if self.pending_count.get() > 0 {
            self.wait(wr, &source, list);
            return Ok(Posted::Taken);
        }
        match execute(self, peer, &wr.op, &source, tables, ringing) {
            Attempt::Done(byte_len) => self.complete(wr, WcStatus::Success, byte_len),
            Attempt::Wait { .. } => self.wait(wr, &source, list),
            Attempt::Unknown { rkey } => return Ok(Posted::Unknown { rkey }),
            Attempt::Masked { remote, operands } => {
                let swap = list.masked_operands(operands);
                return Ok(self.post_masked(wr, remote, &swap, &source, tables, ringing));
            }
            Attempt::Failed(status) => {
                self.complete(wr, status, 0);
                self.fail();
                return Ok(Posted::Failed);
            }
        }
        Ok(Posted::Taken)
    }

    /// Executes a masked CAS that has been checked.
    #[cold]
    #[inline(never)]
    fn post_masked<'t>(
        &self,
        wr: &SendWr,
        remote: RemoteAddr,
        swap: &MaskedSwap,
        source: &Source<'_>,
        tables: &'t Tables,
        ringing: &mut Ringing<'t>,
    ) -> Posted {
        match execute_masked(self, &wr.op, remote, swap, source, tables, ringing) {
            Attempt::Done(byte_len) => self.complete(wr, WcStatus::Success, byte_len),
            Attempt::Unknown { rkey } => return Posted::Unknown { rkey },
            Attempt::Failed(status) => {
                self.complete(wr, status, 0);
                self.fail();
                return Posted::Failed;
            }
            Attempt::Wait { .. } | Attempt::Masked { .. } => {
                unreachable!("it has its operands, and waits for nothing")
            }
        }
        Posted::Taken
    }

    /// Queues a request until those before it are done.
    #[cold]
    fn wait(&self, wr: &SendWr, source: &Source<'_>, list: &SendList) {
        self.posted.set(self.posted.get().wrapping_add(1));
        let swap = match wr.op {
            SendOp::MaskedCompareSwap { operands, .. } => list.masked_operands(operands),
            _ => MaskedSwap::default(),
        };
        self.pending
            .borrow_mut()
            .push(wr, source, swap, self.posted.get());
        if self.pending_count.get() == 0 {
            let this = self.this.upgrade().expect("a queue pair in use");
            self.send_cq.add_waiting(&this);
        }
        self.set_pending_count();
    }

    /// Retries the waiting requests in order. Returns true when none is left.
    pub(crate) fn push_on(&self) -> bool {
        use drover_base::Cpu;
        let Some(peer) = self.peer.get() else { return true };
        let (mut failed, mut unknown) = (None, None);
        {
            let _flight = peer.take_off();
            let tables = self.core.tables.borrow();
            let mut ringing = Ringing::new();
            let mut pending = self.pending.borrow_mut();
            while let Some((wr, source, swap, up_to)) = pending.front() {
                let attempt = match execute(self, peer, &wr.op, &source, &tables, &mut ringing) {
                    Attempt::Masked { remote, .. } => {
                        execute_masked(self, &wr.op, remote, &swap, &source, &tables, &mut ringing)
                    }
                    attempt => attempt,
                };
                match attempt {
                    Attempt::Done(byte_len) => {
                        if wr.signaled {
                            self.push_completion(
                                wr.wr_id,
                                opcode(&wr.op),
                                WcStatus::Success,
                                byte_len,
                                up_to,
                            );
                        }
                        pending.pop();
                    }
                    Attempt::Wait { for_recv } => {
                        if pending.waited_for_recv(for_recv, self.core.cpu.now()) < self.rnr_timeout {
                            break;
                        }
                        failed = Some((wr, up_to, WcStatus::RnrRetryExceeded));
                        pending.pop();
                        break;
                    }
                    Attempt::Unknown { rkey } => {
                        unknown = Some(rkey);
                        break;
                    }
                    Attempt::Masked { .. } => unreachable!("it was given its operands"),
                    Attempt::Failed(status) => {
                        failed = Some((wr, up_to, status));
                        pending.pop();
                        break;
                    }
                }
            }
        }
        if let Some(rkey) = unknown {
            self.core.learn(rkey);
            return self.push_on();
        }
        if let Some((wr, up_to, status)) = failed {
            self.push_completion(wr.wr_id, opcode(&wr.op), status, 0, up_to);
            self.fail();
        }
        self.set_pending_count();
        self.pending_count.get() == 0
    }
}
