//! [`Backend`]: the client of a system, whatever its provider and type.

use drover_base::{Cpu, Ns};
use drover_kv::{Completion, KvClient, Op, SubmitError, Token};
use drover_verbs::{Context, Provider};
use std::rc::Rc;

/// A [`KvClient`] with the core that it runs on, behind one type: so all systems and providers share one gateway. Cost: a
/// virtual call per operation, one per poll, and one per completion.
pub trait Backend {
    /// As [`KvClient::submit`].
    ///
    /// # Errors
    /// As [`KvClient::submit`].
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError>;

    /// As [`KvClient::flush`].
    ///
    /// # Errors
    /// As [`KvClient::flush`].
    fn flush(&mut self, delay_s: u32, token: Token) -> Result<(), SubmitError> {
        let _ = (delay_s, token);
        Err(SubmitError::NotOffered)
    }

    /// As [`KvClient::poll`].
    fn poll(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize;

    /// As [`KvClient::next_timer`].
    fn next_timer(&self) -> Ns;

    /// Time on the clock of the core, as of its last reading.
    fn now(&self) -> Ns;
}

/// A client and its context.
pub struct OnContext<P: Provider, K> {
    /// Declared before the context: its queue pairs must be destroyed first.
    client: K,
    ctx: Rc<P::Context>,
}

impl<P: Provider, K: KvClient<P>> OnContext<P, K> {
    /// The client `client`, whose queue pairs are in `ctx`.
    pub fn new(ctx: Rc<P::Context>, client: K) -> OnContext<P, K> {
        OnContext { client, ctx }
    }
}

impl<P: Provider, K: KvClient<P>> Backend for OnContext<P, K> {
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        self.client.submit(self.ctx.cpu(), op, token)
    }

    fn flush(&mut self, delay_s: u32, token: Token) -> Result<(), SubmitError> {
        self.client.flush(self.ctx.cpu(), delay_s, token)
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        self.client
            .poll(self.ctx.cpu(), &mut |completion: Completion<'_>| sink(completion))
    }

    fn next_timer(&self) -> Ns {
        self.client.next_timer()
    }

    fn now(&self) -> Ns {
        self.ctx.cpu().now()
    }
}
