//! [`ClientHandshake`]: a client's side of the handshake. [`Link`](drover_control::Link) dials, pauses between attempts
//! and retries.

use super::RequestFormat;
use super::options::ClientOptions;
use super::resources::build_session;
use super::session::{RequestPath, Session};
use crate::control::{ErrorCode, FrontEnd, Hello, Message, PROTOCOL_VERSION, Welcome};
use crate::layout::WINDOW_MAX;
use drover_base::Ns;
use drover_control::{ControlStream, Frame, Handshake, Taken};
use drover_kv::SetupError;
use drover_verbs::{Provider, QueuePair};
use std::rc::Rc;

/// The handshake's state.
pub(super) struct ClientHandshake<P: Provider, F: RequestFormat> {
    ctx: Rc<P::Context>,
    options: ClientOptions,
    format: F,
    /// Front end that the present attempt asks for.
    front_end: FrontEnd,
    /// Whether the next attempt asks for datagrams, because the server has no slots left.
    without_slots: bool,
    /// Number of partitions whose address has not arrived.
    partitions_missing: usize,
    /// Epoch of the last session; 0 if there was none.
    last_epoch: u64,
}

impl<P: Provider, F: RequestFormat> ClientHandshake<P, F> {
    pub(super) fn new(ctx: &Rc<P::Context>, options: &ClientOptions, format: F) -> ClientHandshake<P, F> {
        ClientHandshake {
            ctx: ctx.clone(),
            options: options.clone(),
            format,
            front_end: options.front_end,
            without_slots: false,
            partitions_missing: 0,
            last_epoch: 0,
        }
    }

    /// Builds the client's end of the session and sends its exports to the server.
    fn welcome(
        &mut self,
        welcome: &Welcome,
        control: &mut ControlStream,
    ) -> Result<Session<P, F>, SetupError> {
        let session = build_session::<P, F>(&self.ctx, &self.options, self.format, self.front_end, welcome)?;
        self.partitions_missing = match &session.front {
            RequestPath::Slots { uc, .. } => {
                Message::Attach { uc: uc.export()? }.send(control)?;
                0
            }
            RequestPath::Datagrams { .. } => usize::from(welcome.partition_count),
        };
        for partition in 0..welcome.partition_count {
            let ud = session.receive.qp.export()?;
            Message::Replies { partition, ud }.send(control)?;
        }
        Ok(session)
    }
}

impl<P: Provider, F: RequestFormat> Handshake for ClientHandshake<P, F> {
    type Session = Session<P, F>;
    type Error = SetupError;

    fn begin(&mut self, control: &mut ControlStream) -> Result<(), SetupError> {
        self.front_end = match std::mem::take(&mut self.without_slots) {
            true => FrontEnd::Datagrams,
            false => self.options.front_end,
        };
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION,
            format: self.format.format(),
            front_end: self.front_end,
            window: self.options.window.min(WINDOW_MAX) as u16,
            slot_bytes: self.options.slot_bytes as u16,
            crc: self.options.crc,
            resume_epoch: self.last_epoch,
            auth: self.options.auth.clone(),
        };
        Ok(Message::Hello(hello).send(control)?)
    }

    fn take(
        &mut self,
        frame: Frame,
        session: &mut Option<Box<Session<P, F>>>,
        control: &mut ControlStream,
        _: Ns,
    ) -> Result<Taken<Session<P, F>>, SetupError> {
        let unusable = |what| Err(SetupError::Unusable { what });
        let message = Message::decode(frame.kind, &frame.body, frame.fds)?;
        match (message, session.take()) {
            (Message::Error { code, .. }, _)
                if code == ErrorCode::NoSlots
                    && self.front_end == FrontEnd::Slots
                    && !self.format.is_paper() =>
            {
                self.without_slots = true;
                return Ok(Taken::Again);
            }
            (Message::Error { code, text }, _) => return Err(code.refusal(&text)),
            (Message::Welcome(welcome), None) => *session = Some(Box::new(self.welcome(&welcome, control)?)),
            (Message::Partition { index, ud }, Some(mut half)) => {
                let dest = half.imports.dest(&ud)?;
                let RequestPath::Datagrams { dests, .. } = &mut half.front else {
                    return unusable("a partition's address");
                };
                if dests.len() != usize::from(index) || self.partitions_missing == 0 {
                    return unusable("order of partitions");
                }
                dests.push(dest);
                self.partitions_missing -= 1;
                *session = Some(half);
            }
            (Message::Ready, Some(whole)) if self.partitions_missing == 0 => {
                self.last_epoch = whole.params.epoch;
                return Ok(Taken::Done(whole));
            }
            _ => return unusable("order of messages"),
        }
        Ok(Taken::More)
    }
}
