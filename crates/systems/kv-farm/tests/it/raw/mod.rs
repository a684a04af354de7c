//! A cluster on loopback with a server, honest clients, and guests that WRITE what they like into their rings.

use drover_base::{Actor, Cpu, HashSeed, Ns};
use drover_control::{ControlStream, Frame, LocalListener};
use drover_kv::{KvClient, Op};
use drover_kv_farm::client::{ClientOptions, Dial, FarmClient};
use drover_kv_farm::control::{Attach, FarmParams, Hello, PROTOCOL_VERSION, Ready, Ticket, Welcome};
use drover_kv_farm::server::{Server, ServerOptions};
use drover_mem::PageWish;
use drover_one_sided::Membership;
use drover_rpc::ring::NOTICE_BYTES;
use drover_verbs::{
    Access, CompletionQueue, Context, Device, MemoryRegion, Provider, QpKind, QpOptions, QueuePair,
    RemoteRegion, SendList, SendWr, Wc, WrId,
};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use std::rc::Rc;

pub struct Cluster {
    device: LoopbackDevice,
    pub server: Server<Loopback>,
    listener: LocalListener,
    ctx: Rc<<Loopback as Provider>::Context>,
}

pub fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op::Put { key, value, ttl_s: 0 }
}

fn server(device: &LoopbackDevice) -> Server<Loopback> {
    let options = ServerOptions {
        home_count: 256,
        block_count: 32,
        memory_bytes: 1 << 20,
        item_bytes_max: 8192,
        pages: PageWish::Small,
        membership: Membership::alone_with(HashSeed::new(1, 2)),
        ..ServerOptions::default()
    };
    Server::new(device, &options).expect("a server")
}

impl Cluster {
    pub fn new() -> Cluster {
        let device = LoopbackDevice::with_options(LoopbackOptions {
            tick: Ns::from_us(5),
            ..LoopbackOptions::default()
        });
        Cluster {
            server: server(&device),
            ctx: Rc::new(device.context().expect("a context")),
            device,
            listener: LocalListener::new(),
        }
    }

    /// The server goes without a word, and another one comes.
    pub fn restart(&mut self) {
        self.server = server(&self.device);
    }

    pub fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.ctx.cpu().refresh();
            while let Some(stream) = self.listener.accept() {
                self.server.adopt(stream);
            }
            let ctx = self.server.context();
            ctx.cpu().refresh();
            self.server.step(ctx.cpu());
        }
    }

    pub fn client(&mut self) -> FarmClient<Loopback> {
        let dials = vec![Dial::at(&self.listener)];
        let mut client = FarmClient::new(self.ctx.clone(), dials, ClientOptions::default());
        for _ in 0..10_000 {
            client.poll(self.ctx.cpu(), &mut |_| {});
            if client.is_ready() {
                return client;
            }
            self.run(1);
        }
        panic!("no connection: {:?}", client.take_error());
    }

    /// What comes of `op`: the bytes of a value, or a word.
    pub fn ask(&mut self, client: &mut FarmClient<Loopback>, op: Op<'_>) -> String {
        client
            .submit(self.ctx.cpu(), &op, 0)
            .expect("space in the window");
        let mut answer = None;
        for _ in 0..10_000 {
            client.poll(self.ctx.cpu(), &mut |done| {
                answer = Some(match done.outcome {
                    drover_kv::Outcome::Value(value) => format!("{value:?}"),
                    drover_kv::Outcome::Stored => "stored".into(),
                    other => format!("{other:?}"),
                });
            });
            if let Some(answer) = answer {
                return answer;
            }
            self.run(1);
        }
        panic!("{op:?} hangs");
    }

    /// Somebody with a ring of its own, whose last session had the ticket `previous`.
    pub fn guest(&mut self, previous: Ticket) -> Guest {
        let mut stream = self.listener.connect();
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
        let guest = Guest::new(&self.ctx, stream, &welcome);
        self.attach(guest)
    }

    fn attach(&mut self, mut guest: Guest) -> Guest {
        let attach = Attach {
            qp: guest.qp.export().expect("an export"),
            mailbox: guest.mailbox.export(&[]).expect("an export"),
            values: guest.values.export(&[]).expect("an export"),
        };
        guest.stream.send_message(&attach).expect("space");
        let _: Ready = self.receive(&mut guest.stream).decode().expect("ready");
        guest
    }

    fn receive(&mut self, stream: &mut ControlStream) -> Frame {
        for _ in 0..1000 {
            if let Some(frame) = stream.recv(self.ctx.cpu().now()).expect("a whole stream") {
                return frame;
            }
            self.run(1);
        }
        panic!("the server says nothing");
    }
}

type Of<P> = <P as Provider>::Mr;

pub struct Guest {
    stream: ControlStream,
    qp: <Loopback as Provider>::Qp,
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
        let mut qp = ctx
            .create_qp(&QpOptions::<Loopback>::new(QpKind::Rc, &cq, ctx.caps()))
            .expect("a queue pair");
        qp.connect(&welcome.qp).expect("a connection");
        Guest {
            stream,
            qp,
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
        let _ = self.qp.post_send(self.ctx.cpu(), &list);
        let _ = self.cq.poll(self.ctx.cpu(), &mut [Wc::default(); 8]);
    }
}
