//! HERD as a system of workers: how its server and its clients are opened with the options of a run, what its
//! non-clients say, and its [planted mistakes](mod@planted).
//!
//! Only this folder names the system.

pub mod planted;

use crate::actors::{Core, Fabric};
use crate::subject::{Planted, Subject, SubjectJob};
use crate::workers::non_client::Behaviour;
use crate::workers::options::{Options, Overlap};
use crate::workers::{ClientCounter, SimAcceptor, SimClient, SimWorker, WorkerSystem, Wrong};
use drover_base::{HashSeed, Ns};
use drover_control::{ATTEMPT_MAX, ControlStream, Dial};
use drover_kv::{Completion, SetupError, System};
pub use drover_kv_herd::Herd;
use drover_kv_herd::client::{ClientOptions, HerdClient, RECONNECT_MAX};
use drover_kv_herd::control::{Format, FrontEnd, Hello, Message, PROTOCOL_VERSION};
use drover_kv_herd::server::{
    Acceptor, ClientLimits, IdentityOptions, Mistake, ReplyOptions, RequestRules, ServeMode, Server,
    ServerOptions, Worker,
};
use drover_verbs_sim::Sim;
use drover_verbs_suite::faulty::FaultyDevice;
use planted::SimVariant;

/// Runs `job` with HERD if `name` is its name.
///
/// # Errors
/// `job` itself, if `name` is another.
pub fn with<J: SubjectJob>(name: &str, job: J) -> Result<J::Answer, J> {
    match name == <Herd as Subject>::NAME {
        true => Ok(job.run::<Herd>()),
        false => Err(job),
    }
}

impl WorkerSystem for Herd {
    const NAME: &'static str = <Herd as System>::FACTS.name;
    type Mistake = Mistake;
    const PLANTED: &'static [Planted<Wrong<Mistake>>] = planted::ALL;

    type Acceptor = Acceptor<Fabric, SimVariant>;
    type Worker = Worker<Fabric, SimVariant>;
    /// A client of either format.
    type Client = HerdClient<Fabric, Format>;
    const COUNTERS: &'static [ClientCounter<Self::Client>] = &[
        ("retransmissions", |client| client.stats().retransmits),
        ("slots resynchronised", |client| client.stats().resyncs),
        ("reconnections", |client| client.stats().reconnects),
        ("bulk transfers", |client| client.stats().bulk_transfers),
    ];

    const TIMERS: &'static [Ns] = &[
        Ns::from_us(250), // the client checks its timers
        Ns::from_ms(1),   // first retransmission at the earliest; a torn request is given up
        Ns::from_ms(2),   // second retransmission
        Ns::from_ms(32),  // last retransmission
        Ns::from_ms(63),  // a request is given up and asked about
        Ns::from_ms(100), // replies without a completion count as lost
        Ns::from_ms(200), // longest wait before another attempt to connect
        Ns::from_s(1),    // heartbeat
        Ns::from_s(3),    // a silent peer is given up
        Ns::from_s(5),    // a handshake is given up
    ];
    /// The handshake takes well under 100 ms.
    const READY_MAX: Ns = Ns(RECONNECT_MAX.0 - ATTEMPT_MAX.0 + Ns::from_ms(100).0);
    const POLL_COST: &'static str = "herd.poll";
    const NON_CLIENTS: &'static [Behaviour] = NON_CLIENTS;

    fn open(
        device: &FaultyDevice<Sim>,
        options: &Options,
        start: u64,
        mistake: Option<Mistake>,
    ) -> (Self::Acceptor, Vec<Self::Worker>) {
        let variant = SimVariant {
            mistake,
            paper_format: options.client.paper_format,
        };
        Server::<Fabric>::in_pieces_as(device, &server_options(options, start), variant)
            .expect("options that fit the fabric")
    }

    fn connect(core: Core, dial: Dial, options: &Options) -> Self::Client {
        let format = match options.client.paper_format {
            true => Format::P,
            false => Format::D,
        };
        HerdClient::with_format(core, dial, client_options(options), format)
    }
}

