//! [`Session`]: one connection's side of the protocol.

use crate::Desk;
use drover_base::Cpu;
use drover_net::{Advance, Output, Talk, Wants};
use std::marker::PhantomData;

/// One connection of a client. Holds what must outlast a step: an unfinished multiget, bytes of a refused value still to
/// be skipped, whether the client has logged in.
#[derive(Debug)]
pub struct Session<C> {
    cpu: PhantomData<fn(C)>,
}

impl<C> Session<C> {
    /// A client that just connected. `must_log_in`: the server has an auth file.
    pub fn new(must_log_in: bool) -> Session<C> {
        let _ = must_log_in;
        Session { cpu: PhantomData }
    }
}

impl<C: Cpu + 'static> Talk for Session<C> {
    type Desk<'d> = Desk<'d, C>;

    fn advance(&mut self, desk: &mut Desk<'_, C>, input: &[u8], output: &mut Output) -> Advance {
        let _ = (desk, output);
        Advance {
            used: input.len(),
            wants: Wants::Close,
        }
    }
}

impl<C: Cpu> Desk<'_, C> {
    /// Answers a message of another core: its reply is added to `output`, and may be empty. A message that no core would
    /// send is answered by `SERVER_ERROR`.
    pub fn serve(&mut self, message: &[u8], output: &mut Output) {
        let _ = (message, output);
    }
}
