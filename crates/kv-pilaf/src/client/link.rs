//! [`Greeting`]: what a client says to a shard until it has a session with it; dialling, resting and trying again are
//! the [`Link`](drover_rt::Link)'s.

use super::SetupError;
use super::session::Session;
use crate::control::{Attach, Hello, PROTOCOL_VERSION, Ready, Welcome};
use drover_base::Ns;
use drover_rt::control::{ControlStream, Dial, Frame};
use drover_rt::{Handshake, LinkOptions, Loss};
use drover_verbs::{MemoryRegion, Provider, QueuePair};
use std::rc::Rc;

/// One shard as the client sees it.
pub(super) type Link<P> = drover_rt::Link<Greeting<P>>;

/// A link to shard `shard` of `shard_count` for a client with `slots` places.
pub(super) fn link<P: Provider>(
    ctx: &Rc<P::Context>,
    dial: Dial,
    shard: usize,
    shard_count: usize,
    slots: usize,
) -> Link<P> {
    let greeting = Greeting {
        shard: shard as u16,
        shard_count: shard_count as u16,
        slots,
        previous: 0,
        ctx: ctx.clone(),
    };
    Link::new(dial, greeting, LinkOptions::default())
}

/// Hello, Welcome, Attach, Ready.
pub(super) struct Greeting<P: Provider> {
    shard: u16,
    shard_count: u16,
    slots: usize,
    /// The last session's name, so that the server ends it before it begins another.
    previous: u64,
    ctx: Rc<P::Context>,
}

impl<P: Provider> Handshake for Greeting<P> {
    type Session = Session<P>;
    type Error = SetupError;

    fn begin(&mut self, control: &mut ControlStream) -> Result<(), SetupError> {
        let hello = Hello {
            version: PROTOCOL_VERSION,
            slots: self.slots as u16,
            shard: self.shard,
            shard_count: self.shard_count,
            previous: self.previous,
        };
        Ok(control.send_message(&hello)?)
    }

    fn take(
        &mut self,
        frame: &Frame,
        session: &mut Option<Box<Session<P>>>,
        control: &mut ControlStream,
        now: Ns,
    ) -> Result<bool, SetupError> {
        if let Some(session) = session {
            frame.decode::<Ready>()?;
            self.previous = session.id;
            return Ok(true);
        }
        let new = Session::<P>::new(&self.ctx, self.slots, &frame.decode::<Welcome>()?, now)?;
        let attach = Attach {
            qp: new.qp.export()?,
            values: new.values.export(&[])?,
        };
        control.send_message(&attach)?;
        *session = Some(Box::new(new));
        Ok(false)
    }

    fn is_broken(session: &Session<P>) -> bool {
        session.broken
    }

    fn is_curious(session: &Session<P>) -> bool {
        session.is_curious
    }

    fn hear(session: &mut Session<P>, frame: &Frame) -> Result<(), SetupError> {
        session.hear(frame)
    }

    fn looked(session: &mut Session<P>, control: &mut ControlStream) -> Result<(), SetupError> {
        session.is_curious = false;
        session.adopt()?;
        match session.take_adopted() {
            Some(adopted) => Ok(control.send_message(&adopted)?),
            None => Ok(()),
        }
    }
}

impl From<Loss> for SetupError {
    fn from(loss: Loss) -> SetupError {
        match loss {
            Loss::Timeout => SetupError::Timeout,
            Loss::Broken => SetupError::Ended,
            Loss::Unexpected => SetupError::Unusable { what: "message" },
        }
    }
}
