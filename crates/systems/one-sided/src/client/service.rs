//! Implements [`ServiceClient`] for [`Client`].

use super::{Client, ClientOptions, Reader};
use drover_control::Dial;
use drover_kv::{Calls, ConnectOptions, Op, Reads, ServiceClient, SetupError, SizeLimits};
use drover_verbs::Provider;
use std::rc::Rc;

impl<P: Provider, R: Reader<P> + 'static> ServiceClient<P> for Client<P, R> {
    fn open(ctx: Rc<P::Context>, dials: Vec<Dial>, options: &ConnectOptions) -> Self {
        let options = ClientOptions {
            window: options.effective_window(),
            depth: options.depth,
            deadline: options.deadline,
            secret: options.secret.clone(),
            transfer: options.transfer,
            miss: R::policy(options),
        };
        Client::new(ctx, dials, options)
    }

    fn is_ready(&mut self) -> bool {
        Client::is_ready(self)
    }

    fn take_error(&mut self) -> Option<SetupError> {
        Client::take_error(self)
    }

    fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits> {
        Client::size_limits(self, op)
    }

    fn reads(&self) -> Option<Reads> {
        Some(R::reads(&self.stats()))
    }

    fn calls(&mut self) -> Option<Calls> {
        Client::calls(self)
    }
}
