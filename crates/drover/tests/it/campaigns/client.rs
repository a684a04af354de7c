//! A client process: makes load on command and keeps a journal.

use crate::campaigns::bed::USER;
use crate::campaigns::journal::{Answer, Ask, Command, Key, Record, now};
use drover_base::{Ns, Rng};
use drover_client::{CallError, Client as KvClient, Connected, Credentials, Options};
use drover_kv::{Op, Outcome, Refusal, wait_for_sessions};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_kv_herd::control::FrontEnd;
use drover_testkit::kv_conformance::{value_bytes, value_id};
use drover_verbs::Device;
use drover_verbs_shm::{Shm, ShmDevice};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// Number of clients of a campaign at a time.
pub const CLIENT_COUNT: u8 = 4;
/// Number of keys in a round that all clients write.
const SHARED_KEYS: u8 = 16;
/// Number of keys in a round that one client alone writes, for each client.
const OWN_KEYS: u8 = 8;
/// Maximum number of operations per call.
const BATCH_MAX: u64 = 8;
/// Bytes of a long value: more than fits into a slot, so it moves through bulk memory.
const LONG_BYTES: usize = 3000;
/// Operations per round at full speed; further ones are slow, so that histories stay short however long the parent
/// waits.
pub const OPS_PER_ROUND: u64 = 8_000;
/// Time limit for the first connection, for loaded machines.
const CONNECT_MAX: Ns = Ns::from_s(60);

/// What the parent passes to a client process at its start, in an environment variable.
#[derive(Clone, Debug)]
pub struct Role {
    /// Address of the server.
    pub addr: String,
    /// Number of the client, unique in a campaign.
    pub id: u32,
    /// Place of the client, below [`CLIENT_COUNT`]; a client that replaces another one takes its place.
    pub place: u8,
    pub seed: u64,
    /// Whether the client asks for datagrams instead of slots.
    pub datagrams: bool,
    /// Whether the server's system is HERD; clients of others have few options.
    pub is_herd: bool,
    /// Whether the server lets in the users of a file only.
    pub guarded: bool,
    /// Deadline of the client's operations, ms.
    pub deadline_ms: u64,
    /// Pause between two batches after the first [`OPS_PER_ROUND`] operations of a round, ms.
    pub rest_ms: u64,
}

impl Role {
    /// Encodes the role as one line.
    pub fn encode(&self) -> String {
        let Role {
            addr,
            id,
            place,
            seed,
            datagrams,
            is_herd,
            guarded,
            deadline_ms,
            rest_ms,
        } = self;
        format!("{id}|{place}|{seed}|{datagrams}|{is_herd}|{guarded}|{deadline_ms}|{rest_ms}|{addr}")
    }

    fn decode(text: &str) -> Role {
        let words: Vec<&str> = text.splitn(9, '|').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        Role {
            addr: words[8].to_owned(),
            id: number(0) as u32,
            place: number(1) as u8,
            seed: number(2),
            datagrams: words[3] == "true",
            is_herd: words[4] == "true",
            guarded: words[5] == "true",
            deadline_ms: number(6),
            rest_ms: number(7),
        }
    }
}

struct Client {
    kv: KvClient,
    journal: UnixStream,
    rng: Rng,
    id: u64,
    place: u8,
    rest: Duration,
    op_count: u64,
    values: u64,
}

/// Main function of a client process with the encoded `role`. Ends when the parent does.
pub fn run(role: &str) {
    let role = Role::decode(role);
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().expect("dup");
    let journal = UnixStream::from(stdin);
    let commands = listen(journal.try_clone().expect("dup"));
    let rng = Rng::new(role.seed, role.id.into(), 0xc11e);
    let mut client = Client {
        kv: connect(&role, rng.clone()),
        journal,
        rng,
        id: role.id.into(),
        place: role.place,
        rest: Duration::from_millis(role.rest_ms),
        op_count: 0,
        values: 0,
    };
    client.use_everything();
    client.say(&[Record::Ready]);
    while let Ok(command) = commands.recv() {
        if let Command::Go(round) = command {
            client.load(round, &commands);
            client.audit(round);
            client.use_everything();
            client.say(&[Record::Audited { round: round.into() }]);
        }
    }
}

