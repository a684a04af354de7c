//! Rules for clients that guess each other's keys.

use super::{Bed, BedOptions};
use drover_base::{Cpu, Ns};
use drover_kv::{Completion, KvClient, Op, Outcome};
use drover_verbs::{Provider, WcStatus};
use drover_verbs_suite::faulty::{Forged, Forger, Forgery, GivenKey, KeyMistake};

/// Keys of each client's short item and of its long one.
const VICTIMS: [&[u8]; 2] = [b"victim's", b"victim's long"];
const ROGUES: [&[u8]; 2] = [b"rogue's", b"rogue's long"];
/// Length of a value that fits no message or slot.
const LONG_BYTES: usize = 16 << 10;
/// Bytes at the start of a region that are compared: more than a forged request has.
const COMPARED: usize = 4096;
/// Polls of a client after which its forged request will not complete, if the time is up, too: on a wire that loses packets the
/// refusal may come late.
const POLLS_MAX: usize = 10_000;
const TIME_MAX: Ns = Ns::from_s(30);
/// Attacks: a wire that loses packets can end the victim's session by itself. One that an attack ends is lost each time.
const TRIES: usize = 5;
/// Rounds of the bed in which an operation has an outcome.
const ROUNDS_MAX: usize = 20_000_000;

/// A client that has guessed the keys of all memory that another client was given tries each in a READ and in WRITEs, by each
/// queue pair that it has. All are refused with an error, but READs of what every client may READ; over unreliable queue
/// pairs they are lost. No byte changes, and the other client's session goes on as if nothing had happened.
pub fn foreign_rkey_changes_nothing<B: Bed>() {
    if !isolates::<B>() {
        return;
    }
    for _ in 0..TRIES {
        let result = attack::<B>(&Forger::new(None), Until::AllAreTried);
        if result.is_lost {
            println!("the victim's session was lost: once more");
            continue;
        }
        println!("{} forged requests", result.attempts);
        assert!(result.attempts > 0, "no request could be forged");
        assert!(result.harm.is_empty(), "{:#?}", result.harm);
        return;
    }
    panic!("the victim's session was lost {TRIES} times");
}

/// [`foreign_rkey_changes_nothing`] notices if a server has the memory of all its clients in one domain.
pub fn flaw_shares_domain_is_caught<B: Bed>() {
    mistake_is_caught::<B>(KeyMistake::SharesDomain);
}

/// [`foreign_rkey_changes_nothing`] notices if a server lets clients WRITE what they may READ.
pub fn flaw_grants_writes_is_caught<B: Bed>() {
    mistake_is_caught::<B>(KeyMistake::GrantsWrites);
}

fn mistake_is_caught<B: Bed>(mistake: KeyMistake) {
    if !isolates::<B>() {
        return;
    }
    let forger = Forger::new(Some(mistake));
    let result = attack::<B>(&forger, Until::Harm);
    if !forger.has_erred() {
        println!("skipped: the system has no memory with which it could make this mistake");
        return;
    }
    println!("{:#?}", result.harm);
    assert!(
        result.is_lost || !result.harm.is_empty(),
        "{mistake:?} was not noticed"
    );
}

/// Whether keys are checked on this bed, and the system keeps its clients apart.
fn isolates<B: Bed>() -> bool {
    let isolates = B::P::ISOLATES && B::offers().isolates;
    if !isolates {
        println!(
            "skipped: a peer over {} has what it was given, or clients trust each other",
            B::P::NAME
        );
    }
    isolates
}

/// What came of an attack.
struct Attacked {
    /// Number of forged requests.
    attempts: usize,
    /// What they did.
    harm: Vec<String>,
    /// The victim's session has ended: its keys may be another's by now.
    is_lost: bool,
}

/// When an attack is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    AllAreTried,
    /// With the first forged request that is not refused: what its client waits for may never come.
    Harm,
}

/// A server and two clients with `forger`, one of which attacks the other.
fn attack<B: Bed>(forger: &Forger, until: Until) -> Attacked {
    let mut bed = B::start(&BedOptions {
        partition_count: 1,
        forger: Some(forger.clone()),
        ..BedOptions::default()
    });
    let mut victim = bed.connect();
    store(&mut bed, &mut victim, VICTIMS);
    let keys = forger.keys();
    let mut rogue = bed.connect();
    store(&mut bed, &mut rogue, ROGUES);
    let own = forger.keys().split_off(keys.len());
    let mut case = Attack {
        bed,
        forger: forger.clone(),
        until,
        attempts: 0,
        harm: Vec::new(),
        is_lost: false,
    };
    let [short, long] = ROGUES.map(|key| Op::Get { key });
    for key in &keys {
        let mut both = (&mut rogue, &mut victim);
        let put = Op::put(ROGUES[0], b"short");
        case.attempt(&mut both, &put, key, Forgery::Write);
        for get in [short, long] {
            case.attempt(&mut both, &get, key, Forgery::WriteForRead);
            if !own.iter().any(|other| other.is(key)) {
                case.attempt(&mut both, &get, key, Forgery::Read);
            }
        }
    }
    if !case.is_over() {
        case.look_after(&mut victim, &keys);
    }
    Attacked {
        attempts: case.attempts,
        harm: case.harm,
        is_lost: case.is_lost,
    }
}

