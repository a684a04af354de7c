//! Values too long for a slot, through bulk memory.

use crate::server::elsewhere::Member;
use crate::server::fake::{Fake, World, options};
use drover_base::crc32c;
use drover_kv_herd::control::Message;
use drover_kv_herd::layout::{Bulk, SlotOp, Status};
use drover_kv_herd::server::Mistake;
use drover_mem::PageWish;
use drover_rt::ChunkMap;
use drover_verbs::*;
use drover_verbs_suite::loopback::{Loopback, LoopbackCq, LoopbackMr, LoopbackQp};

/// A client's end of its bulk memory.
struct Chunks {
    qp: LoopbackQp,
    cq: LoopbackCq,
    memory: LoopbackMr,
    remote: RemoteRegion,
    map: ChunkMap,
}

impl Chunks {
    fn open(world: &mut World, fake: &mut Fake, chunk_count: u8) -> Chunks {
        fake.send_control(&Message::BulkOpen {
            chunk_count,
            short_count: 3,
        });
        world.settle();
        let Some(Message::BulkReady {
            chunk_bytes,
            chunk_count: count,
            short_bytes,
            short_count,
            region,
            rc,
        }) = fake.receive()
        else {
            panic!("no bulk memory");
        };
        assert_eq!((count, short_count), (chunk_count, 3));
        let map = ChunkMap {
            long_bytes: chunk_bytes as usize,
            long_count: usize::from(count),
            short_bytes: short_bytes as usize,
            short_count: usize::from(short_count),
        };
        let ctx = fake.ctx.clone();
        let cq = ctx.create_cq(16).expect("cq");
        let mut qp = ctx
            .create_qp(&QpOptions::<Loopback>::new(QpKind::Rc, &cq, ctx.caps()))
            .expect("rc");
        qp.connect(&rc).expect("connect");
        fake.send_control(&Message::BulkAttach {
            rc: qp.export().expect("export"),
        });
        world.settle();
        assert!(matches!(fake.receive(), Some(Message::Ready)));
        let memory = ctx.alloc(chunk_bytes as usize, PageWish::Small).expect("memory");
        Chunks {
            qp,
            cq,
            memory: ctx.register(&memory, Access::LOCAL).expect("mr"),
            remote: ctx.import_region(&region).expect("region"),
            map,
        }
    }

    fn transfer(&mut self, fake: &Fake, write: bool, chunk: u32, len: usize) {
        let remote = self.remote.at(self.map.place(chunk).expect("a chunk").0);
        let local = self.memory.sge(0, len);
        let wr = if write {
            SendWr::write(remote, local)
        } else {
            SendWr::read(remote, local)
        };
        let mut list = SendList::default();
        list.push(wr.signaled(WrId(0)));
        self.qp.post_send(fake.ctx.cpu(), &list).expect("posted");
        let mut wcs = [Wc::default(); 2];
        assert_eq!(self.cq.poll(fake.ctx.cpu(), &mut wcs), 1);
        assert_eq!(wcs[0].status, WcStatus::Success);
    }

    fn put(
        &mut self,
        world: &mut World,
        fake: &mut Fake,
        chunk: u32,
        key: &[u8],
        value: &[u8],
        crc: u32,
    ) -> Status {
        self.memory.region().copy_in(0, value);
        self.transfer(fake, true, chunk, value.len());
        let bulk = Bulk {
            chunk,
            len: value.len() as u32,
            crc,
        };
        fake.call(world, SlotOp::PutBulk, key, &bulk.to_bytes()).status
    }

    /// The value of `key` through a chunk, or in the reply; `Err` with its length if it is longer than the chunk.
    fn get(
        &mut self,
        world: &mut World,
        fake: &mut Fake,
        chunk: u32,
        key: &[u8],
    ) -> Option<Result<Vec<u8>, u32>> {
        let request = Bulk {
            chunk,
            len: self.map.place(chunk).expect("a chunk").1 as u32,
            crc: 0,
        };
        let reply = fake.call(world, SlotOp::GetBulk, key, &request.to_bytes());
        match reply.status {
            Status::NotFound => return None,
            Status::Ok => return Some(Ok(reply.payload)),
            status => assert_eq!(status, Status::Bulk),
        }
        if let Ok(len) = reply.payload[..].try_into() {
            return Some(Err(u32::from_le_bytes(len)));
        }
        let bulk = Bulk::from_bytes(reply.payload[..].try_into().expect("12 bytes"));
        assert_eq!(bulk.chunk, chunk);
        self.transfer(fake, false, chunk, bulk.len as usize);
        let mut value = vec![0; bulk.len as usize];
        self.memory.region().copy_out(0, &mut value);
        assert_eq!(crc32c(&value), bulk.crc);
        Some(Ok(value))
    }
}

