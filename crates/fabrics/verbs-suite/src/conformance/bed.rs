//! Runs rules: both ends in one thread, in two threads, or one end each in two processes.

use super::rules::Rule;
use super::{Chan, Check, End, MemoryChan, Role, Stop, rule};
use drover_verbs::{Caps, Device, OpenError, Provider, QpKind};
use std::pin::pin;
use std::task::{Context as TaskContext, Poll, Waker};

/// Whether the two ends of a rule run in one thread or in two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Together {
    /// Both ends interleaved in one thread: deterministic if the provider is. One end cannot sleep while the other
    /// acts, so rules that need that are skipped.
    OneThread,
    /// Each end in its own thread.
    TwoThreads,
}

/// How the suite opens the provider under test, for runs with both ends of a rule in one process.
pub trait TestBed {
    /// Provider under test.
    type Provider: Provider;

    /// Opens the devices of the two ends, `[initiator, responder]`, which may be clones of one. Called anew for every
    /// rule and kind of queue pair.
    ///
    /// # Errors
    /// [`OpenError`] if the fabric is not available.
    fn ends(&self) -> Result<[<Self::Provider as Provider>::Device; 2], OpenError>;

    /// Whether the two ends run in one thread or in two; by default one.
    fn together(&self) -> Together {
        Together::OneThread
    }

    /// Called after each end has had a turn ([`Together::OneThread`] only), for fabrics that make progress only when
    /// driven from outside. Does nothing by default.
    fn progress(&self) {}
}

/// Runs the rule called `name` for every kind of queue pair that it applies to. Returns one line for each kind that was
/// skipped, with the reason: empty if none was. Stops at the first kind that breaks the rule.
///
/// # Errors
/// [`Stop::Broken`] if the rule is broken, no rule has that name, or the fabric cannot be opened.
pub fn run_rule<B: TestBed>(bed: &B, name: &str) -> Result<Vec<String>, Stop> {
    let rule = rule::<B::Provider>(name).ok_or_else(|| Stop::Broken(format!("no rule is called {name}")))?;
    let mut skipped = Vec::new();
    for &kind in rule.kinds {
        let devices = bed.ends()?;
        let checked = match missing(&rule, kind, devices[0].caps()) {
            Some(missing) => Err(Stop::Skipped(format!("{missing} not offered"))),
            None => run_both(bed, &rule, kind, devices),
        };
        match checked {
            Ok(()) => {}
            Err(Stop::Skipped(why)) => skipped.push(format!("{name} over {kind:?}: {why}")),
            Err(Stop::Broken(how)) => return Err(Stop::Broken(format!("{name} over {kind:?}: {how}"))),
        }
    }
    Ok(skipped)
}

/// The body of a test: calls [`run_rule`] with the rule called `name` and prints its lines about skipped kinds.
///
/// # Panics
/// If the rule is broken, no rule has that name, or the fabric cannot be opened.
pub fn assert_rule<B: TestBed>(bed: &B, name: &str) {
    match run_rule(bed, name) {
        Ok(skipped) => skipped.iter().for_each(|line| println!("skipped {line}")),
        Err(stop) => panic!("{}: {stop}", B::Provider::NAME),
    }
}

/// The capability that the provider lacks for this rule.
fn missing<P: Provider>(rule: &Rule<P>, kind: QpKind, caps: &Caps) -> Option<String> {
    if !caps.has(kind) {
        return Some(format!("{kind:?} queue pairs"));
    }
    let need = rule.needs.iter().find(|need| !need.met(caps))?;
    Some(format!("{need:?}"))
}

/// Runs one end of the rule called `name`, for runs in two processes, and returns this end's result. The other process
/// calls it with the other role and the other end of the channel. `kind` must be one of the rule's kinds, which is not
/// checked.
///
/// # Errors
/// [`Stop::Skipped`] if the device lacks a capability that the rule needs; [`Stop::Broken`] if the rule is broken, no
/// rule has that name, the device opens no context, or the other end is gone.
pub fn run_end<P: Provider>(
    name: &str,
    kind: QpKind,
    role: Role,
    device: P::Device,
    chan: Box<dyn Chan>,
) -> Check {
    let rule = rule::<P>(name).ok_or_else(|| Stop::Broken(format!("no rule is called {name}")))?;
    if let Some(missing) = missing(&rule, kind, device.caps()) {
        return Err(Stop::Skipped(format!("{missing} not offered")));
    }
    let mut end = End::<P>::new(role, kind, true, device, chan)?;
    let mut playing = pin!((rule.body)(&mut end));
    let mut task = TaskContext::from_waker(Waker::noop());
    loop {
        match playing.as_mut().poll(&mut task) {
            Poll::Ready(check) => return check,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

fn run_both<B: TestBed>(
    bed: &B,
    rule: &Rule<B::Provider>,
    kind: QpKind,
    devices: [<B::Provider as Provider>::Device; 2],
) -> Check {
    match bed.together() {
        Together::OneThread => run_interleaved(bed, rule, kind, devices),
        Together::TwoThreads => run_threads::<B::Provider>(rule.name, kind, devices),
    }
}

fn run_interleaved<B: TestBed>(
    bed: &B,
    rule: &Rule<B::Provider>,
    kind: QpKind,
    devices: [<B::Provider as Provider>::Device; 2],
) -> Check {
    let [initiator, responder] = devices;
    let [here, there] = MemoryChan::pair();
    let mut initiator = End::new(Role::Initiator, kind, false, initiator, Box::new(here))?;
    let mut responder = End::new(Role::Responder, kind, false, responder, Box::new(there))?;
    let mut ends = [
        Some((rule.body)(&mut initiator)),
        Some((rule.body)(&mut responder)),
    ];
    let mut task = TaskContext::from_waker(Waker::noop());
    while ends.iter().any(Option::is_some) {
        for end in &mut ends {
            let Some(playing) = end else { continue };
            if let Poll::Ready(check) = playing.as_mut().poll(&mut task) {
                check?;
                *end = None;
            }
        }
        bed.progress();
    }
    Ok(())
}

/// An end that fails closes its channel, so that the other does not wait for it; the failing end's own reason is
/// reported.
fn run_threads<P: Provider>(name: &'static str, kind: QpKind, devices: [P::Device; 2]) -> Check {
    let [initiator, responder] = devices;
    let [here, there] = MemoryChan::pair();
    std::thread::scope(|scope| {
        let other =
            scope.spawn(move || run_end::<P>(name, kind, Role::Responder, responder, Box::new(there)));
        let ours = run_end::<P>(name, kind, Role::Initiator, initiator, Box::new(here));
        let theirs = other
            .join()
            .unwrap_or_else(|_| Err(Stop::Broken("the responder panicked".into())));
        match (ours, theirs) {
            (Err(Stop::Broken(how)), theirs) if how.contains("has gone") => {
                theirs.and(Err(Stop::Broken(how)))
            }
            (ours, theirs) => ours.and(theirs),
        }
    })
}
