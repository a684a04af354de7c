//! One campaign: a server, three clients, and rounds of load with at most one kill in each.

use crate::client::CLIENT_COUNT;
use crate::journal::{Answer, Ask, Command, now};
use crate::processes::{Client, Footprint, ITEMS_KIB, OpRecord, Server, WATCHDOG};
use drover_base::Rng;
use drover_testkit::history::{Call, Event, History};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Whom to kill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    /// The client at this place.
    Client(usize),
    /// The server.
    Server,
}

/// What campaigns differ in.
#[derive(Clone, Copy)]
pub struct Setting {
    /// Further arguments of the server.
    pub serve: &'static [&'static str],
    /// Clients at these places ask for datagrams, the others for slots.
    pub datagram_places: &'static [u8],
}

/// A campaign under way.
pub struct Campaign {
    rng: Rng,
    seed: u64,
    folder: PathBuf,
    addr: String,
    setting: Setting,
    server: Option<Server>,
    /// What the server held when all its clients had been served once.
    server_before: Option<Footprint>,
    clients: Vec<Client>,
    /// The same of each client.
    clients_before: Vec<Option<Footprint>>,
    /// What is left of clients that were killed.
    buried: Option<(u32, Vec<OpRecord>)>,
    next_id: u32,
    round: u32,
}

impl Campaign {
    /// Starts everything, in a folder of its own.
    pub fn start(name: &str, seed: u64, setting: Setting) -> Campaign {
        let folder = std::env::temp_dir().join(format!("drover-kill-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("temporary folder");
        let addr = format!("shm:{}", folder.join("s.sock").display());
        let mut campaign = Campaign {
            rng: Rng::new(seed, 0, 0x6b11),
            seed,
            folder,
            server: Some(Server::start(&addr, setting.serve)),
            setting,
            addr,
            server_before: None,
            clients: Vec::new(),
            clients_before: vec![None; CLIENT_COUNT.into()],
            buried: None,
            next_id: 1,
            round: 0,
        };
        for place in 0..CLIENT_COUNT {
            let client = campaign.new_client(place);
            campaign.clients.push(client);
        }
        for client in &campaign.clients {
            client.wait_for("its first session", |known| known.ready);
        }
        campaign
    }

    /// Whom the seed chooses next: the server once in three times.
    pub fn draw_victim(&mut self) -> Victim {
        match self.rng.below(3) {
            0 => Victim::Server,
            _ => Victim::Client(self.rng.below(CLIENT_COUNT.into()) as usize),
        }
    }

    /// Load, a kill in its midst, load again, an audit; returns what happened to every key.
    pub fn round(&mut self, victim: Option<Victim>) -> History {
        self.round += 1;
        let began_at = now();
        for client in &mut self.clients {
            client.tell(Command::Go(self.round));
        }
        for client in &self.clients {
            client.wait_for("the load to begin", |known| known.answered_call_at > began_at);
        }
        self.nap();
        let killed_at = now();
        match victim {
            Some(Victim::Client(place)) => self.kill_client(place),
            Some(Victim::Server) => self.kill_server(),
            None => {}
        }
        let restored_at = now();
        let survivors = || self.clients.iter().filter(|client| !self.is_new(client));
        for client in survivors() {
            client.wait_for("an operation after the kill", |known| {
                known.answered_call_at > restored_at
            });
        }
        let mut history = self.close_round();
        if victim == Some(Victim::Server) {
            wipe(&mut history, killed_at, restored_at);
        }
        self.check_evictions();
        self.check_leaks();
        history
    }

    /// Ends everything; nothing may be left.
    pub fn finish(mut self) {
        self.clients.clear();
        assert!(
            self.server.take().expect("it runs").stop(),
            "the server ended badly"
        );
        let left: Vec<_> = std::fs::read_dir(&self.folder)
            .expect("our folder")
            .flatten()
            .map(|entry| entry.file_name())
            .filter(|name| *name != "s.sock" && *name != "s.sock.lock")
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        std::fs::remove_dir_all(&self.folder).expect("our folder");
    }

    fn new_client(&mut self, place: u8) -> Client {
        self.next_id += 1;
        self.clients_before[usize::from(place)] = None;
        let front_end = match self.setting.datagram_places.contains(&place) {
            true => "datagrams",
            false => "slots",
        };
        Client::start(&self.addr, self.next_id, place, self.seed, front_end)
    }

    /// Whether it came in this round, and has nothing to do in it.
    fn is_new(&self, client: &Client) -> bool {
        self.buried.is_some() && client.id == self.next_id
    }

    /// From a microsecond to 30 ms, short ones as likely as long ones.
    fn nap(&mut self) {
        let time = Duration::from_nanos((1000.0 * 30_000f64.powf(self.rng.unit())) as u64);
        pause(time);
    }

    fn kill_client(&mut self, place: usize) {
        let mut dead = self.clients.remove(place);
        dead.kill();
        self.buried = Some((dead.id, dead.take_ops()));
        let next = self.new_client(place as u8);
        self.clients.insert(place, next);
        // Sometimes it comes while the server still buries the other one, sometimes the others go on alone first.
        if self.rng.chance(0.5) {
            self.clients[place].wait_for("a session", |known| known.ready);
        }
    }

    fn kill_server(&mut self) {
        self.server.as_mut().expect("it runs").kill();
        self.server_before = None;
        if self.rng.chance(0.5) {
            self.nap();
        }
        self.server = Some(Server::start(&self.addr, self.setting.serve));
    }

    fn close_round(&mut self) -> History {
        let mut history = History::default();
        let dead = self.buried.is_some().then_some(self.next_id);
        let round = u64::from(self.round);
        for client in &mut self.clients {
            if Some(client.id) != dead {
                client.tell(Command::Stop);
            }
        }
        for client in &self.clients {
            match Some(client.id) == dead {
                true => client.wait_for("a session", |known| known.ready),
                false => client.wait_for("the audit", |known| known.audited == round),
            }
            record(&mut history, client.id, client.take_ops());
        }
        if let Some((id, ops)) = self.buried.take() {
            record(&mut history, id, ops);
        }
        history
    }

    /// Nothing was lost for want of room, so nothing may be missing.
    fn check_evictions(&self) {
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["stats", "--timeout-ms", "20000", "--server", &self.addr])
            .output()
            .expect("the binary starts");
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.lines().any(|line| line == "evictions 0"), "{out:?}");
    }

