//! A whole HERD service in one thread: acceptor and workers stepped by hand, clients beside them.

use drover_base::{Actor, Cpu, Ns};
use drover_control::LocalListener;
use drover_kv::{KvClient, Offers, System};
use drover_kv_herd::Herd;
use drover_kv_herd::client::{self, ClientOptions, Dial, HerdClient, Keyed, RequestFormat};
use drover_kv_herd::control::FrontEnd;
use drover_kv_herd::server::{self, Pieces, ServeMode, Server, ServerOptions, Standard, WithPaperFormat};
use drover_mem::PageWish;
use drover_store::{Mode, PartitionOptions};
use drover_testkit::kv_conformance::{Bed, BedOptions, Faults};
use drover_verbs::{Context, Device, Provider};
use drover_verbs_suite::faulty::{FaultOptions, Faulty, FaultyDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use std::marker::PhantomData;
use std::rc::Rc;

fn faults(options: &BedOptions) -> FaultOptions {
    let Faults {
        drop,
        duplicate,
        delay,
        reorder,
        tear,
        breaks: rc_break,
    } = options.faults;
    FaultOptions {
        drop,
        duplicate,
        delay,
        reorder,
        tear,
        rc_break,
        ..FaultOptions::quiet(options.seed)
    }
}

type P = Faulty<Loopback>;

fn open(options: &BedOptions) -> FaultyDevice<Loopback> {
    let inner = LoopbackOptions {
        seed: options.seed,
        tick: Ns::from_us(2),
        ..LoopbackOptions::default()
    };
    FaultyDevice::new(LoopbackDevice::with_options(inner), faults(options))
}

/// What distinguishes one bed from another.
pub trait Variant: 'static {
    type Server: server::Variant + Default;
    type Format: RequestFormat + Default;

    fn client() -> ClientOptions {
        ClientOptions::default()
    }

    fn server(options: &mut ServerOptions) {
        let _ = options;
    }
}

/// The paper's pipeline instead of batches.
pub struct Pipeline;
impl Variant for Pipeline {
    type Server = Standard;
    type Format = Keyed;

    fn server(options: &mut ServerOptions) {
        options.mode = ServeMode::Pipeline { drain: true };
    }
}

/// Requests as datagrams.
pub struct Datagrams;
impl Variant for Datagrams {
    type Server = Standard;
    type Format = Keyed;

    fn client() -> ClientOptions {
        ClientOptions {
            front_end: FrontEnd::Datagrams,
            ..ClientOptions::default()
        }
    }

    fn server(options: &mut ServerOptions) {
        options.clients.datagram_recvs = 256;
    }
}

/// Slots of two lines: many values are bulk.
pub struct SmallSlots;
impl Variant for SmallSlots {
    type Server = Standard;
    type Format = Keyed;

    fn client() -> ClientOptions {
        ClientOptions {
            slot_bytes: 128,
            crc: true,
            ..ClientOptions::default()
        }
    }
}

/// Format P, the paper's.
pub struct Paper;
impl Variant for Paper {
    type Server = WithPaperFormat;
    type Format = client::Paper;
}

pub struct HerdBed<V: Variant> {
    device: <P as Provider>::Device,
    server_options: ServerOptions,
    client_options: ClientOptions,
    server: Option<Pieces<P, V::Server>>,
    listener: LocalListener,
    ctx: Rc<<P as Provider>::Context>,
    variant: PhantomData<V>,
}

impl<V: Variant> HerdBed<V> {
    fn begin(&mut self) {
        let server = Server::in_pieces_as(&self.device, &self.server_options, V::Server::default());
        self.server = Some(server.expect("a server"));
    }
}

impl<V: Variant> Bed for HerdBed<V> {
    type P = P;
    type Client = HerdClient<P, V::Format>;

    fn offers() -> Offers {
        <Herd as System>::FACTS.offers
    }

    fn start(options: &BedOptions) -> Self {
        let mode = match options.store_mode {
            true => Mode::Store,
            false => Mode::S3_FIFO,
        };
        let mut server_options = ServerOptions {
            partition_count: options.partition_count,
            partition: PartitionOptions {
                mode,
                log_bytes: options.memory_bytes,
                bucket_count: 1 << 10,
                pages: PageWish::Small,
                ..PartitionOptions::default()
            },
            item_bytes_max: options.item_bytes_max,
            idle_sweeps: 1,
            ..ServerOptions::default()
        };
        V::server(&mut server_options);
        let device = open(options);
        let mut bed = HerdBed {
            ctx: Rc::new(device.context().expect("a context")),
            device,
            server_options,
            client_options: ClientOptions {
                window: options.window,

                ..V::client()
            },
            server: None,
            listener: LocalListener::new(),
            variant: PhantomData,
        };
        bed.begin();
        bed
    }

    fn connect(&mut self) -> Self::Client {
        let dial = Dial::at(&self.listener);
        let mut client = HerdClient::with_format(
            self.ctx.clone(),
            dial,
            self.client_options.clone(),
            V::Format::default(),
        );
        for _ in 0..10_000_000u32 {
            self.ctx.cpu().refresh();
            client.poll(self.ctx.cpu(), &mut |_| {});
            if client.is_ready() {
                return client;
            }
            self.step();
            if let Some(error) = client.take_error() {
                panic!("{error}");
            }
        }
        panic!("no session");
    }

    fn cpu(&self) -> &<P as Provider>::Cpu {
        self.ctx.cpu()
    }

    fn step(&mut self) {
        self.ctx.cpu().refresh();
        let Some((acceptor, workers)) = &mut self.server else {
            return;
        };
        while let Some(stream) = self.listener.accept() {
            acceptor.adopt(stream);
        }
        let ctx = acceptor.context();
        ctx.cpu().refresh();
        acceptor.step(ctx.cpu());
        for worker in workers {
            let ctx = worker.context();
            ctx.cpu().refresh();
            worker.step(ctx.cpu());
        }
    }

    fn crash_and_restart(&mut self) -> bool {
        self.server = None;
        self.listener.clear();
        self.begin();
        true
    }

    fn pass_seconds(&mut self, seconds: u64) {
        let start = self.ctx.cpu().refresh();
        while self.ctx.cpu().refresh().since(start) < Ns::from_s(seconds) {
            self.step();
        }
    }
}
