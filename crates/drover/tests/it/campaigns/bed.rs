//! What campaigns have in common: a server with four clients under load, the history of every key in a round, and
//! checks
//! of what all processes hold afterwards.

use crate::campaigns::client::{CLIENT_COUNT, Role};
use crate::campaigns::footprint::Footprint;
use crate::campaigns::journal::{Answer, Ask, Command, now};
use crate::campaigns::processes::{Client, ITEMS_KIB, OpRecord, Server, WATCHDOG};
use crate::guarded::private;
use drover_base::Rng;
use drover_testkit::history::{Call, Event, History};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// The system whose clients have options that a campaign draws.
pub const HERD: &str = "herd";

/// The only user of a server that lets in users only.
pub const USER: &str = "honest:of-four-clients";

/// Options in which campaigns differ.
#[derive(Clone, Copy)]
pub struct Setting {
    /// Name of the campaign, part of the folder's name.
    pub name: &'static str,
    /// System of the server.
    pub system: &'static str,
    /// Additional arguments of the server.
    pub serve: &'static [&'static str],
    /// Places of the clients that ask for datagrams; the others ask for slots.
    pub datagram_places: &'static [u8],
    /// Whether the server lets in [`USER`] only.
    pub guarded: bool,
    /// Deadline of the clients' operations, ms.
    pub deadline_ms: u64,
    /// Pause of a client between two batches once it has done a round's operations at full speed, ms.
    pub rest_ms: u64,
}

/// A server and its clients.
pub struct Bed {
    pub rng: Rng,
    seed: u64,
    folder: PathBuf,
    pub addr: String,
    pub setting: Setting,
    pub server: Option<Server>,
    /// What the server held at the first [`check_leaks`](Bed::check_leaks) with this server; `None` before.
    pub server_before: Option<Footprint>,
    pub clients: Vec<Client>,
    /// What each client held at its first check, by place.
    clients_before: Vec<Option<Footprint>>,
    pub next_id: u32,
    pub round: u32,
}

impl Bed {
    /// Starts the server and all clients, in a folder of their own, and waits until they are connected.
    pub fn start(seed: u64, setting: Setting) -> Bed {
        let name = format!("drover-{}-{}", setting.name, std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("temporary folder");
        let addr = format!("shm:{}", folder.join("s.sock").display());
        let mut bed = Bed {
            rng: Rng::new(seed, 0, 0x6b11),
            seed,
            server: Some(start(&addr, &folder, &setting)),
            setting,
            addr,
            folder,
            server_before: None,
            clients: Vec::new(),
            clients_before: vec![None; CLIENT_COUNT.into()],
            next_id: 1,
            round: 0,
        };
        for place in 0..CLIENT_COUNT {
            let client = bed.new_client(place);
            bed.clients.push(client);
        }
        for client in &bed.clients {
            client.wait_for("its first session", |known| known.ready);
        }
        bed
    }

    /// Starts a client process for `place`; it need not be connected yet.
    pub fn new_client(&mut self, place: u8) -> Client {
        self.next_id += 1;
        self.clients_before[usize::from(place)] = None;
        Client::start(&Role {
            addr: self.addr.clone(),
            id: self.next_id,
            place,
            seed: self.seed,
            datagrams: self.setting.datagram_places.contains(&place),
            is_herd: self.setting.system == HERD,
            guarded: self.setting.guarded,
            deadline_ms: self.setting.deadline_ms,
            rest_ms: self.setting.rest_ms,
        })
    }

    /// Folder of the server's socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts another server at the address of the first one.
    pub fn start_server(&mut self) {
        self.server = Some(start(&self.addr, &self.folder, &self.setting));
    }

    /// Begins a round and waits until the server has answered an operation of every client in it.
    pub fn begin_round(&mut self) {
        self.round += 1;
        let began_at = now();
        for client in &mut self.clients {
            client.tell(Command::Go(self.round));
        }
        for client in &self.clients {
            client.wait_for("the load to begin", |known| known.served_call_at > began_at);
        }
    }

    /// Waits for a random time from a microsecond to 30 ms, with all orders of magnitude equally likely.
    pub fn nap(&mut self) {
        let time = Duration::from_nanos((1000.0 * 30_000f64.powf(self.rng.unit())) as u64);
        wait(time);
    }

    /// Checks that the server has evicted no item, so that no item may be missing. A memory node evicts none, and says nothing
    /// about it.
    pub fn check_evictions(&self) {
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["stats", "--timeout-ms", "20000", "--server", &self.addr])
            .envs(self.setting.guarded.then_some(("DROVER_AUTH", USER)))
            .output()
            .expect("the binary starts");
        let text = String::from_utf8_lossy(&out.stdout);
        let mut evictions = text.lines().filter_map(|line| line.strip_prefix("evictions "));
        assert!(
            out.status.success() && evictions.all(|count| count == "0"),
            "{out:?}"
        );
    }

    /// Checks that no process holds more than at its first check. Resources of a session that has ended may be freed a
    /// little later, so this waits for that.
    ///
    /// # Panics
    /// If a process still holds more after [`WATCHDOG`].
    pub fn check_leaks(&mut self) {
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

    /// Ends all processes, and checks that they leave no files behind.
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
            .filter(|name| !LEFT.iter().any(|left| name == left))
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        std::fs::remove_dir_all(&self.folder).expect("our folder");
    }
}

/// Files that may be left: sockets cannot be removed without a race, and the users are the test's.
const LEFT: [&str; 5] = ["s.sock", "s.sock.lock", "proxy.sock", "proxy.sock.lock", "users"];

fn start(addr: &str, folder: &Path, setting: &Setting) -> Server {
    let mut arguments = [&["--system", setting.system], setting.serve].concat();
    let users = folder.join("users");
    if setting.guarded {
        private(&users, USER);
        arguments.extend(["-Y", users.to_str().expect("UTF-8")]);
    }
    Server::start(addr, &arguments)
}

/// Waits until a process holds no more than `before`.
pub fn settle(who: &str, before: &Footprint, items_kib: usize, now: impl Fn() -> Footprint) {
    let step = Duration::from_millis(5);
    for _ in 0..WATCHDOG.as_nanos() / step.as_nanos() {
        if now().is_within(before, items_kib) {
            return;
        }
        wait(step);
    }
    panic!("{who} leaks: {before:?} before, {:?} now", now());
}

/// Waits for `time`; there is no event to wait for.
pub fn wait(time: Duration) {
    let (_never, nothing): (Sender<()>, _) = channel();
    let _ = nothing.recv_timeout(time);
}

/// Adds a client's operations to `history`. Refused operations were not executed, so they are left out: if another
/// client sees what one would have written, the history is not linearizable.
pub fn record(history: &mut History, client: u32, ops: Vec<OpRecord>) {
    for op in ops {
        let (answer, at) = match op.returned {
            Some((answer, at)) => (answer, Some(at)),
            None => (Answer::Unknown, None),
        };
        let (call, returned_at) = match (op.ask, answer) {
            (_, Answer::Refused) => continue,
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