#[test]
fn long_values_go_and_come() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    let mut chunks = Chunks::open(&mut world, &mut fake, 2);
    for len in [0, 1, 1000, 1001, 40_000, 64 << 10] {
        let value: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
        let crc = crc32c(&value);
        assert_eq!(
            chunks.put(&mut world, &mut fake, 1, b"k", &value, crc),
            Status::Ok
        );
        for chunk in [0, 4] {
            let want = match len > chunks.map.place(chunk).expect("a chunk").1 {
                true => Err(len as u32),
                false => Ok(value.clone()),
            };
            assert_eq!(
                chunks.get(&mut world, &mut fake, chunk, b"k"),
                Some(want),
                "{len}"
            );
        }
        let reply = fake.call(&mut world, SlotOp::Get, b"k", b"");
        match len {
            0..=1000 => assert_eq!((reply.status, reply.payload.len()), (Status::Ok, len)),
            _ => assert_eq!(
                (reply.status, reply.payload),
                (Status::Bulk, (len as u32).to_le_bytes().to_vec())
            ),
        }
    }
    assert_eq!(chunks.get(&mut world, &mut fake, 0, b"nothing"), None);
}

/// A GET counts once, whatever it takes to answer it.
#[test]
fn a_get_of_a_long_value_counts_once() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    let mut chunks = Chunks::open(&mut world, &mut fake, 2);
    let value = vec![7; 40_000];
    let crc = crc32c(&value);
    chunks.put(&mut world, &mut fake, 0, b"k", &value, crc);
    assert_eq!(fake.call(&mut world, SlotOp::Get, b"k", b"").status, Status::Bulk);
    assert_eq!(
        chunks.get(&mut world, &mut fake, 4, b"k"),
        Some(Err(40_000)),
        "the chunk is short"
    );
    assert_eq!(chunks.get(&mut world, &mut fake, 0, b"k"), Some(Ok(value)));
    assert_eq!(chunks.get(&mut world, &mut fake, 0, b"none"), None);
    let counted = world.counters().operations;
    assert_eq!((counted.gets, counted.get_hits), (2, 1));
}

#[test]
fn a_value_that_has_not_landed_is_not_stored() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    let mut chunks = Chunks::open(&mut world, &mut fake, 1);
    assert_eq!(
        chunks.put(&mut world, &mut fake, 0, b"k", &[1; 5000], 12345),
        Status::Retry
    );
    assert_eq!(fake.get(&mut world, b"k"), None);
}

#[test]
fn nonsense_is_refused() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    let _chunks = Chunks::open(&mut world, &mut fake, 2);
    for (chunk, len, want) in [
        (5, 10, Status::BadRequest),
        (4, (32 << 10) + 1, Status::BadRequest),
        (u32::MAX, 10, Status::BadRequest),
        (0, (64 << 10) + 1, Status::TooLarge),
        (0, u32::MAX, Status::TooLarge),
    ] {
        let bulk = Bulk { chunk, len, crc: 0 };
        assert_eq!(
            fake.call(&mut world, SlotOp::PutBulk, b"k", &bulk.to_bytes())
                .status,
            want
        );
    }
    fake.send_control(&Message::BulkOpen {
        chunk_count: 1,
        short_count: 0,
    });
    world.settle();
    assert!(
        matches!(fake.receive(), Some(Message::Error { .. })),
        "once per session"
    );
    fake.put(&mut world, b"k", b"the session goes on");
}

/// What a PUT of a long value, and then a GET, are answered at a member that does not serve the key any more.
fn long_value_elsewhere(mistake: Option<Mistake>) -> [Status; 2] {
    let mut member = Member::new();
    let mut world = World::with(&member.options(options()), mistake);
    let mut fake = world.connect();
    let mut chunks = Chunks::open(&mut world, &mut fake, 2);
    let value = [7; 10_000];
    let put = chunks.put(&mut world, &mut fake, 1, b"k", &value, crc32c(&value));
    assert_eq!(put, Status::Ok);
    member.give_to(1);
    let put = chunks.put(&mut world, &mut fake, 1, b"k", &value, crc32c(&value));
    let request = Bulk {
        chunk: 0,
        len: value.len() as u32,
        crc: 0,
    };
    let get = fake.call(&mut world, SlotOp::GetBulk, b"k", &request.to_bytes());
    [put, get.status]
}

#[test]
fn long_values_of_another_member_are_elsewhere() {
    assert_eq!(long_value_elsewhere(None), [Status::Elsewhere; 2]);
}

#[test]
fn flaw_trusts_bulk_is_caught() {
    let answered = long_value_elsewhere(Some(Mistake::TrustsBulk));
    assert_eq!(answered, [Status::Ok, Status::Bulk]);
}
