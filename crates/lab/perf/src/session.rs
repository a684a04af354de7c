//! A session between two ends on different threads, processes or machines, over a control channel.

use crate::drive::{Waiting, drive};
use crate::wire::{Bye, Count, Done, Hello, Run, Taken};
use crate::{Client, End, Given, Outcome, PerfError, Plan, Row, Server, Verb};
use drover_base::{Cpu, Ns};
use drover_control::exchange::{ExchangeError, recv_export, send_export};
use drover_control::{ControlError, ControlStream, Frame, Message, kind, refusal};
use drover_verbs::{Caps, Context, Export, Provider};

/// Maximum wait for each message of the other end on the control channel: of both ends while they connect, and of the
/// client before and after each row. A connected server waits without limit while its client sends heartbeats.
pub const SETUP_WAIT: Ns = Ns::from_s(10);
/// Time limit while a client measures: it sends heartbeats, or has disconnected.
const FOR_EVER: Ns = Ns::from_s(1 << 30);
/// Additional time limit per byte of a message, for slow emulated devices.
const PATIENCE_PER_BYTE: Ns = Ns(4_000);
/// Wait after a failed request: if the other end died, its channel closes soon.
const LAST_WORDS_WAIT: Ns = Ns::from_ms(500);

/// How this end waits for completions and messages; the other end may wait differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Whether this end sleeps until the fabric raises an event, instead of polling.
    pub events: bool,
    /// Time after which a client gives up a measurement without progress; 4 us per byte of a message are added to it.
    /// Servers ignore it.
    pub patience: Ns,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            events: false,
            patience: Ns::from_s(5),
        }
    }
}

/// Measures all sizes of `plan` with a [`server`] at the other end of `stream`; calls `tell` with each row as soon as
/// it is measured.
///
/// # Errors
/// The fabric does not support `plan` or `options`, the server refuses them, connecting failed, a request failed, or
/// the server is gone or silent.
pub fn client<P: Provider>(
    stream: &mut ControlStream,
    ctx: &P::Context,
    plan: &Plan,
    options: Options,
    tell: &mut dyn FnMut(&Row),
) -> Result<(), PerfError> {
    plan.check(ctx.caps())?;
    check_events(plan, ctx.caps(), options)?;
    let _keeper = stream.keeper()?;
    stream.send_message(&Hello(plan.clone()))?;
    receive::<Taken, P>(stream, ctx)?;
    let mut end = End::<P>::new(ctx, plan)?;
    say_exports::<P>(stream, ctx, &end)?;
    end.meet(ctx, &hear_exports::<P>(stream, ctx)?)?;
    ready::<P>(stream, ctx)?;
    for &bytes in &plan.sizes {
        stream.send_message(&Run(bytes))?;
        expect(kind::READY, &next::<P>(stream, ctx)?)?;
        let (row, used) = measure(stream, ctx, end, bytes, options)?;
        end = used;
        tell(&row);
    }
    Ok(stream.send_message(&Bye)?)
}

/// Measures one row.
fn measure<P: Provider>(
    stream: &mut ControlStream,
    ctx: &P::Context,
    end: End<P>,
    bytes: u32,
    options: Options,
) -> Result<(Row, End<P>), PerfError> {
    let op = end.plan.op;
    let outcome = Outcome::default();
    let mut client = Client::new(end, bytes as usize, outcome.clone());
    let waiting = Waiting {
        events: options.events,
        patience: Some(options.patience + PATIENCE_PER_BYTE * u64::from(bytes)),
    };
    drive::<P, _>(
        ctx,
        &mut client,
        &outcome,
        waiting,
        &mut |now| match stream.recv(now)? {
            None => Ok(false),
            Some(frame) => Err(unexpected(Count::KIND, &frame)),
        },
    )?;
    let found = outcome.take().expect("driven until it is there");
    let found = found.map_err(|error| last_words(stream, ctx.cpu(), error))?;
    stream.send_message(&Done)?;
    let Count(received) = receive::<Count, P>(stream, ctx)?;
    let lost = client.posted().saturating_sub(received);
    let lost = if op.verb == Verb::Send { lost } else { 0 };
    Ok((Row::new(op, bytes, &found, lost), client.into_end()))
}

/// Serves one client at the other end of `stream` until the client says that it is done. Returns the plan that the
/// client measured.
///
/// # Errors
/// The client's plan differs from `given` or is not supported: the client is sent the reason, and `stream` is closed.
/// Connecting or a request failed, or the client disconnects early.
pub fn server<P: Provider>(
    stream: &mut ControlStream,
    ctx: &P::Context,
    given: &Given,
    options: Options,
) -> Result<Plan, PerfError> {
    let _keeper = stream.keeper()?;
    let Hello(plan) = receive::<Hello, P>(stream, ctx)?;
    let agreed = given.check(&plan).map_err(PerfError::Plan);
    let agreed = agreed.and_then(|()| check_events(&plan, ctx.caps(), options));
    let mut end = match agreed.and_then(|()| End::<P>::new(ctx, &plan)) {
        Ok(end) => end,
        Err(error) => return Err(refuse(stream, error)),
    };
    stream.send_message(&Taken)?;
    let theirs = hear_exports::<P>(stream, ctx)?;
    say_exports::<P>(stream, ctx, &end)?;
    if let Err(error) = end.meet(ctx, &theirs) {
        return Err(refuse(stream, error));
    }
    ready::<P>(stream, ctx)?;
    loop {
        let frame = stream.recv_until(ctx.cpu(), ctx.cpu().refresh() + FOR_EVER)?;
        if frame.kind == Bye::KIND {
            return Ok(plan);
        }
        let Run(bytes) = decoded(&frame)?;
        if !plan.sizes.contains(&bytes) {
            return Err(refuse(
                stream,
                PerfError::Plan(format!("{bytes} bytes were not agreed on")),
            ));
        }
        end = serve(stream, ctx, end, bytes, options)?;
    }
}

