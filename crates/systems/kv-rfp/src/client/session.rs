//! [`Session`]: a client's queues, calls and buffers at one shard.

use super::in_place::InPlace;
use crate::control::{Attach, NewMap, PROTOCOL_VERSION, RfpParams, Welcome, conn_params};
use crate::layout::{
    REPLY_HEADER_BYTES, RPC_COUNT, Request, RequestKind, encode_request, item_bytes, number_after_key, rpc_id,
};
use drover_base::Ns;
use drover_control::Frame;
use drover_kv::{
    BadMap, Calls, EXTENSION_BYTES, FetchChoice, KEY_BYTES_MAX, PartitionMap, ResultTransfer, SetupError,
};
use drover_one_sided::{Agreed, ConnResources, REQUEST_HEADER_BYTES, VALUES_MAX};
use drover_rpc::CallError;
use drover_rpc::fetch::{
    CallerOptions, CallerStats, Choice, FetchClient, Guards, Layout, Measured, Transfer,
};
use drover_rt::{Queues, WHICH};
use drover_verbs::{Access, MemoryRegion, PIECES_MAX, Provider};
use std::rc::Rc;

/// Longest item that a server may announce, bytes.
const ITEM_BYTES_MAX: usize = 1 << 23;

/// Number of operations that a send queue of `depth` requests suffices for.
pub(super) fn operations_for<P: Provider, G: Guards>(depth: usize) -> usize {
    let sends = depth.saturating_sub(VALUES_MAX * PIECES_MAX + FetchClient::<P, G>::sends_max(0));
    let each = FetchClient::<P, G>::sends_max(1) - FetchClient::<P, G>::sends_max(0);
    (sends / each).max(1)
}

/// The counters that all systems with calls have.
pub(super) fn counted(stats: &CallerStats) -> Calls {
    Calls {
        calls: stats.calls,
        operations: stats.operations(),
        second_reads: stats.second_reads,
        failed_reads: stats.fails,
        pushed: stats.pushed,
        switches: stats.switches,
        late_pushes: stats.late_pushes,
        sum_rejects: stats.sum_rejects,
        ..Calls::default()
    }
}

/// Whether the completion with id `wr_id` is that of a request.
#[inline]
pub(super) fn is_request(wr_id: u64) -> bool {
    wr_id & !WHICH == 0
}

/// A client's queues, calls and buffers for one shard.
pub struct Session<P: Provider, G: Guards> {
    pub(super) resources: ConnResources<P>,
    calls: FetchClient<P, G>,
    /// If the server lets its clients READ long values where they are.
    pub(super) in_place: Option<InPlace<P>>,
    /// Which shard owns a key.
    map: PartitionMap,
}

fn check(welcome: &Welcome, layout: &Layout) -> Result<(), SetupError> {
    let slots_bytes = layout.request_stride().max(layout.result_stride());
    let is_slots = layout.is_sound()
        && slots_bytes <= 1 << 20
        && layout.request_bytes >= REQUEST_HEADER_BYTES + EXTENSION_BYTES + KEY_BYTES_MAX
        && layout.result_bytes >= REPLY_HEADER_BYTES + size_of::<u32>();
    let is_item = (item_bytes(1, 0)..=ITEM_BYTES_MAX).contains(&(welcome.terms.item_bytes_max as usize));
    match (is_slots, is_item) {
        (false, _) => Err(SetupError::Unusable { what: "slots" }),
        (_, false) => Err(SetupError::Unusable { what: "items" }),
        _ => Ok(()),
    }
}

impl<P: Provider, G: Guards> Session<P, G> {
    /// Handles a completion; returns the operation whose call has ended, and what came of it. The result is in the first bytes of `out`.
    #[inline]
    pub(super) fn completed(
        &mut self,
        wr_id: u64,
        now: Ns,
        out: &mut Vec<u8>,
    ) -> Option<(usize, Result<usize, CallError>)> {
        self.calls.completed(&mut self.resources.queues, wr_id, now, out)
    }

    /// See [`FetchClient::is_read`].
    #[inline]
    pub(super) fn is_read(&self, wr_id: u64) -> bool {
        self.calls.is_read(wr_id)
    }

    /// Looks at calls whose results will be pushed, or which are to be READ again, from number `from` on; returns as
    /// [`completed`](Session::completed). Call it until it returns `None`.
    #[inline]
    pub(super) fn poll(
        &mut self,
        from: &mut usize,
        now: Ns,
        out: &mut Vec<u8>,
    ) -> Option<(usize, Result<usize, CallError>)> {
        self.calls.poll_next(&mut self.resources.queues, from, now, out)
    }

    /// When to [`poll`](Session::poll) though nothing has arrived.
    #[inline]
    pub(super) fn next_timer(&self) -> Ns {
        self.calls.next_timer()
    }

    /// What verbs take, and whether this session has measured it; call it until it returns what came of it.
    pub(super) fn measure(&mut self) -> Option<(Measured, bool)> {
        self.calls.measure(&mut self.resources.queues)
    }

    /// What was measured holds for calls from now on.
    pub(super) fn use_measured(&mut self, measured: &Measured) {
        self.calls.use_measured(measured);
    }

    /// R and F of GETs from now on.
    pub(super) fn set_choice(&mut self, choice: Choice) {
        self.calls.set_choice(RequestKind::Get as u16, choice);
    }

