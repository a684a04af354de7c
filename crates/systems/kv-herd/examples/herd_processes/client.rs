//! A client: random operations on the keys of a phase, noted before and after, until it is told to end.

use crate::Failure;
use crate::record::{End, Note};
use drover_base::{Cpu, Ns, Rng};
use drover_kv::{Completion, KvClient, Op, Outcome, SubmitError, wait_for_sessions};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_testkit::history::Call;
use drover_testkit::kv_conformance::{value_bytes, value_id};
use drover_verbs::{Context, Device};
use drover_verbs_ibv::{Ibv, IbvContext, IbvDevice};
use std::io::{BufRead, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a client does all the time.
struct Habit {
    /// Keys of a phase: few, so that clients meet.
    keys: u64,
    /// Operations under way at a time: more overlap makes histories that take long to check.
    in_flight: usize,
    slot_bytes: usize,
    /// Longest value, bytes.
    value_bytes_max: u64,
}

/// Half of the values do not fit a slot.
const USUAL: Habit = Habit {
    keys: 12,
    in_flight: 4,
    slot_bytes: 320,
    value_bytes_max: 700,
};
/// All values fit a slot, most are too long to be inline, and there are more replies than a slow wire holds.
const CROWDED: Habit = Habit {
    keys: 24,
    in_flight: 32,
    slot_bytes: 1024,
    value_bytes_max: 900,
};
/// A phase that is none: end.
const THE_END: u64 = u64::MAX;

/// Nanoseconds that all processes share.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Phases come as lines of standard input; its end is theirs.
fn phases(first: u64) -> Arc<AtomicU64> {
    let phase = Arc::new(AtomicU64::new(first));
    let told = phase.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            told.store(line.parse().unwrap_or(THE_END), Ordering::Relaxed);
        }
        told.store(THE_END, Ordering::Relaxed);
    });
    phase
}

pub fn run(device_name: &str, addr: &str, number: &str, phase: &str, habit: &str) -> Result<(), Failure> {
    let habit = match habit {
        "crowded" => CROWDED,
        _ => USUAL,
    };
    let number: u64 = number.parse()?;
    let ctx = Rc::new(IbvDevice::named(Some(device_name))?.context()?);
    let options = ClientOptions {
        window: 2 * habit.in_flight,
        slot_bytes: habit.slot_bytes,
        ..ClientOptions::default()
    };
    let dial = Dial::to(addr.parse()?);
    let client = HerdClient::<Ibv>::new(ctx.clone(), dial, options);
    let mut client = wait_for_sessions(&ctx, client, Ns::from_s(20))?;
    let phase = phases(phase.parse()?);
    let mut work = Work {
        habit,
        rng: Rng::new(number, 0, 0xc11e),
        number,
        calls: Vec::new(),
        lines: Vec::new(),
    };
    loop {
        work.send()?;
        let current = phase.load(Ordering::Relaxed);
        if current == THE_END && client.in_flight() == 0 {
            client.close(&mut |_| {});
            let stats = client.stats();
            eprintln!(
                "client {number}: {} operations, {} sent again, {} answered twice, {} new sessions",
                work.calls.len(),
                stats.retransmits,
                stats.stale_replies,
                stats.reconnects
            );
            return Ok(());
        }
        if current != THE_END {
            work.submit(&mut client, &ctx, current)?;
        }
        ctx.cpu().refresh();
        let got = client.poll(ctx.cpu(), &mut |completion| work.done(&completion));
        if got == 0 {
            rest(&mut client, &ctx, &mut work);
        }
    }
}

/// Sleeps until something arrives or a timer is due, unless there is something already.
fn rest(client: &mut HerdClient<Ibv>, ctx: &IbvContext, work: &mut Work) {
    ctx.arm();
    let got = client.poll(ctx.cpu(), &mut |completion| work.done(&completion));
    match got {
        0 => ctx.park(client.next_timer()),
        _ => ctx.disarm(),
    }
}

struct Work {
    habit: Habit,
    rng: Rng,
    number: u64,
    /// By token.
    calls: Vec<Call>,
    /// Not yet told.
    lines: Vec<u8>,
}

impl Work {
    /// Begins operations, as many as may be under way.
    fn submit(&mut self, client: &mut HerdClient<Ibv>, ctx: &IbvContext, phase: u64) -> Result<(), Failure> {
        while client.in_flight() < self.habit.in_flight {
            let token = self.calls.len() as u64;
            let id = self.number << 32 | token;
            let key = self.rng.below(self.habit.keys);
            let text = format!("phase {phase} key {key}");
            let value;
            let (op, call) = match self.rng.below(10) {
                0..5 => (Op::Get { key: text.as_bytes() }, Call::Get(None)),
                5..9 => {
                    value = value_bytes(id, 8 + self.rng.below(self.habit.value_bytes_max) as usize);
                    let put = Op::put(text.as_bytes(), &value);
                    (put, Call::Put(id))
                }
                _ => (Op::delete(text.as_bytes()), Call::Delete(None)),
            };
            // Told before it can have any effect.
            let at = now();
            self.note(&Note::Begun {
                token,
                phase,
                key,
                call,
                at,
            });
            self.send()?;
            match client.submit(ctx.cpu(), &op, token) {
                Ok(()) => self.calls.push(call),
                Err(SubmitError::WindowFull) => {
                    self.calls.push(call);
                    let end = End::Refused;
                    self.note(&Note::Done { token, end, at });
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn done(&mut self, completion: &Completion<'_>) {
        let token = completion.token;
        let end = match (self.calls[token as usize], &completion.outcome) {
            (_, Outcome::Value(bytes)) => End::Value(value_id(bytes)),
            (_, Outcome::NotFound) => End::Nothing,
            (_, Outcome::Stored | Outcome::Deleted) => End::Effect,
            (Call::Put(_) | Call::Delete(_), Outcome::Indeterminate) => End::Unknown,
            (_, Outcome::Refused(_)) => End::Refused,
            (call, outcome) => panic!("{call:?} answered {outcome:?}"),
        };
        let at = now();
        self.note(&Note::Done { token, end, at });
    }

    fn note(&mut self, note: &Note) {
        // A vector takes everything.
        let _ = writeln!(self.lines, "{note}");
    }

    fn send(&mut self) -> Result<(), Failure> {
        if !self.lines.is_empty() {
            let mut out = std::io::stdout().lock();
            out.write_all(&self.lines)?;
            out.flush()?;
            self.lines.clear();
        }
        Ok(())
    }
}
