//! A cluster with a shard, honest clients, and guests that WRITE what they like into their slots.

use drover_base::{Actor, Cpu};
use drover_control::{ControlStream, Dial, Frame, LocalListener};
use drover_kv::{Completion, ConnectOptions, KvClient, Op, Outcome, ResultTransfer, ServiceClient, Shard};
use drover_kv_rfp::control::{
    Attach, Hello, PROTOCOL_VERSION, Ready, RfpParams, Ticket, Welcome, conn_params,
};
use drover_kv_rfp::layout::{Request, encode_request, number_after_key};
use drover_kv_rfp::server::{Server, ServerOptions};
use drover_kv_rfp::{Rfp, Variant};
use drover_mem::PageWish;
use drover_rpc::fetch::{Caller, CallerOptions, Layout, Transfer};
use drover_testkit::beds::{connected, shard_options};
use drover_testkit::kv_conformance::BedOptions;
use drover_verbs::{
    Access, CompletionQueue, Context, Device, Export, MemoryRegion, Provider, QpKind, QpOptions, QueuePair,
    RemoteAddr, RemoteRegion, SendList, SendWr, Wc, WrId,
};
use std::rc::Rc;

/// Places of a guest.
pub const PLACES: usize = 8;
/// Bytes of a guest's memory for long values.
pub const VALUES_BYTES: usize = 4096;

pub fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op::Put { key, value, ttl_s: 0 }
}

pub struct Cluster<P: Provider, V: Variant> {
    device: P::Device,
    pub server: Server<P, V>,
    listener: LocalListener,
    ctx: Rc<P::Context>,
}

impl<P: Provider, V: Variant> Cluster<P, V> {
    pub fn new(device: P::Device) -> Cluster<P, V> {
        Cluster::with_options(device, |options| options)
    }

    /// With a server whose options `change` has changed.
    pub fn with_options(
        device: P::Device,
        change: impl FnOnce(ServerOptions) -> ServerOptions,
    ) -> Cluster<P, V> {
        Cluster {
            server: Cluster::<P, V>::server(&device, change),
            ctx: Rc::new(device.context().expect("a context")),
            device,
            listener: LocalListener::new(),
        }
    }

    fn server(device: &P::Device, change: impl FnOnce(ServerOptions) -> ServerOptions) -> Server<P, V> {
        let options = BedOptions {
            partition_count: 1,
            ..BedOptions::default()
        };
        let options = change(shard_options::<Rfp<V>, P>(&options, 0));
        Shard::with_options(device, &options, &Default::default()).expect("a shard")
    }

