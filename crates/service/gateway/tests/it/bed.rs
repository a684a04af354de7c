//! A gateway without sockets, the model of a system, and clients.

use drover_base::{Ns, Rng};
use drover_gateway::{Answer, Backend, Errands, GatewayOptions};
use drover_kv::{Completion, Condition, Op, OperationOffers, Outcome, OwnedOp, Refusal, SubmitError, Token};
use drover_mem::{NativeCpu, PageWish};
use drover_memcached::{Core, Executor, NoHooks, Server, Session, Settings};
use drover_net::{Consumed, Need, Output, PendingReply, Protocol};
use drover_store::{Mode, Partition, PartitionOptions};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::rc::Rc;

/// Time when the gateway started, in seconds since 1970.
pub const START_UNIX_S: u64 = 1_700_000_000;

/// An item of the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    pub value: Vec<u8>,
    pub version: u64,
    pub flags: u32,
    pub expire_s: u32,
}

/// What others do before an operation takes effect.
pub type Meddle = Box<dyn FnMut(&mut Model, &Op<'_>)>;

/// The items of a system, in memory.
#[derive(Default)]
pub struct Model {
    pub items: BTreeMap<Vec<u8>, Item>,
    pub now_s: u32,
    versions: u64,
    pub value_bytes_max: usize,
    /// Outcome of the next operations on a key, instead of what they do.
    pub fails: BTreeMap<Vec<u8>, Failure>,
    /// Operations that took effect.
    pub done: Vec<OwnedOp>,
    /// Whether `done` is written.
    pub records: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    Unavailable,
    Indeterminate,
    Full,
    TooLarge,
}

impl Model {
    fn get(&self, key: &[u8]) -> Option<&Item> {
        let now_s = self.now_s;
        self.items
            .get(key)
            .filter(|item| item.expire_s == 0 || item.expire_s > now_s)
    }

    pub fn put(&mut self, key: &[u8], value: &[u8], ttl_s: u32, flags: u32) {
        self.versions += 1;
        let expire_s = if ttl_s == 0 { 0 } else { self.now_s + ttl_s };
        // In the same memory, so that a test can count allocations.
        if let Some(item) = self.items.get_mut(key) {
            item.value.clear();
            item.value.extend_from_slice(value);
            (item.version, item.flags, item.expire_s) = (self.versions, flags, expire_s);
            return;
        }
        let item = Item {
            value: value.to_vec(),
            version: self.versions,
            flags,
            expire_s,
        };
        self.items.insert(key.to_vec(), item);
    }

    /// Executes `op` and calls `then` with its outcome.
    fn execute(&mut self, op: &Op<'_>, then: &mut dyn FnMut(Outcome<'_>)) {
        if self.records {
            self.done.push(OwnedOp::new(op));
        }
        if let Some(failure) = self.fails.get(op.key()) {
            return then(match failure {
                Failure::Unavailable => Outcome::Refused(Refusal::Unavailable),
                Failure::Indeterminate => Outcome::Indeterminate,
                Failure::Full => Outcome::Refused(Refusal::Full),
                Failure::TooLarge if op.value().is_empty() => Outcome::Deleted,
                Failure::TooLarge => Outcome::Refused(Refusal::TooLarge),
            });
        }
        let present = self.get(op.key()).map(|item| item.version);
        let unmet = |condition: Condition| match (condition.holds(present), present) {
            (true, _) => None,
            (false, None) => Some(Outcome::NotFound),
            (false, Some(_)) => Some(Outcome::Exists),
        };
        let outcome = match *op {
            Op::Get { key } => match self.get(key) {
                Some(item) => return then(Outcome::Value(&item.value)),
                None => Outcome::NotFound,
            },
            Op::GetItem { key } => match self.get(key) {
                Some(item) => {
                    return then(Outcome::Found {
                        value: &item.value,
                        version: item.version,
                        flags: item.flags,
                    });
                }
                None => Outcome::NotFound,
            },
            Op::Put {
                key,
                value,
                ttl_s,
                flags,
                condition,
                keep,
            } => match unmet(condition) {
                Some(outcome) => outcome,
                None => {
                    let kept = self.get(key).map(|item| (item.expire_s, item.flags));
                    self.put(key, value, ttl_s, flags);
                    if let (true, Some(kept), Some(item)) = (keep, kept, self.items.get_mut(key)) {
                        (item.expire_s, item.flags) = kept;
                    }
                    Outcome::Stored
                }
            },
            Op::Delete { key, condition } => match unmet(condition) {
                Some(outcome) => outcome,
                None if present.is_some() => {
                    self.items.remove(key);
                    Outcome::Deleted
                }
                None => Outcome::NotFound,
            },
            Op::Touch { key, ttl_s } => match present {
                Some(_) => {
                    let expire_s = if ttl_s == 0 { 0 } else { self.now_s + ttl_s };
                    self.items.get_mut(key).expect("it is present").expire_s = expire_s;
                    Outcome::Touched
                }
                None => Outcome::NotFound,
            },
        };
        then(outcome);
    }
}

