//! Arbitrary bytes for HERD: on the control channel of a server, and in the slots of a server's client.

use drover_base::{Actor, HashSeed};
use drover_control::ControlStream;
use drover_kv_herd::control::{Format, FrontEnd, Hello, Message, PROTOCOL_VERSION};
use drover_kv_herd::server::{Acceptor, IdentityOptions, Server, ServerOptions, Worker};
use drover_mem::PageWish;
use drover_store::PartitionOptions;
use drover_verbs::{
    Context, Device, Payload, QpKind, QpOptions, QueuePair, RemoteRegion, SendList, SendWr, WrId,
};
use drover_verbs_suite::loopback::{Loopback, LoopbackContext, LoopbackDevice, LoopbackQp};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

/// Checks that any frame is decoded or refused, and that a decoded message encodes to bytes which survive another
/// decoding. Input: kind (2 bytes, little-endian), descriptor count (1 byte, modulo 20), body.
pub fn control_message(input: &[u8]) {
    let Some(message) = decode_control_message(input) else {
        return;
    };
    let once = message.encode();
    assert_eq!(once.kind, message.kind());
    let again = Message::decode(once.kind, &once.body, once.fds).expect("our own bytes are well-formed");
    assert_eq!(again.encode().body, once.body);
}

/// Decodes an input of [`control_message`]; `None` if it is shorter than 3 bytes or no valid message.
pub fn decode_control_message(input: &[u8]) -> Option<Message> {
    let [low, high, fd_count, body @ ..] = input else {
        return None;
    };
    let fds = (0..fd_count % 20).map(|_| descriptor()).collect();
    Message::decode(u16::from_le_bytes([*low, *high]), body, fds).ok()
}

/// Returns a descriptor of `/dev/null` to attach to messages.
pub(crate) fn descriptor() -> Arc<OwnedFd> {
    static NULL: OnceLock<Arc<OwnedFd>> = OnceLock::new();
    let open = || {
        Arc::new(OwnedFd::from(
            File::open("/dev/null").expect("every system has one"),
        ))
    };
    NULL.get_or_init(open).clone()
}

/// Size of a slot.
const SLOT_BYTES: usize = 128;
const WINDOW: usize = 4;

/// Checks that a worker survives any bytes in any slot. Input: pieces of a slot number (1 byte, modulo the window) and
/// up to 128 bytes that end where the slot ends.
pub fn slots(input: &[u8]) {
    let mut bed = Bed::new();
    for piece in input.chunks(1 + SLOT_BYTES) {
        let [slot, bytes @ ..] = piece else { continue };
        bed.write(usize::from(*slot) % WINDOW, bytes);
        bed.settle();
    }
}

struct Bed {
    acceptor: Acceptor<Loopback>,
    worker: Worker<Loopback>,
    client: LoopbackContext,
    uc: LoopbackQp,
    region: RemoteRegion,
    stream: ControlStream,
}

impl Bed {
    fn new() -> Bed {
        let device = LoopbackDevice::new();
        let (acceptor, mut workers) = Server::<Loopback>::in_pieces(&device, &options()).expect("a server");
        let client = device.context().expect("a context");
        let cq = client.create_cq(64).expect("a queue");
        let kind = |kind| QpOptions::<Loopback>::new(kind, &cq, client.caps());
        let mut uc = client.create_qp(&kind(QpKind::Uc)).expect("a queue pair");
        let ud = client.create_qp(&kind(QpKind::Ud)).expect("a queue pair");
        let (stream, theirs) = ControlStream::pair();
        let mut bed = Bed {
            acceptor,
            worker: workers.remove(0),
            region: RemoteRegion {
                rkey: 0,
                len: 0,
                access: Default::default(),
            },
            uc: client.create_qp(&kind(QpKind::Uc)).expect("a queue pair"),
            client,
            stream,
        };
        bed.acceptor.adopt(theirs);
        bed.send(&Message::Hello(hello()));
        let Message::Welcome(welcome) = bed.receive() else {
            panic!("no welcome")
        };
        uc.connect(&welcome.slots.uc).expect("connected");
        bed.region = bed.client.import_region(&welcome.slots.region).expect("a region");
        bed.send(&Message::Attach {
            uc: uc.export().expect("an export"),
        });
        bed.uc = uc;
        bed.send(&Message::Replies {
            partition: 0,
            ud: ud.export().expect("an export"),
        });
        let Message::Ready = bed.receive() else {
            panic!("not ready")
        };
        bed
    }

    fn write(&mut self, slot: usize, bytes: &[u8]) {
        let mut list = SendList::default();
        let payload = if bytes.is_empty() {
            Payload::EMPTY
        } else {
            list.inline(bytes)
        };
        let remote = self.region.at((slot + 1) * SLOT_BYTES - bytes.len());
        list.push(SendWr::write(remote, payload).signaled(WrId(0)));
        let _ = self.uc.post_send(self.client.cpu(), &list); // a full queue is no news
    }

    fn settle(&mut self) {
        for _ in 0..6 {
            let context = self.acceptor.context();
            self.acceptor.step(context.cpu());
            let context = self.worker.context();
            self.worker.step(context.cpu());
        }
    }

    fn send(&mut self, message: &Message) {
        let frame = message.encode();
        self.stream
            .send(frame.kind, &frame.body, &frame.fds)
            .expect("sent");
        self.settle();
    }

    fn receive(&mut self) -> Message {
        let frame = self
            .stream
            .recv(drover_base::Ns::ZERO)
            .expect("open")
            .expect("an answer");
        Message::decode(frame.kind, &frame.body, frame.fds).expect("a message")
    }
}

fn hello() -> Hello {
    Hello {
        protocol_version: PROTOCOL_VERSION,
        format: Format::D,
        front_end: FrontEnd::Slots,
        window: WINDOW as u16,
        slot_bytes: SLOT_BYTES as u16,
        crc: false,
        resume_epoch: 0,
        auth: Vec::new(),
    }
}

fn options() -> ServerOptions {
    let partition = PartitionOptions {
        log_bytes: 1 << 16,
        bucket_count: 1 << 4,
        pages: PageWish::Small,
        ..PartitionOptions::default()
    };
    ServerOptions {
        partition,
        item_bytes_max: 16 << 10,
        identity: IdentityOptions {
            hash_seed: Some(HashSeed::new(1, 2)),
            epoch: Some(7),
            ..IdentityOptions::default()
        },
        idle_sweeps: 1,
        ..ServerOptions::default()
    }
}
