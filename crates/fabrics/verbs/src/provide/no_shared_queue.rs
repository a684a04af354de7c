//! [`NoSharedQueue`]: for providers whose queue pairs cannot be shared.

use crate::{PostError, Provider, SendList, SharedQueue, Wc};

/// The shared queue of a provider without [`Support::shared_queues`](crate::Support::shared_queues): there is no value of it.
#[derive(Debug)]
pub enum NoSharedQueue {}

impl<P: Provider> SharedQueue<P> for NoSharedQueue {
    fn post_send(&self, _: &P::Cpu, _: &SendList) -> Result<(), PostError> {
        match *self {}
    }

    fn poll(&self, _: &P::Cpu, _: &mut [Wc]) -> usize {
        match *self {}
    }
}