/// Stores a client's short item and its long one, so that it has all memory that it ever asks for.
fn store<B: Bed>(bed: &mut B, client: &mut B::Client, [short, long]: [&[u8]; 2]) {
    for (key, value) in [(short, &b"short"[..]), (long, &[7; LONG_BYTES])] {
        assert_eq!(ask(bed, client, &Op::put(key, value)), "Stored");
        assert_eq!(ask(bed, client, &Op::Get { key }), "Value");
    }
}

struct Attack<B> {
    bed: B,
    forger: Forger,
    until: Until,
    attempts: usize,
    harm: Vec<String>,
    is_lost: bool,
}

impl<B: Bed> Attack<B> {
    /// Whether the session that `key` was given to goes on.
    fn is_given(&self, key: &GivenKey) -> bool {
        self.forger.keys().iter().any(|left| left.is_same(key))
    }

    fn is_over(&self) -> bool {
        self.is_lost || (self.until == Until::Harm && !self.harm.is_empty())
    }

    /// The rogue's operation `op` posts a forged request for the memory of `key`, if it posts one that can be replaced.
    fn attempt(
        &mut self,
        (rogue, victim): &mut (&mut B::Client, &mut B::Client),
        op: &Op<'_>,
        key: &GivenKey,
        forgery: Forgery,
    ) {
        // It has to show that it lives, as clients do.
        poll(&self.bed, victim, &mut None);
        if self.is_over() {
            return;
        }
        // Its session was lost with the last forgery.
        let value = ask(&mut self.bed, rogue, &Op::Get { key: ROGUES[0] });
        assert_eq!(value, "Value", "the rogue has a session");
        self.forger.forge(forgery, key);
        let mut before = bytes(key);
        let mut outcome = submit(&mut self.bed, rogue, op);
        poll(&self.bed, rogue, &mut outcome);
        while self.forger.forged() == Forged::No && outcome.is_none() {
            self.bed.step();
            before = bytes(key);
            poll(&self.bed, rogue, &mut outcome);
        }
        // The server does nothing meanwhile, so that only the forged request can change its memory.
        let (started, mut polls) = (self.bed.now(), 0);
        // A WRITE that succeeds may have no completion: the bytes show it.
        let until = self.until;
        let has_harmed = || until == Until::Harm && bytes(key) != before;
        while self.forger.forged() == Forged::Posted
            && (polls < POLLS_MAX || self.bed.now() - started < TIME_MAX.0)
            && !has_harmed()
        {
            poll(&self.bed, rogue, &mut outcome);
            poll(&self.bed, victim, &mut None);
            polls += 1;
        }
        let (forged, after) = (self.forger.forged(), bytes(key));
        self.forger.stop();
        let is_open = matches!(forged, Forged::Posted | Forged::Completed(WcStatus::Success));
        if !(is_open && self.until == Until::Harm) {
            finish(&mut self.bed, rogue, outcome);
        }
        let is_refused = match forged {
            Forged::No => return,
            Forged::Unreliable => bytes(key) == before,
            // The second is that of a wire which loses the refusal again and again.
            Forged::Completed(status) => [WcStatus::RemoteAccess, WcStatus::RetryExceeded].contains(&status),
            Forged::Posted => false,
        };
        if !self.is_given(key) {
            self.is_lost = true;
            return;
        }
        self.attempts += 1;
        let what = format!("{forgery:?} of {op:?}: {forged:?}");
        if !is_refused {
            self.harm.push(what);
        } else if after != before {
            self.harm.push(format!("{what}, and bytes have changed"));
        }
    }

    /// Whether the victim's session and item are as before.
    fn look_after(&mut self, victim: &mut B::Client, keys: &[GivenKey]) {
        let value = ask(&mut self.bed, victim, &Op::Get { key: VICTIMS[0] });
        let stored = ask(&mut self.bed, victim, &Op::put(VICTIMS[0], b"new"));
        if [&value[..], &stored] != ["Value", "Stored"] {
            self.harm
                .push(format!("the victim's operations ended as {value}, {stored}"));
        }
        self.is_lost |= !keys.iter().all(|key| self.is_given(key));
    }
}

/// The start of a region.
fn bytes(key: &GivenKey) -> Vec<u8> {
    let memory = key
        .memory
        .as_ref()
        .expect("memory of a server on the forger's device");
    let mut bytes = vec![0; memory.len().min(COMPARED)];
    memory.copy_out(0, &mut bytes);
    bytes
}

/// Submits `op`; its outcome is to come.
fn submit<B: Bed>(bed: &mut B, client: &mut B::Client, op: &Op<'_>) -> Option<String> {
    client.submit(bed.cpu(), op, 0).expect("space in the window");
    None
}

fn poll<B: Bed>(bed: &B, client: &mut B::Client, outcome: &mut Option<String>) {
    bed.cpu().refresh();
    client.poll(bed.cpu(), &mut |done: Completion<'_>| {
        *outcome = Some(match done.outcome {
            Outcome::Value(_) => "Value".to_owned(),
            other => format!("{other:?}"),
        });
    });
}

/// Runs the bed until the operation has an outcome, and returns that.
fn finish<B: Bed>(bed: &mut B, client: &mut B::Client, mut outcome: Option<String>) -> String {
    for _ in 0..ROUNDS_MAX {
        if let Some(outcome) = outcome {
            return outcome;
        }
        bed.step();
        poll(bed, client, &mut outcome);
    }
    panic!("an operation hangs");
}

fn ask<B: Bed>(bed: &mut B, client: &mut B::Client, op: &Op<'_>) -> String {
    let outcome = submit(bed, client, op);
    finish(bed, client, outcome)
}
