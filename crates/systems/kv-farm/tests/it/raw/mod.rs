//! Guests of a shard on loopback, which WRITE what they like into their rings.

use drover_base::Ns;
use drover_control::ControlStream;
use drover_kv_farm::Farm;
use drover_kv_farm::control::{
    Attach, FarmParams, Hello, PROTOCOL_VERSION, QpExports, Ready, Ticket, Welcome,
};
use drover_mem::PageWish;
use drover_rpc::ring::NOTICE_BYTES;
use drover_testkit::beds::OneShard;
use drover_verbs::{
    Access, CompletionQueue, Context, MemoryRegion, Provider, QpKind, QpOptions, QueuePair, RemoteRegion,
    SendList, SendWr, Wc, WrId,
};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use std::rc::Rc;

/// A shard, honest clients, and guests that WRITE what they like into their rings.
pub type Cluster = OneShard<Farm, Loopback>;

/// A shard without clients.
pub fn cluster() -> Cluster {
    Cluster::new(LoopbackDevice::with_options(LoopbackOptions {
        tick: Ns::from_us(5),
        ..LoopbackOptions::default()
    }))
}

/// Lets guests in.
pub trait Guests {
    /// Somebody with a ring of its own, whose last session had the ticket `previous`.
    fn guest(&mut self, previous: Ticket) -> Guest;
}

impl Guests for Cluster {
    fn guest(&mut self, previous: Ticket) -> Guest {
        let mut stream = self.dial();
        let hello = Hello {
            version: PROTOCOL_VERSION,
            slots: 8,
            shard: 0,
            shard_count: 1,
            previous,
            secret: Vec::new(),
            params: FarmParams { sums: false },
        };
        stream.send_message(&hello).expect("space");
        let welcome: Welcome = self.receive(&mut stream).decode().expect("a welcome");
        let mut guest = Guest::new(&self.ctx, stream, &welcome);
        let attach = Attach {
            qps: QpExports {
                qp: guest.qp.export().expect("an export"),
                port: Some(guest.port.export().expect("an export")),
            },
            mailbox: guest.mailbox.export(&[]).expect("an export"),
            values: guest.values.export(&[]).expect("an export"),
        };
        guest.stream.send_message(&attach).expect("space");
        let _: Ready = self.receive(&mut guest.stream).decode().expect("ready");
        guest
    }
}

type Of<P> = <P as Provider>::Mr;

pub struct Guest {
    stream: ControlStream,
    qp: <Loopback as Provider>::Qp,
    port: <Loopback as Provider>::Qp,
    cq: <Loopback as Provider>::Cq,
    mailbox: Of<Loopback>,
    values: Of<Loopback>,
    bytes: Of<Loopback>,
    ring: RemoteRegion,
    ticket: Ticket,
    ctx: Rc<<Loopback as Provider>::Context>,
}

impl Guest {
    fn new(ctx: &Rc<<Loopback as Provider>::Context>, stream: ControlStream, welcome: &Welcome) -> Guest {
        let memory = |bytes, access| {
            let region = ctx.alloc(bytes, PageWish::Small).expect("memory");
            ctx.register(&region, access).expect("a region")
        };
        let cq = ctx.create_cq(64).expect("a queue");
        let connected = |peer| {
            let options = QpOptions::<Loopback>::new(QpKind::Rc, &cq, ctx.caps());
            let mut qp = ctx.create_qp(&options).expect("a queue pair");
            qp.connect(peer).expect("a connection");
            qp
        };
        let port = welcome.qps.port.as_ref().expect("a ring behind a port");
        Guest {
            stream,
            qp: connected(&welcome.qps.qp),
            port: connected(port),
            cq,
            mailbox: memory(
                NOTICE_BYTES + 8 * welcome.reply_bytes as usize,
                Access::REMOTE_WRITE,
            ),
            values: memory(4096, Access::ALL),
            bytes: memory(64 << 10, Access::LOCAL_READ),
            ring: ctx.import_region(&welcome.ring).expect("a ring"),
            ticket: welcome.terms.ticket,
            ctx: ctx.clone(),
        }
    }

    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// WRITES `bytes` to its ring.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes.region().copy_in(0, bytes);
        let mut list = SendList::default();
        list.push(SendWr::write(self.ring.at(offset), self.bytes.sge(0, bytes.len())).signaled(WrId(0)));
        // The server may have sent it away already.
        let _ = self.port.post_send(self.ctx.cpu(), &list);
        let _ = self.cq.poll(self.ctx.cpu(), &mut [Wc::default(); 8]);
    }
}
