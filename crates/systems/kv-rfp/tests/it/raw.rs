//! Guests of a shard, which WRITE what they like into their slots.

use drover_control::ControlStream;
use drover_kv_rfp::control::{
    Attach, Hello, PROTOCOL_VERSION, QpExports, Ready, RfpParams, Ticket, Welcome, conn_params,
};
use drover_kv_rfp::layout::{Request, encode_request, number_after_key};
use drover_kv_rfp::{Rfp, Variant};
use drover_mem::PageWish;
use drover_rpc::fetch::{Caller, CallerOptions, Layout, Transfer};
use drover_testkit::beds::OneShard;
use drover_verbs::{
    Access, CompletionQueue, Context, MemoryRegion, Provider, QpKind, QpOptions, QueuePair, RemoteAddr,
    RemoteRegion, SendList, SendWr, Wc, WrId,
};
use std::rc::Rc;

/// Places of a guest.
pub const PLACES: usize = 8;
/// Bytes of a guest's memory for long values.
pub const VALUES_BYTES: usize = 4096;

/// A shard, honest clients, and guests that WRITE what they like into their slots.
pub type Cluster<P, V> = OneShard<Rfp<V>, P>;

/// Lets guests in.
pub trait Guests<P: Provider> {
    /// The server's answer to a client whose last session had the ticket `previous`, and the control channel.
    fn greet(&mut self, previous: Ticket) -> (ControlStream, Welcome);

    /// Attaches a client.
    fn attach(&mut self, stream: &mut ControlStream, attach: Attach);

    /// Somebody with slots of its own.
    fn guest(&mut self, previous: Ticket) -> Guest<P>;
}

impl<P: Provider, V: Variant> Guests<P> for Cluster<P, V> {
    fn greet(&mut self, previous: Ticket) -> (ControlStream, Welcome) {
        let mut stream = self.dial();
        let hello = Hello {
            version: PROTOCOL_VERSION,
            slots: PLACES as u16,
            shard: 0,
            shard_count: self.server.host().map().owners().len() as u16,
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

    fn attach(&mut self, stream: &mut ControlStream, attach: Attach) {
        stream.send_message(&attach).expect("space");
        let _: Ready = self.receive(stream).decode().expect("ready");
    }

    fn guest(&mut self, previous: Ticket) -> Guest<P> {
        let (mut stream, welcome) = self.greet(previous);
        let guest = Guest::new(&self.ctx, &welcome);
        self.attach(&mut stream, guest.attach());
        Guest {
            _stream: Some(stream),
            ..guest
        }
    }
}

pub struct Guest<P: Provider> {
    /// The server notices when it ends.
    _stream: Option<ControlStream>,
    qp: P::Qp,
    /// The one to its slots, where the fabric isolates clients.
    port: Option<P::Qp>,
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
        let connected = |peer| {
            let options = QpOptions::<P>::new(QpKind::Rc, &cq, ctx.caps());
            let mut qp = ctx.create_qp(&options).expect("a queue pair");
            qp.connect(peer).expect("a connection");
            qp
        };
        Guest {
            _stream: None,
            qp: connected(&welcome.qps.qp),
            port: welcome.qps.port.as_ref().map(connected),
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

    pub fn attach(&self) -> Attach {
        let [pushed, values] = [&self.pushed, &self.values].map(|mr| mr.export(&[]).expect("an export"));
        let export = |qp: &P::Qp| qp.export().expect("an export");
        let qps = QpExports {
            qp: export(&self.qp),
            port: self.port.as_ref().map(export),
        };
        Attach { qps, pushed, values }
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
        let qp = self.port.as_mut().unwrap_or(&mut self.qp);
        let _ = qp.post_send(self.ctx.cpu(), &list);
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
