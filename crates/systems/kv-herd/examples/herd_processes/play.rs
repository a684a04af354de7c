//! What is played, and the judgement. Every wait is for something that clients tell, and has an end.
//!
//! - Everything that was begun by a client that lives ends: with an answer, or as unknown.
//! - Phase 1, in which the server is killed: values may vanish, for a cache's content goes with its process; an old
//!   one never comes back.
//! - Later phases, in which it is not: what was acknowledged stays. What a killed client had begun may have happened.

use crate::Failure;
use crate::record::{End, Note};
use drover_testkit::history::{Call, Event, History};
use drover_testkit::linear::Model;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Operations of each client between two events.
const STRETCH: usize = 200;
/// Nobody makes progress for so long: it hangs. An operation's own deadline is five seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How often the server is killed.
const KILLS: usize = 3;

/// Clients and server do their work, on whatever wire there is.
pub fn calm(a: &str, b: &str) -> Result<(), Failure> {
    let mut troupe = Troupe::new(a, b, ["two", "usual"])?;
    for _ in 0..3 {
        troupe.add_client(2)?;
    }
    troupe.wait(3 * STRETCH)?;
    troupe.end()
}

/// The same with more under way than the wire holds, at a server that works `how`.
pub fn late(a: &str, b: &str, how: &'static str) -> Result<(), Failure> {
    let mut troupe = Troupe::new(a, b, [how, "crowded"])?;
    for _ in 0..3 {
        troupe.add_client(2)?;
    }
    troupe.wait(3 * STRETCH)?;
    troupe.end()
}

/// The server is killed a few times, then a client.
pub fn kills(a: &str, b: &str) -> Result<(), Failure> {
    let mut troupe = Troupe::new(a, b, ["two", "usual"])?;
    for _ in 0..3 {
        troupe.add_client(1)?;
    }
    for _ in 0..KILLS {
        troupe.wait(STRETCH)?;
        troupe.restart_server()?;
    }
    troupe.wait(STRETCH)?;
    troupe.phase(2)?;
    troupe.wait(STRETCH)?;
    troupe.kill_client(0)?;
    troupe.wait(STRETCH)?;
    troupe.add_client(2)?;
    troupe.wait(STRETCH)?;
    troupe.end()
}

struct Client {
    child: Child,
    orders: ChildStdin,
    reader: JoinHandle<()>,
    alive: bool,
    notes: Vec<Note>,
    /// Operations that were answered since the last `wait`.
    answered: usize,
}

/// What a client told, by its index; `None`: it has ended.
type Told = (usize, Option<Note>);

struct Troupe {
    devices: [String; 2],
    /// How the server works, and the clients.
    ways: [&'static str; 2],
    server: Child,
    addr: String,
    clients: Vec<Client>,
    told: Receiver<Told>,
    tell: std::sync::mpsc::Sender<Told>,
}

/// This program, as something else. It ends with its standard input, so with us.
fn actor(words: &[&str]) -> Result<Child, Failure> {
    let child = Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// A server at `addr`, and where it is.
fn server(device: &str, addr: &str, how: &str) -> Result<(Child, String), Failure> {
    let mut child = actor(&["serve", device, addr, how])?;
    let mut line = String::new();
    let out = child.stdout.take().expect("stdout is piped");
    BufReader::new(out).read_line(&mut line)?;
    match line.trim() {
        "" => Err("the server did not start".into()),
        at => Ok((child, at.to_owned())),
    }
}

impl Troupe {
    fn new(a: &str, b: &str, ways: [&'static str; 2]) -> Result<Troupe, Failure> {
        let (server, addr) = server(a, "tcp://127.0.0.1:0", ways[0])?;
        let (tell, told) = channel();
        Ok(Troupe {
            devices: [a.to_owned(), b.to_owned()],
            ways,
            server,
            addr,
            clients: Vec::new(),
            told,
            tell,
        })
    }

    fn add_client(&mut self, phase: u64) -> Result<(), Failure> {
        let index = self.clients.len();
        let mut child = actor(&[
            "client",
            &self.devices[1],
            &self.addr,
            &(index + 1).to_string(),
            &phase.to_string(),
            self.ways[1],
        ])?;
        let mut out = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let orders = child.stdin.take().expect("stdin is piped");
        let tell = self.tell.clone();
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            while matches!(out.read_line(&mut line), Ok(1..)) {
                // We are there as long as the troupe is.
                let _ = Note::read(&line).map(|note| tell.send((index, Some(note))));
                line.clear();
            }
            let _ = tell.send((index, None));
        });
        self.clients.push(Client {
            child,
            orders,
            reader,
            alive: true,
            notes: Vec::new(),
            answered: 0,
        });
        Ok(())
    }

    fn phase(&mut self, phase: u64) -> Result<(), Failure> {
        for client in self.clients.iter_mut().filter(|client| client.alive) {
            writeln!(client.orders, "{phase}")?;
        }
        Ok(())
    }

    /// Until every living client has had so many answers more.
    fn wait(&mut self, count: usize) -> Result<(), Failure> {
        self.clients.iter_mut().for_each(|client| client.answered = 0);
        while self
            .clients
            .iter()
            .any(|client| client.alive && client.answered < count)
        {
            self.listen()?;
        }
        Ok(())
    }

    /// Takes one note.
    fn listen(&mut self) -> Result<(), Failure> {
        match self.told.recv_timeout(SILENCE_MAX) {
            Ok((index, Some(note))) => self.take(index, note),
            // Others would go on for ever, and nobody would be silent.
            Ok((index, None)) if self.clients[index].alive => {
                return Err(format!("client {} ended by itself", index + 1).into());
            }
            Ok((_, None)) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let answered: Vec<usize> = self.clients.iter().map(|client| client.answered).collect();
                return Err(format!("no client told anything for {SILENCE_MAX:?}; since the last event they had {answered:?} answers").into());
            }
        }
        Ok(())
    }