/// Serves one row.
fn serve<P: Provider>(
    stream: &mut ControlStream,
    ctx: &P::Context,
    end: End<P>,
    bytes: u32,
    options: Options,
) -> Result<End<P>, PerfError> {
    let outcome = Outcome::default();
    let mut server = Server::new(end, bytes as usize, outcome.clone());
    stream.send(kind::READY, &[], &[])?;
    if let Server::Bystander(_) = server {
        decoded::<Done>(&stream.recv_until(ctx.cpu(), ctx.cpu().refresh() + FOR_EVER)?)?;
    } else {
        let waiting = Waiting {
            events: options.events,
            patience: None,
        };
        drive::<P, _>(
            ctx,
            &mut server,
            &outcome,
            waiting,
            &mut |now| match stream.recv(now)? {
                None => Ok(false),
                Some(frame) => decoded::<Done>(&frame).map(|Done| true),
            },
        )?;
    }
    if let Some(Err(error)) = outcome.take() {
        return Err(last_words(stream, ctx.cpu(), error));
    }
    stream.send_message(&Count(server.received()))?;
    Ok(server.into_end())
}

/// Refuses events where the fabric cannot wake a sleeper: on some fabrics WRITEs raise no event.
fn check_events(plan: &Plan, caps: &Caps, options: Options) -> Result<(), PerfError> {
    let polls_memory = (plan.op.verb, plan.op.metric) == (Verb::Write, crate::Metric::Latency);
    match options.events && polls_memory && !caps.wakes.on_memory {
        true => Err(PerfError::Plan(
            "WRITEs raise no event on this fabric: write-lat must poll (no --events)".to_string(),
        )),
        false => Ok(()),
    }
}

fn refuse(stream: &mut ControlStream, error: PerfError) -> PerfError {
    let (ours, _) = ControlStream::pair();
    std::mem::replace(stream, ours).refuse(refusal::APPLICATION, &error.to_string());
    error
}

/// After a failed request: returns the other end's disconnection as the error, if that was the cause.
fn last_words<C: Cpu>(stream: &mut ControlStream, cpu: &C, error: PerfError) -> PerfError {
    let PerfError::Completion { .. } = error else {
        return error;
    };
    match stream.recv_until(cpu, cpu.refresh() + LAST_WORDS_WAIT) {
        Err(gone @ (ControlError::Closed | ControlError::ClosedMidFrame)) => PerfError::PeerGone(gone),
        _ => error,
    }
}

fn next<P: Provider>(stream: &mut ControlStream, ctx: &P::Context) -> Result<Frame, PerfError> {
    Ok(stream.recv_until(ctx.cpu(), ctx.cpu().refresh() + SETUP_WAIT)?)
}

fn receive<M: Message, P: Provider>(stream: &mut ControlStream, ctx: &P::Context) -> Result<M, PerfError> {
    decoded(&next::<P>(stream, ctx)?)
}

fn decoded<M: Message>(frame: &Frame) -> Result<M, PerfError> {
    expect(M::KIND, frame)?;
    Ok(frame.decode().map_err(ExchangeError::from)?)
}

fn expect(expected: u16, frame: &Frame) -> Result<(), PerfError> {
    match frame.kind == expected {
        true => Ok(()),
        false => Err(unexpected(expected, frame)),
    }
}

fn unexpected(expected: u16, frame: &Frame) -> PerfError {
    let found = frame.kind;
    PerfError::Exchange(ExchangeError::Unexpected { expected, found })
}

fn say_exports<P: Provider>(
    stream: &mut ControlStream,
    ctx: &P::Context,
    end: &End<P>,
) -> Result<(), PerfError> {
    for export in &end.exports(ctx)? {
        send_export(stream, export)?;
    }
    Ok(())
}

fn hear_exports<P: Provider>(stream: &mut ControlStream, ctx: &P::Context) -> Result<[Export; 2], PerfError> {
    let mut one = || {
        let deadline = ctx.cpu().refresh() + SETUP_WAIT;
        recv_export(stream, ctx.cpu(), deadline).map_err(|error| match error {
            ExchangeError::Control(error) => PerfError::from(error),
            other => PerfError::from(other),
        })
    };
    Ok([one()?, one()?])
}

/// Exchanges READY: both ends are connected.
fn ready<P: Provider>(stream: &mut ControlStream, ctx: &P::Context) -> Result<(), PerfError> {
    stream.send(kind::READY, &[], &[])?;
    expect(kind::READY, &next::<P>(stream, ctx)?)
}
