//! [`Inquiry`]: asks the nodes of a pool what they are, and has them do what an operator wants.

use super::greeting::Greeting;
use super::{PoolError, PoolOptions};
use crate::client::ClientId;
use crate::control::{Create, Fence, Told, Verdict};
use crate::header::{Header, PoolMembership};
use drover_base::Ns;
use drover_control::{Dial, Message};

/// What an operator wants of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Only to know what they show.
    Status,
    /// To make them, in this order, a pool of the [kind](PoolOptions::kind) that the options name.
    Create {
        /// Random name of the new pool, not 0.
        pool: u64,
    },
    /// To shut a client out.
    Fence {
        /// The client.
        client: ClientId,
    },
}

/// Asking nodes: [poll](Inquiry::poll) it until it has an answer. The process does not enter the pool.
pub struct Inquiry {
    nodes: Vec<Greeting>,
    options: PoolOptions,
    order: Order,
    is_sent: bool,
    /// Nodes that have answered the order.
    answered: usize,
    deadline: Option<Ns>,
}

impl Inquiry {
    /// Begins to ask the nodes that `dials` lead to.
    pub fn new(dials: Vec<Dial>, options: PoolOptions, order: Order) -> Inquiry {
        Inquiry {
            nodes: dials.into_iter().map(Greeting::new).collect(),
            options,
            order,
            is_sent: false,
            answered: 0,
            deadline: None,
        }
    }

    /// Goes on; `None`: not all nodes have answered yet. The answer is each node's name and header, in the order of the
    /// addresses, as they were before the order was obeyed.
    ///
    /// # Errors
    /// [`PoolError`] if a node cannot be reached, refuses, or cannot do it. Nothing is created if one of the nodes is part
    /// of a pool.
    pub fn poll(&mut self, now: Ns) -> Option<Result<Vec<(String, Header)>, PoolError>> {
        match self.advance(now) {
            Ok(false) => None,
            Ok(true) => {
                let answers = self.nodes.drain(..).map(|node| {
                    let (_, header) = node.welcome.expect("all have answered");
                    (node.server, header)
                });
                Some(Ok(answers.collect()))
            }
            Err(error) => {
                self.nodes.clear();
                Some(Err(error))
            }
        }
    }

    fn advance(&mut self, now: Ns) -> Result<bool, PoolError> {
        if self.nodes.is_empty() {
            return Err(PoolError::NoNodes);
        }
        let is_late = now >= *self.deadline.get_or_insert(now + self.options.timeout);
        let mut all = true;
        for node in &mut self.nodes {
            all &= node.greet(&self.options.secret, now, is_late)?;
        }
        if !all || self.order == Order::Status {
            return Ok(all);
        }
        if !self.is_sent {
            self.send()?;
            self.is_sent = true;
        }
        while let Some(node) = self.nodes.get_mut(self.answered) {
            let Some(frame) = node.receive(now, is_late)? else {
                return Ok(false);
            };
            let told: Told = node.decode(&frame)?;
            // A client that is not at one of the nodes has nothing to be shut out of there.
            let is_fine = matches!(told.outcome, Verdict::Done | Verdict::NoSuchClient);
            if !is_fine {
                let (server, verdict) = (node.server.clone(), told.outcome);
                return Err(PoolError::Refused { server, verdict });
            }
            self.answered += 1;
        }
        Ok(true)
    }

    fn send(&mut self) -> Result<(), PoolError> {
        let count = self.nodes.len() as u32;
        match self.order {
            Order::Status => Ok(()),
            Order::Create { pool } => {
                if let Some(node) = self.nodes.iter().find(|node| node.place().is_ok()) {
                    let server = node.server.clone();
                    return Err(PoolError::InPool { server });
                }
                let kind = self.options.kind;
                let places = (0..count).map(|index| PoolMembership {
                    pool,
                    index,
                    count,
                    kind,
                });
                let mut nodes = self.nodes.iter_mut().zip(places);
                nodes.try_for_each(|(node, place)| node.send(&Create { place }))
            }
            Order::Fence { client } => self.send_all(&Fence { client }),
        }
    }

    fn send_all<M: Message>(&mut self, message: &M) -> Result<(), PoolError> {
        self.nodes.iter_mut().try_for_each(|node| node.send(message))
    }
}
