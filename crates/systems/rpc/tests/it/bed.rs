//! A server that echoes and a client that checks it, as actors on any fabric.

use drover_base::{Actor, Cost, Cpu, Ns, Progress};
use drover_rpc::CallError;
use drover_rpc::fetch::{
    CalleeOptions, CallerOptions, ConnParams, FetchClient, FetchServer, Format, Layout, ServerCall,
};
use drover_rt::{Depths, Port, Queues};
use drover_verbs::{Export, Provider, QueuePair, Wc, WcStatus};
use std::cell::RefCell;
use std::rc::Rc;

/// Work of the server for a call, in nanoseconds where a simulated core charges for it.
pub const WORK: Cost = Cost::new("test.work");

/// More than any call takes, wherever it runs.
const PATIENCE: Ns = Ns::from_s(30);

/// Sizes of a connection: places and longest payloads.
pub fn params(place_count: usize) -> ConnParams {
    ConnParams {
        layout: Layout {
            format: Format::V1,
            place_count,
            rpc_count: 2,
            request_bytes: 1000,
            result_bytes: 2000,
        },
        incarnations: (5, 6),
        first_kind: 0,
    }
}

/// What a server does beside echoing.
#[derive(Clone, Copy, Default)]
pub struct Handler {
    /// Units of [`WORK`] for each call.
    pub work: u32,
    /// Only calls below this number, counted from 0, take their time; 0: all.
    pub slow_calls: u64,
}

pub struct EchoServer<P: Provider> {
    pub queues: Queues<P>,
    pub server: FetchServer<P>,
    pub handler: Handler,
    request: Vec<u8>,
    /// A call whose work is done when the core's next step begins: what a step stores is visible when it begins.
    at_work: Option<ServerCall>,
    /// Calls executed.
    pub calls: u64,
}

impl<P: Provider> EchoServer<P> {
    pub fn new(ctx: &Rc<P::Context>, params: &ConnParams, options: CalleeOptions) -> EchoServer<P> {
        EchoServer {
            queues: Queues::<P>::new(ctx, Depths::of_sends(params.layout.place_count)).expect("queues"),
            server: FetchServer::new(&Port::shared(ctx), params, options).expect("a server's end"),
            handler: Handler::default(),
            request: Vec::with_capacity(params.layout.request_bytes),
            at_work: None,
            calls: 0,
        }
    }

    /// Queue pair, inbound memory, results.
    pub fn exports(&self) -> [Export; 3] {
        let (inbound, results) = self.server.exports().expect("exports");
        [self.queues.qp.export().expect("an export"), inbound, results]
    }

    pub fn attach(&mut self, [qp, pushed]: &[Export; 2]) {
        self.queues.qp.connect(qp).expect("a connection");
        self.server.attach(pushed).expect("the client's memory");
    }
}

impl<P: Provider> Actor<P::Cpu> for EchoServer<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let mut wcs = [Wc::default(); 16];
        let count = self.queues.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            assert_eq!(wc.status, WcStatus::Success);
            self.server.completed(wc.wr_id.0);
        }
        let mut is_busy = count > 0;
        if let Some(call) = self.at_work.take() {
            self.server.reply(cpu, &call, &[&self.request]);
            is_busy = true;
        }
        while let Some(call) = self
            .server
            .next(cpu, &mut self.request)
            .expect("an honest client")
        {
            if self.handler.slow_calls == 0 || self.calls < self.handler.slow_calls {
                cpu.charge(WORK, self.handler.work);
            }
            self.calls += 1;
            is_busy = true;
            if self.handler.work > 0 {
                self.at_work = Some(call);
                break;
            }
            self.server.reply(cpu, &call, &[&self.request]);
        }
        self.server.look_again(&mut self.queues, cpu.now());
        self.queues.post(cpu).expect("the queue has space");
        match is_busy {
            true => Progress::Busy,
            false => Progress::Idle {
                wake_at: self.server.next_look(),
            },
        }
    }
}

/// What a client has seen; shared with the test while the client runs in a simulation.
#[derive(Default)]
pub struct Seen {
    pub begun: u64,
    pub ended: u64,
    /// Calls that ended without the result that they should have.
    pub failed: Vec<(u64, Result<Vec<u8>, CallError>)>,
    /// Duration of the last call, and of all together.
    pub last: Ns,
    pub total: Ns,
}

/// The calls under way and what has become of all others.
pub struct Book {
    pub size_of: fn(u64) -> usize,
    pub seen: Rc<RefCell<Seen>>,
    /// The number of each place's call, and when it began.
    calls: Vec<(u64, Ns)>,
}

