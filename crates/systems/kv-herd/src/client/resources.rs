//! Building a [`Session`] from the server's Welcome: queue pairs, memory and tables.

use super::RequestFormat;
use super::options::ClientOptions;
use super::session::{RequestPath, ServerParams, Session};
use crate::control::{FrontEnd, Welcome};
use crate::layout::SlotMap;
use crate::layout::paper;
use drover_base::Ns;
use drover_kv::SetupError;
use drover_mem::{LINE_BYTES, PageWish};
use drover_rt::{DatagramReceiver, Imports, SendQueue, SendQueueOptions, Signals, Staging};
use drover_slots::client::{Routes, Window, request};
use drover_verbs::{Access, Context, Provider, QpKind, QpOptions, QueuePair, UdDest};
use std::rc::Rc;

/// Range of the default for requests posted at once: half a window within this range, on any fabric. On shared memory
/// their lines travel together (8 were 1 to 7 % faster than 4), and the server, too, takes half a window per sweep (in
/// a window of 32, 16 were about a tenth faster than 8).
const POST_BATCH: std::ops::RangeInclusive<usize> = 8..=32;
/// Where nothing is lost, a request in a slot that has no reply waits for a worker that is busy or does not run; only
/// one that has restarted, and forgotten it, must be sent it again. A longer wait would hardly spare any. *(our choice)*
const SLOTS_PATIENCE: Ns = Ns::from_ms(250);
/// There, a datagram is dropped if its worker has no RECV posted: it is overloaded, so it gets some time. *(our choice)*
const DATAGRAMS_PATIENCE: Ns = Ns::from_ms(100);
/// Bytes before the image of a slot in a block of a client that sends datagrams: space for the header.
const DATAGRAM_LEAD_BYTES: usize = 64;

/// The geometry of the slots that the server granted.
///
/// # Errors
/// Its numbers are invalid, or the window is larger than the client asked for.
fn checked_map(options: &ClientOptions, welcome: &Welcome) -> Result<SlotMap, SetupError> {
    let map = SlotMap {
        slot_bytes: usize::from(welcome.slot_bytes),
        window: usize::from(welcome.window),
        partition_count: usize::from(welcome.partition_count),
    };
    let unusable = |what| Err(SetupError::Unusable { what });
    match () {
        () if !map.is_valid() => unusable("geometry of the slots"),
        () if map.window > options.window.max(1) => unusable("a larger window than asked for"),
        () if welcome.reply_qpns.len() != map.partition_count => unusable("number of queue pairs"),
        () => Ok(map),
    }
}