/// Receives the parent's commands on a thread, which ends this process when the parent is gone.
fn listen(mut from: UnixStream) -> Receiver<Command> {
    let (tell, commands) = channel();
    std::thread::spawn(move || {
        while let Ok(command) = Command::read(&mut from) {
            let _ = tell.send(command);
        }
        std::process::exit(0);
    });
    commands
}

/// Connects with options drawn at random.
pub fn connect(role: &Role, mut rng: Rng) -> KvClient {
    if !role.is_herd {
        let options = Options {
            window: 1 << rng.below(5),
            call_timeout: Ns::from_ms(role.deadline_ms),
            connect_timeout: CONNECT_MAX,
            credentials: role
                .guarded
                .then(|| Arc::new(Credentials::parse(USER.as_bytes()).expect("a user"))),
            ..Options::default()
        };
        return KvClient::connect_with(&role.addr, &options).unwrap_or_else(|error| panic!("{error}"));
    }
    let options = ClientOptions {
        window: 1 << rng.below(5),
        slot_bytes: [128, 256, 1024][rng.below(3) as usize],
        front_end: match role.datagrams {
            true => FrontEnd::Datagrams,
            false => FrontEnd::Slots,
        },
        deadline: Ns::from_ms(role.deadline_ms),
        keeper: true,
        ..ClientOptions::default()
    };
    let ctx = Rc::new(ShmDevice::default().context().expect("a context"));
    let dial = Dial::to(role.addr.parse().expect("an address"));
    let client = HerdClient::<Shm>::new(ctx.clone(), dial, options.clone());
    let client =
        wait_for_sessions(&ctx, client, CONNECT_MAX).unwrap_or_else(|error| panic!("{error} ({options:?})"));
    Connected::over(ctx, client).into()
}

impl Client {
    fn say(&mut self, records: &[Record]) {
        let bytes: Vec<u8> = records.iter().flat_map(|r| r.encode()).collect();
        if self.journal.write_all(&bytes).is_err() {
            std::process::exit(0); // the parent is gone
        }
    }

    /// Stores and reads a long value, so that everything that is made on first use exists when the parent counts.
    /// Repeats until it succeeds; the parent limits the time.
    fn use_everything(&mut self) {
        let key = format!("client{}", self.id);
        let value = value_bytes(self.id, LONG_BYTES);
        persist(|| self.kv.put(key.as_bytes(), &value, 0));
        let read = persist(|| self.kv.get(key.as_bytes()));
        assert_eq!(read, Some(value));
    }

    fn load(&mut self, round: u32, commands: &Receiver<Command>) {
        let until = self.op_count + OPS_PER_ROUND;
        loop {
            let told = match self.op_count < until {
                true => commands.try_recv(),
                false => commands.recv_timeout(self.rest).map_err(|_| TryRecvError::Empty),
            };
            if told.is_ok() {
                return;
            }
            let batch: Vec<(Key, Ask)> = (0..=self.rng.below(BATCH_MAX))
                .map(|_| self.draw(round))
                .collect();
            self.execute(&batch);
        }
    }

    /// Reads every key of the round until a server has answered for each of them.
    fn audit(&mut self, round: u32) {
        let own = (0..CLIENT_COUNT).flat_map(|place| (0..OWN_KEYS).map(move |i| (place, i)));
        let shared = (0..SHARED_KEYS).map(|i| (Key::SHARED, i));
        let keys: Vec<(Key, Ask)> = own
            .chain(shared)
            .map(|(owner, index)| (Key { round, owner, index }, Ask::Get))
            .collect();
        while !self.execute(&keys) {}
    }