fn server_options(options: &Options, start: u64) -> ServerOptions {
    let server = &options.server;
    ServerOptions {
        partition_count: server.partition_count,
        partition: server.partition,
        item_bytes_max: server.item_bytes_max,
        clients: ClientLimits {
            count_max: match server.full_house {
                true => options.clients,
                false => 32,
            },
            with_slots_max: server.slot_clients_max,
            datagram_recvs: server.datagram_recvs,
            ..ClientLimits::default()
        },
        mode: match server.overlap {
            Overlap::Batch(batch) => ServeMode::Batch { batch },
            Overlap::Pipeline { drain } => ServeMode::Pipeline { drain },
        },
        requests: RequestRules {
            auth: options.secret.to_vec(),
            ..RequestRules::default()
        },
        identity: IdentityOptions {
            epoch: Some(start),
            hash_seed: Some(HashSeed::new(options.network.messages.seed, start)),
            ..IdentityOptions::default()
        },
        replies: ReplyOptions {
            signal_period: server.signal_period,
            ..ReplyOptions::default()
        },
        idle_sweeps: 1,
        ..ServerOptions::default()
    }
}

fn client_options(options: &Options) -> ClientOptions {
    let client = &options.client;
    ClientOptions {
        window: client.window,
        slot_bytes: client.slot_bytes,
        front_end: match client.datagrams {
            true => FrontEnd::Datagrams,
            false => FrontEnd::Slots,
        },
        crc: client.checksum,
        deadline: client.deadline,
        post_batch: client.post_batch,
        waiting_max: client.waiting_max,
        bulk_chunks: client.bulk_chunks,
        auth: options.secret.to_vec(),
        ..ClientOptions::default()
    }
}

impl SimAcceptor for Acceptor<Fabric, SimVariant> {
    fn context(&self) -> Core {
        Acceptor::context(self)
    }

    fn adopt(&mut self, stream: ControlStream) {
        Acceptor::adopt(self, stream);
    }

    fn session_count(&self) -> usize {
        Acceptor::session_count(self)
    }

    fn stop(&mut self) {
        Acceptor::stop(self);
    }
}

impl SimWorker for Worker<Fabric, SimVariant> {
    fn context(&self) -> Core {
        Worker::context(self)
    }

    fn client_count(&self) -> usize {
        self.stats().clients
    }

    fn restart(&mut self) {
        Worker::restart(self).expect("a partition could be made before");
    }
}

impl SimClient for HerdClient<Fabric, Format> {
    fn is_ready(&self) -> bool {
        HerdClient::is_ready(self)
    }

    fn take_error(&mut self) -> Option<SetupError> {
        HerdClient::take_error(self)
    }

    fn epoch(&self) -> Option<u64> {
        HerdClient::epoch(self)
    }

    fn partition_count(&self) -> Option<usize> {
        HerdClient::partition_count(self)
    }

    fn close(&mut self, sink: &mut impl FnMut(Completion<'_>)) {
        HerdClient::close(self, sink);
    }

    fn ask_server_stats(&mut self) {
        HerdClient::ask_server_stats(self);
    }

    fn take_server_stats(&mut self) -> Option<String> {
        HerdClient::take_server_stats(self)
    }
}

const NON_CLIENTS: &[Behaviour] = &[
    ("and asks for statistics", |stream| {
        send(stream, &Message::StatsRequest);
    }),
    ("with another version", |stream| {
        let protocol_version = PROTOCOL_VERSION + 1;
        let hello = Hello {
            protocol_version,
            ..hello()
        };
        send(stream, &Message::Hello(hello));
    }),
    ("without a word of welcome", |stream| {
        let auth = b"ajar".to_vec();
        send(stream, &Message::Hello(Hello { auth, ..hello() }));
    }),
    ("and wants what the paper had, as datagrams", |stream| {
        let (format, front_end) = (Format::P, FrontEnd::Datagrams);
        let hello = Hello {
            format,
            front_end,
            ..hello()
        };
        send(stream, &Message::Hello(hello));
    }),
    ("and begins in the middle", |stream| {
        send(
            stream,
            &Message::BulkOpen {
                chunk_count: 1,
                short_count: 1,
            },
        );
    }),
    ("and talks nonsense", |stream| {
        let frame = Message::Hello(hello()).encode();
        let _ = stream.send(frame.kind, &frame.body[1..], &[]);
    }),
    ("and thinks better of it", |stream| {
        send(stream, &Message::Hello(hello()));
        send(stream, &Message::Bye);
    }),
];

fn hello() -> Hello {
    Hello {
        protocol_version: PROTOCOL_VERSION,
        format: Format::D,
        front_end: FrontEnd::Slots,
        window: 1,
        slot_bytes: 64,
        crc: false,
        resume_epoch: 0,
        auth: b"open".to_vec(),
    }
}

fn send(stream: &mut ControlStream, message: &Message) {
    let frame = message.encode();
    // The server may have closed the channel.
    let _ = stream.send(frame.kind, &frame.body, &frame.fds);
}