    /// Everybody holds what they held before: the server with as many clients, clients across servers. A dead
    /// peer's things may go a moment later, so this waits for it.
    fn check_leaks(&mut self) {
        let server = self.server.as_ref().expect("it runs");
        if let Some(before) = self.server_before {
            settle("the server", &before, ITEMS_KIB, || server.footprint());
        } else {
            self.server_before = Some(server.footprint());
        }
        for (client, before) in self.clients.iter().zip(&mut self.clients_before) {
            match before {
                Some(before) => {
                    settle(&format!("client {}", client.id), before, 0, || client.footprint());
                }
                None => *before = Some(client.footprint()),
            }
        }
    }
}

/// Waits until a process holds no more than before.
fn settle(who: &str, before: &Footprint, items_kib: usize, now: impl Fn() -> Footprint) {
    let step = Duration::from_millis(5);
    for _ in 0..WATCHDOG.as_nanos() / step.as_nanos() {
        if now().is_within(before, items_kib) {
            return;
        }
        pause(step);
    }
    panic!("{who} leaks: {before:?} before, {:?} now", now());
}

/// Nothing wakes it: the time is all there is to wait for.
fn pause(time: Duration) {
    let (_never, nothing): (Sender<()>, _) = channel();
    let _ = nothing.recv_timeout(time);
}

fn record(history: &mut History, client: u32, ops: Vec<OpRecord>) {
    for op in ops {
        let (answer, at) = match op.returned {
            Some((answer, at)) => (answer, Some(at)),
            None => (Answer::Unknown, None),
        };
        let (call, returned_at) = match (op.ask, answer) {
            (Ask::Get, Answer::Value(id)) => (Call::Get(Some(id)), at),
            (Ask::Get, Answer::Missing) => (Call::Get(None), at),
            (Ask::Get, _) => continue,
            (Ask::Put(id), Answer::Unknown) => (Call::Put(id), None),
            (Ask::Put(id), _) => (Call::Put(id), at),
            (Ask::Delete, Answer::Unknown) => (Call::Delete(None), None),
            (Ask::Delete, answer) => (Call::Delete(Some(answer == Answer::Done)), at),
        };
        let event = Event {
            client,
            call,
            called_at: op.called_at,
            returned_at,
        };
        history.push(op.key.text().as_bytes(), event);
    }
}

/// A server that was killed takes all items with it, once: as if somebody had deleted each key between the
/// kill and the first word of the next server. Nothing else may be missing.
fn wipe(history: &mut History, killed_at: u64, restored_at: u64) {
    let keys: Vec<Vec<u8>> = history.keys().map(|(key, _)| key.to_vec()).collect();
    for key in keys {
        let event = Event {
            client: 0,
            call: Call::Delete(None),
            called_at: killed_at,
            returned_at: Some(restored_at),
        };
        history.push(&key, event);
    }
}