    /// The server goes without a word, and another one comes.
    pub fn restart(&mut self) {
        self.server = Cluster::<P, V>::server(&self.device, |options| options);
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

    /// Runs until the server has `count` clients.
    pub fn run_until_clients(&mut self, count: usize) {
        for _ in 0..100_000 {
            if self.server.client_count() == count {
                return;
            }
            self.run(1);
        }
        panic!("{} clients instead of {count}", self.server.client_count());
    }

    pub fn client(&mut self) -> <Rfp<V> as drover_kv::System>::Client<P> {
        self.client_with(ResultTransfer::Auto)
    }

    pub fn client_with(&mut self, transfer: ResultTransfer) -> <Rfp<V> as drover_kv::System>::Client<P> {
        let dials = vec![Dial::at(&self.listener)];
        let options = ConnectOptions {
            transfer,
            ..ConnectOptions::default()
        };
        let client = ServiceClient::<P>::open(self.ctx.clone(), dials, &options);
        let ctx = self.ctx.clone();
        connected::<P, _>(client, &*ctx, || self.run(1))
    }

    /// The client does what it does without operations.
    pub fn poll(&mut self, client: &mut impl KvClient<P>) {
        self.run(1);
        client.poll(self.ctx.cpu(), &mut |_| {});
    }

    /// What comes of `op`: the bytes of a value, or a word.
    pub fn ask(&mut self, client: &mut impl KvClient<P>, op: Op<'_>) -> String {
        client
            .submit(self.ctx.cpu(), &op, 0)
            .expect("space in the window");
        let mut answer = None;
        for _ in 0..100_000 {
            client.poll(self.ctx.cpu(), &mut |done: Completion<'_>| {
                answer = Some(match done.outcome {
                    Outcome::Value(value) => format!("{value:?}"),
                    Outcome::Stored => "stored".into(),
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

    /// The server's answer to a client whose last session had the ticket `previous`, and the control channel.
    pub fn greet(&mut self, previous: Ticket) -> (ControlStream, Welcome) {
        let mut stream = self.listener.connect();
        let hello = Hello {
            version: PROTOCOL_VERSION,
            slots: PLACES as u16,
            shard: 0,
            shard_count: 1,
            previous,
            secret: Vec::new(),
            params: RfpParams {
                transfer: Transfer::Auto,
            },
        };
        stream.send_message(&hello).expect("space");
        let welcome = self.receive(&mut stream).decode().expect("a welcome");
        (stream, welcome)
    }

    pub fn attach(&mut self, stream: &mut ControlStream, [qp, pushed, values]: [Export; 3]) {
        stream
            .send_message(&Attach { qp, pushed, values })
            .expect("space");
        let _: Ready = self.receive(stream).decode().expect("ready");
    }

    /// Somebody with slots of its own.
    pub fn guest(&mut self, previous: Ticket) -> Guest<P> {
        let (mut stream, welcome) = self.greet(previous);
        let guest = Guest::new(&self.ctx, &welcome);
        self.attach(&mut stream, guest.exports());
        Guest {
            _stream: Some(stream),
            ..guest
        }
    }

    fn receive(&mut self, stream: &mut ControlStream) -> Frame {
        for _ in 0..100_000 {
            if let Some(frame) = stream.recv(self.ctx.cpu().now()).expect("a whole stream") {
                return frame;
            }
            self.run(1);
        }
        panic!("the server says nothing");
    }
}

pub struct Guest<P: Provider> {
    /// The server notices when it ends.
    _stream: Option<ControlStream>,
    qp: P::Qp,
    cq: P::Cq,
    pushed: P::Mr,
    values: P::Mr,
    bytes: P::Mr,
    inbound: RemoteRegion,
    acks: Option<RemoteRegion>,
    caller: Caller,
    incarnations: (u32, u32),
    ticket: Ticket,
    /// Number of the last request.
    sequence: u64,
    ctx: Rc<P::Context>,
}

impl<P: Provider> Guest<P> {
    pub fn new(ctx: &Rc<P::Context>, welcome: &Welcome) -> Guest<P> {
        let params = conn_params(&welcome.terms, welcome.result_bytes as usize, PLACES);
        let layout = params.layout;
        let memory = |bytes, access| {
            let region = ctx.alloc(bytes, PageWish::Small).expect("memory");
            ctx.register(&region, access).expect("a region")
        };
        let cq = ctx.create_cq(64).expect("a queue");
        let options = QpOptions::<P>::new(QpKind::Rc, &cq, ctx.caps());
        let mut qp = ctx.create_qp(&options).expect("a queue pair");
        qp.connect(&welcome.qp).expect("a connection");
        Guest {
            _stream: None,
            qp,
            cq,
            pushed: memory(layout.results_bytes(), Access::REMOTE_WRITE),
            values: memory(VALUES_BYTES, Access::ALL),
            bytes: memory(layout.inbound_bytes(), Access::LOCAL_READ),
            inbound: ctx.import_region(&welcome.inbound).expect("slots"),
            acks: welcome
                .in_place
                .as_ref()
                .map(|exports| ctx.import_region(&exports.acks).expect("acknowledgements")),
            caller: Caller::new(layout, CallerOptions::default(), params.incarnations),
            incarnations: params.incarnations,
            ticket: welcome.terms.ticket,
            sequence: 0,
            ctx: ctx.clone(),
        }
    }

    pub fn exports(&self) -> [Export; 3] {
        let [pushed, values] = [&self.pushed, &self.values].map(|mr| mr.export(&[]).expect("an export"));
        [self.qp.export().expect("an export"), pushed, values]
    }

    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    pub fn layout(&self) -> Layout {
        *self.caller.layout()
    }

    /// WRITEs `bytes` to `offset` of its slots and modes.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let len = bytes.len().min(self.layout().inbound_bytes() - offset);
        self.write_to(self.inbound.at(offset), &bytes[..len]);
    }

    /// WRITEs `bytes` into the acknowledgements of its places.
    pub fn acknowledge(&mut self, bytes: &[u8]) {
        let acks = self.acks.as_ref().expect("a system whose clients READ items");
        self.write_to(acks.at(0), bytes);
    }

    fn write_to(&mut self, remote: RemoteAddr, bytes: &[u8]) {
        self.bytes.region().copy_in(0, bytes);
        let mut list = SendList::default();
        list.push(SendWr::write(remote, self.bytes.sge(0, bytes.len())).signaled(WrId(0)));
        // The server may have sent it away already.
        let _ = self.qp.post_send(self.ctx.cpu(), &list);
        let _ = self.cq.poll(self.ctx.cpu(), &mut [Wc::default(); 8]);
    }

    /// The bytes of the next request of `place`, as a correct client WRITEs them: with a number of its own, and `tail`
    /// behind the request's header.
    pub fn message(&mut self, place: usize, request: &Request, tail: &[u8]) -> Vec<u8> {
        self.sequence += 1;
        let request = &Request {
            sequence: self.sequence,
            ..*request
        };
        let number = number_after_key(request);
        let pieces = [
            &encode_request(request)[..],
            tail,
            number.as_ref().map_or(&[][..], |number| number),
        ];
        let (region, deadline) = (self.bytes.region(), drover_base::Ns::MAX);
        let begun = self
            .caller
            .begin(place, request.kind as u16, &pieces, deadline, region);
        let mut message = vec![0; begun.expect("it fits")];
        region.copy_out(place * self.layout().request_stride(), &mut message);
        // Nobody looks for the result.
        self.caller.sent(place);
        self.caller.lose(|_| {});
        message
    }

    /// The next request of each place is the first one again.
    pub fn begin_again(&mut self) {
        self.caller = Caller::new(self.layout(), CallerOptions::default(), self.incarnations);
    }

    /// WRITEs the next request of `place`.
    pub fn send(&mut self, place: usize, request: &Request, tail: &[u8]) {
        let message = self.message(place, request, tail);
        self.write(place * self.layout().request_stride(), &message);
    }
}