    /// READs results as `choice` says. Results of updates have no value.
    pub(super) fn prescribe(&mut self, choice: FetchChoice) {
        if choice.takes_turns {
            self.calls.take_turns();
        }
        for rpc_id in 0..RPC_COUNT as u16 {
            let value_bytes = match rpc_id == RequestKind::Get as u16 {
                true => choice.first_bytes,
                false => 0,
            };
            let choice = Choice {
                first_bytes: REPLY_HEADER_BYTES + value_bytes,
                slow_reads: choice.slow_reads,
            };
            self.calls.set_choice(rpc_id, choice);
        }
    }

    /// Longest result, bytes.
    pub(super) fn result_bytes(&self) -> usize {
        self.calls.layout().result_bytes
    }

    /// Whether results are fetched at all.
    pub(super) fn fetches(&self) -> bool {
        self.calls.options().transfer != Transfer::Reply
    }

    /// Counters since the last call of [`take_stats`](Session::take_stats).
    pub(super) fn stats(&self) -> &CallerStats {
        self.calls.stats()
    }

    /// Counters since the last call of this function.
    pub(super) fn take_stats(&mut self) -> CallerStats {
        self.calls.take_stats()
    }
}

/// As [`FetchClient::send`]: apart, so that ordinary requests are built in line.
#[cold]
#[inline(never)]
fn send_extended<P: Provider, G: Guards>(
    calls: &mut FetchClient<P, G>,
    queues: &mut Queues<P>,
    place: (usize, u16),
    pieces: &[&[u8]],
) -> Result<(), CallError> {
    calls.send(queues, place, pieces, Ns::MAX)
}

impl<P: Provider, G: Guards> drover_one_sided::Session<P> for Session<P, G> {
    type ClientParams = RfpParams;
    type Welcome = Welcome;
    type Attach = Attach;

    const VERSION: u16 = PROTOCOL_VERSION;

    fn client_params(_: &P::Context, transfer: ResultTransfer) -> RfpParams {
        RfpParams {
            transfer: crate::system::transfer(transfer),
        }
    }

    fn new(
        ctx: &Rc<P::Context>,
        slots: usize,
        welcome: &Welcome,
        now: Ns,
    ) -> Result<Session<P, G>, SetupError> {
        let agreed = Agreed::new(&welcome.terms, now)?;
        let params = conn_params(&welcome.terms, welcome.result_bytes as usize, slots);
        check(welcome, &params.layout)?;
        let both_ways = Access {
            remote_read: true,
            ..Access::REMOTE_WRITE
        };
        let depths = (FetchClient::<P, G>::sends_max(slots), 0);
        let item_bytes_max = agreed.item_bytes_max;
        let mut resources = ConnResources::<P>::new(ctx, agreed, depths, (item_bytes_max, both_ways))?;
        let options = CallerOptions {
            transfer: welcome.transfer,
            ..CallerOptions::default()
        };
        let addrs = (&welcome.inbound, &welcome.results);
        let mut calls = FetchClient::new(ctx, &params, options, addrs)?;
        for rpc_id in (0..RPC_COUNT as u16).filter(|rpc_id| *rpc_id != RequestKind::Get as u16) {
            // Results of updates have no value.
            calls.set_choice(
                rpc_id,
                Choice {
                    first_bytes: REPLY_HEADER_BYTES,
                    slow_reads: options.switch.slow_reads,
                },
            );
        }
        resources.connect(ctx, &welcome.qps)?;
        let in_place = welcome.in_place.as_ref();
        let in_place = in_place.map(|exports| InPlace::new(ctx, exports, slots));
        Ok(Session {
            resources,
            calls,
            in_place: in_place.transpose()?,
            map: welcome.map.clone(),
        })
    }

    fn attach(&self) -> Result<Attach, SetupError> {
        Ok(Attach {
            qps: self.resources.exports()?,
            pushed: self.calls.export()?,
            values: self.resources.values.mr.export(&[])?,
        })
    }

    fn map(&self) -> Option<&PartitionMap> {
        Some(&self.map)
    }

    fn receive(&mut self, frame: &Frame) -> Result<(), SetupError> {
        let NewMap { map } = frame.decode()?;
        let epochs = (map.epoch(), self.map.epoch());
        if epochs.0 <= epochs.1 {
            let (epoch, current) = epochs;
            return Err(BadMap::Older { epoch, current }.into());
        }
        self.map = map;
        Ok(())
    }

    fn resources(&self) -> &ConnResources<P> {
        &self.resources
    }

    fn resources_mut(&mut self) -> &mut ConnResources<P> {
        &mut self.resources
    }

    /// Begins the call of operation `at`, whose place is free: the operation before has ended, and its request has
    /// completed. Deadlines are the operations'.
    #[inline]
    fn send(&mut self, at: usize, request: &Request, key: &[u8], value: &[u8]) -> Option<u64> {
        let number = number_after_key(request);
        // A value whose place is named does not follow.
        let value = number.as_ref().map_or(value, |number| number);
        let header = encode_request(request);
        let (queues, place) = (&mut self.resources.queues, (at, rpc_id(request.kind)));
        let sent = match request.extension {
            None => self.calls.send(queues, place, &[&header, key, value], Ns::MAX),
            Some(extension) => {
                let pieces = [&header[..], &extension.encode(), key, value];
                send_extended(&mut self.calls, queues, place, &pieces)
            }
        };
        match sent {
            Ok(()) => Some(0),
            Err(error) => {
                let agreed = &mut self.resources.agreed;
                tracing::debug!(%error, session = agreed.id, operation = at, "a request could not be sent");
                agreed.broken = true;
                None
            }
        }
    }
}
