//! A server of one core without sockets, and clients of it.

pub mod maps;
pub mod words;

use drover_base::HashSeed;
use drover_mem::{NativeCpu, PageWish};
use drover_memcached::{Core, Executor, NoHooks, Server, ServerHooks, Session, Settings, SingleCore};
use drover_net::{Consumed, Need, Output, Protocol};
use drover_store::{Mode, Partition, PartitionOptions, Sharing};
use std::io::IoSlice;

/// Time when the server started, in seconds since 1970.
pub const START_UNIX_S: u64 = 1_700_000_000;

pub const BUCKETS: usize = 1 << 10;

pub struct Bed {
    pub partition: Partition,
    pub cpu: NativeCpu,
    pub now_s: u32,
    pub core: Core,
    pub server: Server,
}

/// One client connection with its session.
pub struct Client {
    session: Session<NativeCpu>,
    input: Vec<u8>,
    pub output: Output,
    pub is_closed: bool,
    /// What the session waits for; `None` before its first turn.
    pub need: Option<Need>,
}

pub fn partition(log_bytes: usize) -> Partition {
    partition_as(log_bytes)
}

pub fn partition_as<S: Sharing>(log_bytes: usize) -> Partition<S> {
    Partition::create(&PartitionOptions {
        mode: Mode::S3_FIFO,
        log_bytes,
        bucket_count: BUCKETS,
        pages: PageWish::Small,
        ..PartitionOptions::default()
    })
    .expect("memory for a partition")
}

/// Settings of a small server.
pub fn settings() -> Settings {
    Settings {
        version: "1.2.3".to_owned(),
        bucket_count: BUCKETS as u64,
        ..Settings::default()
    }
}

pub fn server(core_count: usize, settings: Settings, host: Box<dyn ServerHooks>) -> Server {
    let hasher = HashSeed::new(1, 2).hasher();
    Server::new(hasher, START_UNIX_S, core_count, settings, host)
}

impl Bed {
    pub fn new() -> Bed {
        Bed::with(settings(), Box::new(NoHooks))
    }

    pub fn with(settings: Settings, host: Box<dyn ServerHooks>) -> Bed {
        Bed {
            partition: partition(8 << 20),
            cpu: NativeCpu::new(1),
            now_s: 100,
            core: Core::default(),
            server: server(1, settings, host),
        }
    }

    pub fn executor<'d>(&'d mut self, router: &'d mut SingleCore) -> Executor<'d, NativeCpu> {
        Executor {
            partition: &mut self.partition,
            cpu: &self.cpu,
            now_s: self.now_s,
            core: &mut self.core,
            server: &self.server,
            router,
        }
    }

    /// Sends `input` from the client and returns the reply.
    pub fn say(&mut self, client: &mut Client, input: &[u8]) -> Vec<u8> {
        self.say_watching(client, input, |_| {})
    }

    /// As [`say`](Bed::say), and calls `watch` with the client after each turn, before its output is taken.
    pub fn say_watching(
        &mut self,
        client: &mut Client,
        input: &[u8],
        mut watch: impl FnMut(&Client),
    ) -> Vec<u8> {
        client.input.extend_from_slice(input);
        let mut told = Vec::new();
        loop {
            let need = self.advance(client);
            watch(client);
            told.extend(client.take());
            client.need = Some(need);
            match need {
                Need::OutputSpace | Need::Turn => {}
                Need::Input { .. } | Need::Notification => return told,
                Need::Tick => return told,
                Need::Replies | Need::Route => panic!("there are no others"),
                Need::Close => {
                    client.is_closed = true;
                    return told;
                }
            }
        }
    }

    fn advance(&mut self, client: &mut Client) -> Need {
        let enough = match client.need {
            Some(Need::Input { at_least }) => client.input.len() >= at_least,
            _ => true,
        };
        if !enough || client.is_closed {
            return client.need.expect("it said what it need");
        }
        let mut single_core = SingleCore;
        let mut executor = self.executor(&mut single_core);
        let Consumed { used, need } =
            client
                .session
                .advance(&mut executor, &client.input, &mut client.output);
        assert!(used <= client.input.len(), "used more than there was");
        client.input.drain(..used);
        if let Need::Input { at_least } = need {
            assert!(at_least > client.input.len(), "it need what it has");
        }
        need
    }
}

impl Client {
    pub fn new() -> Client {
        Client::with(false, 1 << 20)
    }

    pub fn with(must_log_in: bool, output_limit: usize) -> Client {
        Client {
            session: Session::new(must_log_in),
            input: Vec::new(),
            output: Output::new(7, output_limit),
            is_closed: false,
            need: None,
        }
    }

    /// Takes the bytes that can be written to the client.
    pub fn take(&mut self) -> Vec<u8> {
        take(&mut self.output)
    }
}

/// Takes the writable bytes of `output`.
pub fn take(output: &mut Output) -> Vec<u8> {
    let mut told = Vec::new();
    while output.ready_bytes() > 0 {
        let mut slices = [IoSlice::new(&[]); 16];
        let count = output.slices(&mut slices);
        let bytes = slices[..count]
            .iter()
            .flat_map(|slice| slice.to_vec())
            .collect::<Vec<u8>>();
        output.wrote(bytes.len());
        told.extend(bytes);
    }
    told
}