/// A client of the model: completes the operations of different keys in any order.
pub struct ModelClient {
    model: Rc<RefCell<Model>>,
    window: usize,
    waiting: VecDeque<(OwnedOp, Token)>,
    spare: Vec<OwnedOp>,
    /// Source of lateness; `None`: every poll completes everything.
    late: Option<Rng>,
    /// Each poll takes a microsecond.
    now: Ns,
    meddle: Rc<RefCell<Option<Meddle>>>,
}

impl Backend for ModelClient {
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        assert!((1..=250).contains(&op.key().len()), "{op:?}");
        if self.waiting.len() >= self.window {
            return Err(SubmitError::WindowFull);
        }
        if op.value().len() > self.model.borrow().value_bytes_max {
            return Err(SubmitError::TooLarge);
        }
        let mut own = self.spare.pop().unwrap_or_else(|| OwnedOp::new(op));
        own.replace(op);
        self.waiting.push_back((own, token));
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        self.now += Ns(1000);
        let mut finished = 0;
        loop {
            let count = self.waiting.len();
            let mut nth = 0;
            match &mut self.late {
                _ if count == 0 => return finished,
                None => {}
                Some(rng) => {
                    if rng.next_u64().is_multiple_of(3) {
                        return finished;
                    }
                    nth = (rng.next_u64() % count as u64) as usize;
                    // Operations on one key keep their order.
                    let key = self.waiting[nth].0.key();
                    let first = self.waiting.iter().position(|(op, _)| op.key() == key);
                    nth = first.expect("it is one of them");
                }
            }
            let (op, token) = self.waiting.remove(nth).expect("it is there");
            let mut model = self.model.borrow_mut();
            if let Some(meddle) = &mut *self.meddle.borrow_mut() {
                meddle(&mut model, &op.as_op());
            }
            model.execute(&op.as_op(), &mut |outcome| sink(Completion { token, outcome }));
            drop(model);
            self.spare.push(op);
            finished += 1;
        }
    }

    fn next_timer(&self) -> Ns {
        Ns::MAX
    }

    fn now(&self) -> Ns {
        self.now
    }
}

/// How the bed is made.
pub struct BedOptions {
    pub offers: OperationOffers,
    /// Operations that the client has in flight.
    pub window: usize,
    /// Commands under way.
    pub capacity: usize,
    /// Seed of late answers.
    pub late: Option<u64>,
    /// Time after which a command that loses its condition is given up.
    pub patience: Ns,
}

impl Default for BedOptions {
    fn default() -> BedOptions {
        BedOptions {
            offers: OperationOffers::POINT,
            window: 16,
            capacity: 32,
            late: None,
            patience: Ns::from_s(5),
        }
    }
}

/// A worker of a gateway.
pub struct Bed {
    pub model: Rc<RefCell<Model>>,
    pub meddle: Rc<RefCell<Option<Meddle>>>,
    pub errands: Errands,
    partition: Partition,
    cpu: NativeCpu,
    pub now_s: u32,
    pub core: Core,
    server: Server,
}

impl Bed {
    pub fn new() -> Bed {
        Bed::with(&BedOptions::default())
    }

    pub fn with(options: &BedOptions) -> Bed {
        let model = Rc::new(RefCell::new(Model {
            now_s: 100,
            value_bytes_max: options.offers.value_bytes_max,
            ..Model::default()
        }));
        Bed::of(model, options)
    }

    /// A further worker, whose system is `model`.
    pub fn of(model: Rc<RefCell<Model>>, options: &BedOptions) -> Bed {
        let settings = Settings {
            version: "1.2.3".to_owned(),
            gateway: Some(drover_memcached::GatewayInfo {
                system: "model".to_owned(),
                address: "nowhere".to_owned(),
                refuses: drover_gateway::refusals(&options.offers),
            }),
            commands: drover_memcached::AllowedCommands {
                flush: false,
                dump: false,
                watch: false,
                shutdown: false,
            },
            ..Settings::default()
        };
        let meddle = Rc::new(RefCell::new(None));
        let client = ModelClient {
            model: model.clone(),
            window: options.window,
            waiting: VecDeque::new(),
            spare: Vec::new(),
            now: Ns::ZERO,
            late: options.late.map(|seed| Rng::new(seed, 0, 0)),
            meddle: meddle.clone(),
        };
        let gateway = GatewayOptions {
            worker: 0,
            worker_count: 1,
            capacity: options.capacity,
            offers: options.offers,
            item_bytes_max: settings.items.item_bytes_max,
            start_unix_s: START_UNIX_S,
            patience: options.patience,
            seed: options.late.unwrap_or(0),
        };
        let hasher = drover_base::HashSeed::new(1, 2).hasher();
        Bed {
            model,
            meddle,
            errands: Errands::new(Box::new(client), &gateway),
            partition: Partition::create(&PartitionOptions {
                mode: Mode::S3_FIFO,
                log_bytes: 1 << 20,
                bucket_count: 1,
                pages: PageWish::Small,
                ..PartitionOptions::default()
            })
            .expect("memory for a partition"),
            cpu: NativeCpu::new(1),
            now_s: 100,
            core: Core::default(),
            server: Server::new(hasher, START_UNIX_S, 1, settings, Box::new(NoHooks)),
        }
    }