pub(super) fn build_session<P: Provider, F: RequestFormat>(
    ctx: &Rc<P::Context>,
    options: &ClientOptions,
    format: F,
    front_end: FrontEnd,
    welcome: &Welcome,
) -> Result<Session<P, F>, SetupError> {
    let map = checked_map(options, welcome)?;
    let caps = ctx.caps().clone();
    let request_count = map.window * map.partition_count;
    let send_depth = (4 * request_count).clamp(128, caps.send_depth_max.max(1));
    let (long, short) = options.chunk_counts();
    let bulk_depth = 4 * (usize::from(long) + usize::from(short));
    let cq = ctx.create_cq(DatagramReceiver::<P>::recv_count(request_count) + 2 * send_depth + bulk_depth)?;
    let receive = DatagramReceiver::<P>::new(ctx, &cq, request_count, map.body_bytes_max(), send_depth)?;
    let Some(routes) = Routes::new(&welcome.reply_qpns) else {
        return Err(SetupError::Unusable {
            what: "two partitions with one queue pair",
        });
    };
    let mut imports = Imports::new(ctx);
    let front = match front_end {
        FrontEnd::Datagrams => RequestPath::Datagrams {
            dests: Vec::<UdDest>::with_capacity(map.partition_count),
            client_id: welcome.client_id,
            generation: welcome.generation,
        },
        FrontEnd::Slots => build_slots(ctx, &mut imports, welcome, &map, &cq, send_depth)?,
    };
    let paper = format.is_paper();
    let lead_bytes = match (&front, paper) {
        (RequestPath::Slots { .. }, false) => 0,
        (RequestPath::Datagrams { .. }, false) => DATAGRAM_LEAD_BYTES,
        (_, true) => paper::LEAD_BYTES,
    };
    let block_bytes = map.slot_bytes + lead_bytes;
    let signals = Signals::new(send_depth);
    let staging = if block_bytes > caps.inline_bytes_max {
        // A window of requests, their retransmissions, and requests that have left but whose completion is missing.
        let count = 2 * request_count + 2 * signals.list_max();
        let region = ctx.alloc(count * block_bytes, PageWish::Small)?;
        let mr = ctx.register(&region, Access::LOCAL_READ)?;
        Some(Staging::new(mr, count, block_bytes))
    } else {
        None
    };
    let post_batch = match options.post_batch {
        0 => caps
            .post_batch
            .max((map.window / 2).clamp(*POST_BATCH.start(), *POST_BATCH.end())),
        chosen => chosen,
    };
    let params = ServerParams {
        epoch: welcome.epoch,
        partition_count: map.partition_count,
        body_bytes_max: map.body_bytes_max(),
        item_bytes_max: welcome.item_bytes_max as usize,
        crc: welcome.crc || options.crc,
        format,
        plain_bytes_max: match (&front, paper || welcome.crc || options.crc) {
            (RequestPath::Slots { .. }, false) => plain_bytes_max(map.slot_bytes.min(caps.inline_bytes_max)),
            _ => 0,
        },
        plain_rkey: match &front {
            RequestPath::Slots { remote, .. } => remote.rkey,
            RequestPath::Datagrams { .. } => 0,
        },
        keeps_order: caps.writes.lossless && !paper && matches!(front, RequestPath::Slots { .. }),
        patience: match &front {
            _ if !caps.writes.lossless => Ns::ZERO,
            RequestPath::Slots { .. } => SLOTS_PATIENCE,
            RequestPath::Datagrams { .. } => DATAGRAMS_PATIENCE,
        },
    };
    let sends = SendQueueOptions {
        request_count,
        block_bytes,
        signals,
        post_batch: post_batch.min(signals.list_max()),
        inline_bytes: caps.inline_bytes_max,
        staging,
    };
    Ok(Session {
        params,
        window: Window::new(map, 0),
        hasher: welcome.hash_seed.hasher(),
        front,
        receive,
        sends: SendQueue::new(sends),
        routes,
        broken: false,
        cq,
        imports,
    })
}

/// Longest body that is built in whole cache lines, one or two, if requests of `bytes` fit a slot and can be sent inline.
fn plain_bytes_max(bytes: usize) -> usize {
    match bytes / LINE_BYTES {
        0 => 0,
        1 => request::body_bytes_max::<LINE_BYTES>(),
        _ => request::body_bytes_max::<{ 2 * LINE_BYTES }>(),
    }
}

/// Creates the UC queue pair from which the client writes its slots, and imports the slots.
fn build_slots<P: Provider>(
    ctx: &Rc<P::Context>,
    imports: &mut Imports<P>,
    welcome: &Welcome,
    map: &SlotMap,
    cq: &P::Cq,
    send_depth: usize,
) -> Result<RequestPath<P>, SetupError> {
    let remote = imports.region(&welcome.slots.region)?;
    if remote.len < map.region_bytes() as u64 || !remote.access.remote_write {
        return Err(SetupError::Unusable {
            what: "region of slots",
        });
    }
    let mut uc = ctx.create_qp(&QpOptions {
        send_depth,
        recv_depth: 1,
        ..QpOptions::new(QpKind::Uc, cq, ctx.caps())
    })?;
    uc.connect(&welcome.slots.uc)?;
    Ok(RequestPath::Slots { uc, remote })
}