    fn take(&mut self, index: usize, note: Note) {
        let client = &mut self.clients[index];
        client.notes.push(note);
        if let Note::Done { end, .. } = note {
            client.answered += usize::from(!matches!(end, End::Unknown | End::Refused));
        }
    }

    /// Kills the server; after a moment in which nobody is there, another one stands in its place.
    fn restart_server(&mut self) -> Result<(), Failure> {
        self.server.kill()?;
        self.server.wait()?;
        // What clients do meanwhile has no answer; a few notes are a moment.
        for _ in 0..4 {
            match self.told.recv_timeout(Duration::from_millis(100)) {
                Ok((index, Some(note))) => self.take(index, note),
                Ok((_, None)) => {}
                Err(_) => break,
            }
        }
        self.server = server(&self.devices[0], &self.addr, self.ways[0])?.0;
        Ok(())
    }

    fn kill_client(&mut self, index: usize) -> Result<(), Failure> {
        let client = &mut self.clients[index];
        client.child.kill()?;
        client.child.wait()?;
        client.alive = false;
        Ok(())
    }

    /// Everybody ends; what they told is judged.
    fn end(mut self) -> Result<(), Failure> {
        let mut clients = std::mem::take(&mut self.clients);
        drop(self.tell);
        for client in clients.iter_mut().filter(|client| client.alive) {
            writeln!(client.orders, "end")?;
        }
        loop {
            match self.told.recv_timeout(SILENCE_MAX) {
                Ok((index, note)) => clients[index].notes.extend(note),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err("clients do not end".into()),
            }
        }
        let mut failed = Vec::new();
        let mut told = Vec::new();
        for (index, mut client) in clients.into_iter().enumerate() {
            let status = client.child.wait()?;
            if client.alive && !status.success() {
                failed.push(format!("client {} ended with {status}", index + 1));
            }
            client.reader.join().map_err(|_| "a reader panicked")?;
            told.push((client.alive, client.notes));
        }
        drop(self.server.stdin.take());
        let status = self.server.wait()?;
        if !status.success() {
            failed.push(format!("the server ended with {status}"));
        }
        judge(&told, failed)
    }
}

/// Operations of a client, in order of their tokens.
fn events(client: u32, notes: &[Note]) -> BTreeMap<u64, (u64, u64, Event, Option<End>)> {
    let mut events = BTreeMap::new();
    for note in notes {
        match *note {
            Note::Begun {
                token,
                phase,
                key,
                call,
                at,
            } => {
                let event = Event {
                    client,
                    call,
                    called_at: at,
                    returned_at: None,
                };
                events.insert(token, (phase, key, event, None));
            }
            Note::Done { token, end, at } => {
                if let Some((_, _, event, ended)) = events.get_mut(&token) {
                    *ended = Some(end);
                    event.returned_at = Some(at).filter(|_| end != End::Unknown);
                    event.call = match (event.call, end) {
                        (Call::Get(_), End::Value(id)) => Call::Get(Some(id)),
                        (Call::Delete(_), End::Effect) => Call::Delete(Some(true)),
                        (Call::Delete(_), End::Nothing) => Call::Delete(Some(false)),
                        (call, _) => call,
                    };
                }
            }
        }
    }
    events
}

fn judge(told: &[(bool, Vec<Note>)], mut failed: Vec<String>) -> Result<(), Failure> {
    let mut phases: BTreeMap<u64, History> = BTreeMap::new();
    let (mut all, mut unknown, mut refused, mut longest) = (0, 0, 0, 0);
    for (index, (alive, notes)) in told.iter().enumerate() {
        for (token, (phase, key, event, end)) in events(index as u32, notes) {
            all += 1;
            match end {
                None if *alive => {
                    failed.push(format!("operation {token} of client {} never ended", index + 1))
                }
                Some(End::Unknown) => unknown += 1,
                Some(End::Refused) => {
                    refused += 1;
                    continue;
                }
                _ => {}
            }
            // A GET without an answer says nothing.
            if event.returned_at.is_none() && matches!(event.call, Call::Get(_)) {
                continue;
            }
            longest = longest.max(event.returned_at.map_or(0, |at| at - event.called_at));
            phases
                .entry(phase)
                .or_default()
                .push(format!("{key}").as_bytes(), event);
        }
    }
    println!(
        "{all} operations, {unknown} of unknown effect, {refused} not taken, the longest {} ms",
        longest / 1_000_000
    );
    let mut kept = 0;
    for (phase, history) in phases {
        let model = if phase == 1 { Model::Cache } else { Model::Register };
        match history.check(model) {
            Ok(()) => {
                kept += 1;
                println!(
                    "phase {phase}: {} operations, linearizable as a {model:?}",
                    history.len()
                );
            }
            Err(why) => failed.push(format!("phase {phase}: {why}")),
        }
    }
    failed.iter().for_each(|why| println!("FAILED: {why}"));
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    // As test runners end, so that it is counted as one.
    println!(
        "test result: {verdict}. {kept} passed; {} failed; 0 ignored",
        failed.len()
    );
    match failed.is_empty() {
        true => Ok(()),
        false => Err("see above".into()),
    }
}