    /// Changes the items before each operation takes effect.
    pub fn meddle(&mut self, meddle: impl FnMut(&mut Model, &Op<'_>) + 'static) {
        *self.meddle.borrow_mut() = Some(Box::new(meddle));
    }

    pub fn say(&mut self, client: &mut Client, input: &str) -> String {
        let told = self.say_bytes(client, input.as_bytes());
        String::from_utf8(told).expect("text")
    }

    /// Sends `input` from the client and returns all replies.
    pub fn say_bytes(&mut self, client: &mut Client, input: &[u8]) -> Vec<u8> {
        client.input.extend_from_slice(input);
        let mut told = Vec::new();
        loop {
            self.advance(client);
            client.take(&mut told);
            let waits = matches!(client.need, Some(Need::Input { .. } | Need::Close));
            if client.is_closed || (waits && !client.output.has_holes()) {
                client.is_closed |= client.need == Some(Need::Close);
                return told;
            }
        }
    }

    /// Steps until no command is under way: a reply may come before the last operation.
    pub fn settle(&mut self, client: &mut Client) {
        while self.errands.under_way() > 0 {
            self.advance(client);
        }
    }

    /// One step of a worker with one connection.
    pub fn advance(&mut self, client: &mut Client) {
        self.advance_all(std::slice::from_mut(client));
    }

    /// One step of a worker with these connections.
    pub fn advance_all(&mut self, clients: &mut [Client]) {
        let mut to_clients = |pending: PendingReply, answer: Answer<'_>| fill(clients, pending, answer);
        self.model.borrow_mut().now_s = self.now_s;
        self.errands.set_now_s(self.now_s);
        self.errands.poll(&mut to_clients);
        if let Some(counters) = self.errands.take_counters() {
            self.core.counters.add(&counters);
        }
        for client in &mut *clients {
            self.serve(client);
        }
        self.errands
            .fill_staged(&mut |pending, answer| fill(clients, pending, answer));
    }

    fn serve(&mut self, client: &mut Client) {
        let Client {
            session,
            input,
            output,
            is_closed,
            need,
            ..
        } = client;
        let enough = match *need {
            Some(Need::Input { at_least }) => input.len() >= at_least,
            _ => true,
        };
        if !enough || *is_closed || *need == Some(Need::Close) {
            return;
        }
        let mut executor = Executor {
            partition: &mut self.partition,
            cpu: &self.cpu,
            now_s: self.now_s,
            core: &mut self.core,
            server: &self.server,
            router: &mut self.errands,
        };
        let Consumed { used, need: next } = session.advance(&mut executor, input, output);
        input.drain(..used);
        *need = Some(next);
    }
}

/// Gives an answer to the client that waits for it; it may be gone.
fn fill(clients: &mut [Client], pending: PendingReply, answer: Answer<'_>) {
    let client = clients
        .iter_mut()
        .find(|client| client.number == pending.connection);
    match (client, answer) {
        (None, _) => {}
        (Some(client), Answer::Reply(bytes)) => client.output.fill(pending, bytes),
        (Some(client), Answer::Close) => client.is_closed = true,
    }
}

/// One client connection with its session.
pub struct Client {
    number: u64,
    session: Session<NativeCpu>,
    input: Vec<u8>,
    pub output: Output,
    pub is_closed: bool,
    need: Option<Need>,
}

impl Client {
    pub fn new() -> Client {
        Client::numbered(7)
    }

    /// One of several of a worker.
    pub fn numbered(number: u64) -> Client {
        Client {
            number,
            session: Session::new(false),
            input: Vec::new(),
            output: Output::new(number, 1 << 20),
            is_closed: false,
            need: None,
        }
    }

    pub fn take(&mut self, told: &mut Vec<u8>) {
        while self.output.ready_bytes() > 0 {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = self.output.slices(&mut slices);
            let before = told.len();
            slices[..count]
                .iter()
                .for_each(|slice| told.extend_from_slice(slice));
            self.output.wrote(told.len() - before);
        }
    }
}

impl Client {
    /// Sends without waiting.
    pub fn push(&mut self, said: &str) {
        self.input.extend_from_slice(said.as_bytes());
    }
}

impl Client {
    /// Whether nothing it has said is without its reply.
    pub fn is_answered(&self) -> bool {
        self.input.is_empty() && !self.output.has_holes()
    }
}