    fn put(&mut self) -> Ask {
        self.values += 1;
        Ask::Put(self.id << 32 | self.values)
    }

    fn draw(&mut self, round: u32) -> (Key, Ask) {
        let (owner, count) = match self.rng.chance(0.5) {
            true => (self.place, OWN_KEYS),
            false => (Key::SHARED, SHARED_KEYS),
        };
        let index = self.rng.below(count.into()) as u8;
        let key = Key { round, owner, index };
        let ask = match self.rng.below(100) {
            0..50 => Ask::Get,
            50..58 if key.index.is_multiple_of(4) => Ask::Delete,
            _ => self.put(),
        };
        (key, ask)
    }

    /// The first key of each client holds long values now and then, the others lengths that mostly stay.
    fn value(&self, key: Key, id: u64) -> Vec<u8> {
        let first = key.owner != Key::SHARED && key.index == 0;
        let len = match id % 16 {
            1 if first => LONG_BYTES,
            0 => 8 + (id as usize >> 4) % 60,
            _ => 8 + usize::from(key.index) * 3,
        };
        value_bytes(id, len)
    }

    /// Whether all operations were executed, as far as the client knows.
    fn execute(&mut self, batch: &[(Key, Ask)]) -> bool {
        let keys: Vec<String> = batch.iter().map(|(key, _)| key.text()).collect();
        let values: Vec<Vec<u8>> = batch
            .iter()
            .map(|&(key, ask)| match ask {
                Ask::Put(id) => self.value(key, id),
                _ => Vec::new(),
            })
            .collect();
        let ops: Vec<Op<'_>> = (0..batch.len())
            .map(|i| op(batch[i].1, &keys[i], &values[i]))
            .collect();
        let at = now();
        let calls: Vec<Record> = batch
            .iter()
            .map(|&(key, ask)| Record::Call { key, ask, at })
            .collect();
        self.say(&calls);
        let mut returns = Vec::with_capacity(batch.len());
        let first_op = self.op_count;
        self.op_count += batch.len() as u64;
        self.kv
            .execute(&ops, |i, outcome| {
                let answer = answer(batch[i], outcome);
                returns.push(Record::Return {
                    op: first_op + i as u64,
                    answer,
                    at: now(),
                });
            })
            .unwrap_or_else(|error| panic!("{error}: {batch:?}"));
        self.say(&returns);
        !returns.iter().any(|record| {
            let Record::Return { answer, .. } = record else {
                return false;
            };
            matches!(answer, Answer::Unknown | Answer::Refused)
        })
    }
}

/// Calls `once` until an operation succeeds.
fn persist<T>(mut once: impl FnMut() -> Result<T, CallError>) -> T {
    loop {
        match once() {
            Ok(done) => return done,
            Err(CallError::Indeterminate | CallError::Refused(Refusal::Unavailable)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn op<'a>(ask: Ask, key: &'a str, value: &'a [u8]) -> Op<'a> {
    let key = key.as_bytes();
    match ask {
        Ask::Get => Op::Get { key },
        Ask::Put(_) => Op::put(key, value),
        Ask::Delete => Op::delete(key),
    }
}

/// Converts the outcome of an operation: a GET was answered or refused; it may be unknown whether a PUT or DELETE was
/// executed.
fn answer((key, ask): (Key, Ask), outcome: Outcome<'_>) -> Answer {
    match (ask, outcome) {
        (Ask::Get, Outcome::Value(bytes)) => Answer::Value(value_id(bytes)),
        (Ask::Get | Ask::Delete, Outcome::NotFound) => Answer::Missing,
        (Ask::Put(_), Outcome::Stored) | (Ask::Delete, Outcome::Deleted) => Answer::Done,
        (Ask::Put(_) | Ask::Delete, Outcome::Indeterminate) => Answer::Unknown,
        (_, Outcome::Refused(Refusal::Unavailable)) => Answer::Refused,
        other => panic!("{}: {other:?}", key.text()),
    }
}