impl Book {
    /// The request of call `number`.
    fn bytes(&self, number: u64) -> impl Iterator<Item = u8> + use<> {
        let first = (number as u8).wrapping_mul(31);
        (0..(self.size_of)(number)).map(move |at| first.wrapping_add(at as u8))
    }

    fn ended(&self, place: usize, result: Result<&[u8], CallError>, now: Ns) {
        let (number, began) = self.calls[place];
        let is_right = result.is_ok_and(|result| result.iter().copied().eq(self.bytes(number)));
        let mut seen = self.seen.borrow_mut();
        seen.ended += 1;
        seen.last = now - began;
        seen.total += now - began;
        if !is_right {
            seen.failed.push((number, result.map(<[u8]>::to_vec)));
        }
    }
}

pub struct EchoClient<P: Provider> {
    pub queues: Queues<P>,
    pub client: FetchClient<P>,
    /// Measures what verbs take before the first call.
    pub measures: bool,
    /// Calls to make in all.
    pub count: u64,
    pub book: Book,
    out: Vec<u8>,
    request: Vec<u8>,
}

impl<P: Provider> EchoClient<P> {
    pub fn new(
        ctx: &Rc<P::Context>,
        params: &ConnParams,
        options: CallerOptions,
        [qp, inbound, results]: &[Export; 3],
    ) -> EchoClient<P> {
        let places = params.layout.place_count;
        let depths = Depths::of_sends(FetchClient::<P>::sends_max(places));
        let mut queues = Queues::<P>::new(ctx, depths).expect("queues");
        queues.qp.connect(qp).expect("a connection");
        let client = FetchClient::new(ctx, params, options, (inbound, results));
        EchoClient {
            queues,
            client: client.expect("a client's end"),
            measures: false,
            count: 0,
            book: Book {
                size_of: |number| number as usize % 40,
                seen: Rc::default(),
                calls: vec![(0, Ns(0)); places],
            },
            out: Vec::with_capacity(params.layout.result_bytes),
            request: Vec::with_capacity(params.layout.request_bytes),
        }
    }

    pub fn exports(&self) -> [Export; 2] {
        let qp = self.queues.qp.export().expect("an export");
        [qp, self.client.export().expect("an export")]
    }
}

impl<P: Provider> Actor<P::Cpu> for EchoClient<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let now = cpu.now();
        let mut wcs = [Wc::default(); 16];
        let count = self.queues.poll(cpu, &mut wcs);
        let mut is_busy = count > 0;
        for wc in &wcs[..count] {
            assert_eq!(wc.status, WcStatus::Success);
            let ended = self
                .client
                .completed(&mut self.queues, wc.wr_id.0, now, &mut self.out);
            if let Some((place, result)) = ended {
                self.book.ended(place, result.map(|len| &self.out[..len]), now);
            }
        }
        let book = &self.book;
        self.client
            .poll(&mut self.queues, now, &mut self.out, |place, result| {
                book.ended(place, result, now);
                is_busy = true;
            });
        if self.measures {
            is_busy = true;
            if let Some((measured, _)) = self.client.measure(&mut self.queues) {
                assert!(measured.is_known(), "{measured:?}");
                self.client.set_switch(measured.switch());
                self.measures = false;
            }
        }
        for place in 0..self.book.calls.len() {
            if self.measures {
                break;
            }
            let begun = self.book.seen.borrow().begun;
            if begun == self.count || !self.client.is_free(place) {
                continue;
            }
            self.request.clear();
            self.request.extend(self.book.bytes(begun));
            self.book.calls[place] = (begun, now);
            let deadline = now + PATIENCE;
            let sent = self
                .client
                .send(&mut self.queues, (place, 1), &[&self.request], deadline);
            sent.expect("it fits");
            self.book.seen.borrow_mut().begun += 1;
            is_busy = true;
        }
        self.queues.post(cpu).expect("the queue has space");
        match is_busy {
            true => Progress::Busy,
            false => Progress::Idle {
                wake_at: now + Ns::from_us(1),
            },
        }
    }
}

/// A server and a client that are connected.
pub fn connect<P: Provider>(
    (server_ctx, client_ctx): (&Rc<P::Context>, &Rc<P::Context>),
    params: &ConnParams,
    options: CallerOptions,
) -> (EchoServer<P>, EchoClient<P>) {
    let callee = CalleeOptions {
        transfer: options.transfer,
        ..CalleeOptions::default()
    };
    let mut server = EchoServer::new(server_ctx, params, callee);
    let client = EchoClient::new(client_ctx, params, options, &server.exports());
    server.attach(&client.exports());
    (server, client)
}
