//! [`Port`]: what one client alone reaches of its server.

use crate::ResourceError;
use drover_mem::AllocError;
use drover_verbs::{Context, Export, Provider, QpKind, QpOptions, QueuePair};
use std::rc::Rc;

/// A protection domain of one client's own, at its server: the memory that this client alone may WRITE or READ is registered
/// there, and the client reaches it through a queue pair that is there, too. Through other queue pairs nobody reaches that
/// memory, whatever key he guesses; and through this one the client reaches nothing else. The server posts nothing through it.
///
/// Memory that all clients READ stays in the server's own domain, registered once, with the right to be READ alone; clients
/// reach it through the [`Queues`](crate::Queues) of their connection, by which the server posts as well.
///
/// Where the fabric does not [isolate](Provider::ISOLATES), there is no such queue pair, and the memory is registered in the
/// server's context. Cost: a protection domain, a queue pair and a completion queue for each client.
pub struct Port<P: Provider> {
    own: Option<Own<P>>,
    ctx: Rc<P::Context>,
}

/// Queue pair and completion queue, which is never polled, and the context of both.
struct Own<P: Provider> {
    qp: P::Qp,
    _cq: P::Cq,
    ctx: P::Context,
}

impl<P: Provider> Port<P> {
    /// Creates the port of a new client.
    ///
    /// # Errors
    /// [`ResourceError`] if the device lacks resources.
    pub fn new(ctx: &Rc<P::Context>) -> Result<Port<P>, ResourceError> {
        let own = match ctx.isolated()? {
            Some(own) => Some(Own::new(own)?),
            None => None,
        };
        let ctx = ctx.clone();
        Ok(Port { own, ctx })
    }

    /// A port without a domain: all memory is the server's. For connections whose peer is trusted, and tests.
    pub fn shared(ctx: &Rc<P::Context>) -> Port<P> {
        let ctx = ctx.clone();
        Port { own: None, ctx }
    }

    /// The server's context.
    pub fn server(&self) -> &Rc<P::Context> {
        &self.ctx
    }

    /// The context to register the client's memory in, if that is not the server's.
    pub fn own(&self) -> Option<&P::Context> {
        self.own.as_ref().map(|own| &own.ctx)
    }

    /// The context to register the client's memory in.
    pub fn context(&self) -> &P::Context {
        self.own().unwrap_or(&self.ctx)
    }

    /// The queue pair, for the client; `None` if there is none.
    ///
    /// # Errors
    /// [`AllocError`] if the process is out of file descriptors.
    pub fn export(&self) -> Result<Option<Export>, AllocError> {
        self.own.as_ref().map(|own| own.qp.export()).transpose()
    }

    /// Connects the queue pair, if there is one, with the client's.
    ///
    /// # Errors
    /// [`ResourceError`] if it cannot be connected, or the client has none for it.
    pub fn connect(&mut self, peer: Option<&Export>) -> Result<(), ResourceError> {
        match (&mut self.own, peer) {
            (Some(own), Some(peer)) => Ok(own.qp.connect(peer)?),
            (None, None) => Ok(()),
            _ => Err(ResourceError::Unusable { what: "port" }),
        }
    }
}

impl<P: Provider> Own<P> {
    fn new(ctx: P::Context) -> Result<Own<P>, ResourceError> {
        let cq = ctx.create_cq(1)?;
        let qp = ctx.create_qp(&QpOptions {
            send_depth: 1,
            recv_depth: 1,
            ..QpOptions::new(QpKind::Rc, &cq, ctx.caps())
        })?;
        Ok(Own { qp, _cq: cq, ctx })
    }
}

impl<P: Provider> Drop for Own<P> {
    fn drop(&mut self) {
        self.qp.to_error();
    }
}
