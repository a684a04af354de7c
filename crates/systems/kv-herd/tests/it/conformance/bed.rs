//! [`HerdBed`]: a HERD server and its clients, all stepped in one thread, on any [`Ground`].

use drover_base::{Actor, Cpu, Ns};
use drover_control::LocalListener;
use drover_kv::{Offers, System};
use drover_kv_herd::Herd;
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_kv_herd::server::{Acceptor, Server, ServerOptions, Worker};
use drover_mem::PageWish;
use drover_store::{Mode, PartitionOptions};
use drover_testkit::beds::{Ground, connected};
use drover_testkit::kv_conformance::{Bed, BedOptions};
use drover_verbs::{Context, Device, Provider};
use std::rc::Rc;

/// A HERD server and its clients on the fabric `G`.
pub struct HerdBed<G: Ground> {
    device: <G::P as Provider>::Device,
    options: BedOptions,
    acceptor: Acceptor<G::P>,
    workers: Vec<Worker<G::P>>,
    ctx: Rc<<G::P as Provider>::Context>,
    listener: LocalListener,
}

/// The power of two at or below `bytes`.
fn floor_power_of_two(bytes: usize) -> usize {
    1 << bytes.ilog2()
}

/// Returns the options with which beds start a HERD server for `options`. The memory is rounded down to a power of two.
pub fn server_options(options: &BedOptions) -> ServerOptions {
    let log_bytes = floor_power_of_two(options.memory_bytes);
    ServerOptions {
        partition_count: options.partition_count,
        partition: PartitionOptions {
            mode: if options.store_mode {
                Mode::Store
            } else {
                Mode::S3_FIFO
            },
            log_bytes,
            bucket_count: (log_bytes / 64 / 4).max(16),
            pages: PageWish::Small,
            ..PartitionOptions::default()
        },
        item_bytes_max: options.item_bytes_max,
        idle_sweeps: 1,
        ..ServerOptions::default()
    }
}

/// Returns the options of HERD clients for `options`.
pub fn client_options(options: &BedOptions) -> ClientOptions {
    ClientOptions {
        window: options.window,
        slot_bytes: 320,
        ..ClientOptions::default()
    }
}

impl<G: Ground> Bed for HerdBed<G> {
    type P = G::P;
    type Client = HerdClient<G::P>;

    fn offers() -> Offers {
        <Herd as System>::FACTS.offers
    }

    fn start(options: &BedOptions) -> HerdBed<G> {
        let device = G::open(options);
        let (acceptor, workers) = Server::in_pieces(&device, &server_options(options)).expect("a server");
        let ctx = Rc::new(G::for_clients(&device, options).context().expect("a context"));
        HerdBed {
            device,
            options: options.clone(),
            acceptor,
            workers,
            ctx,
            listener: LocalListener::new(),
        }
    }

    fn connect(&mut self) -> HerdClient<G::P> {
        let ctx = self.ctx.clone();
        let options = ClientOptions {
            deadline: G::DEADLINE,
            ..client_options(&self.options)
        };
        let client = HerdClient::new(ctx.clone(), Dial::at(&self.listener), options);
        connected::<G::P, _>(client, &*ctx, || self.step())
    }

    fn cpu(&self) -> &<G::P as Provider>::Cpu {
        self.ctx.cpu()
    }

    fn step(&mut self) {
        self.ctx.cpu().refresh();
        while let Some(stream) = self.listener.accept() {
            self.acceptor.adopt(stream);
        }
        let ctx = self.acceptor.context();
        ctx.cpu().refresh();
        self.acceptor.step(ctx.cpu());
        for worker in &mut self.workers {
            let ctx = worker.context();
            ctx.cpu().refresh();
            worker.step(ctx.cpu());
        }
    }

    fn crash_and_restart(&mut self) -> bool {
        let (acceptor, workers) =
            Server::in_pieces(&self.device, &server_options(&self.options)).expect("a server");
        self.acceptor = acceptor;
        self.workers = workers;
        true
    }

    fn pass_seconds(&mut self, seconds: u64) {
        G::pass(&self.device, Ns::from_s(seconds));
        self.step();
    }
}
