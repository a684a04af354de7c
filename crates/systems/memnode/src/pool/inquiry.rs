//! [`Inquiry`]: asks the nodes of a pool what they are, and has them do what an operator wants.

use super::greeting::Greeting;
use super::{PoolError, PoolOptions};
use crate::client::ClientId;
use crate::control::{Create, Fence, Told, Verdict};
use crate::header::PoolMembership;
use crate::status::NodeStatus;
use drover_base::Ns;
use drover_control::Dial;

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
    nodes: Vec<Asked>,
    options: PoolOptions,
    order: Order,
    is_sent: bool,
    deadline: Option<Ns>,
}

/// A node that is asked.
struct Asked {
    greeting: Greeting,
    /// Why it says no more.
    error: Option<PoolError>,
    /// Whether it has answered the order.
    has_obeyed: bool,
}

impl Asked {
    /// Goes on with `step` unless that has failed before; whether it is over.
    fn go_on(&mut self, step: impl FnOnce(&mut Greeting) -> Result<bool, PoolError>) -> bool {
        if self.error.is_some() {
            return true;
        }
        step(&mut self.greeting).unwrap_or_else(|error| {
            self.error = Some(error);
            true
        })
    }
}

impl Inquiry {
    /// Begins to ask the nodes that `dials` lead to.
    pub fn new(dials: Vec<Dial>, options: PoolOptions, order: Order) -> Inquiry {
        let asked = |dial| Asked {
            greeting: Greeting::new(dial),
            error: None,
            has_obeyed: false,
        };
        Inquiry {
            nodes: dials.into_iter().map(asked).collect(),
            options,
            order,
            is_sent: false,
            deadline: None,
        }
    }

    /// Goes on; `None`: not all nodes have answered yet. The answer is what each node shows, in the order of the addresses,
    /// as it was before the order was obeyed, or why a node says nothing: the others are asked all the same.
    ///
    /// # Errors
    /// [`PoolError`] if there are no nodes. A pool is created of all nodes or of none: then also the first node's error, or
    /// that one of them is part of a pool.
    pub fn poll(&mut self, now: Ns) -> Option<Result<Vec<Result<NodeStatus, PoolError>>, PoolError>> {
        match self.advance(now) {
            Ok(false) => None,
            Ok(true) => {
                let answers = self.nodes.drain(..).map(|node| match node.error {
                    Some(error) => Err(error),
                    None => Ok(node.greeting.into_status().expect("all have answered")),
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
            all &= node.go_on(|greeting| greeting.greet(&self.options.secret, now, is_late));
        }
        let is_for_all = matches!(self.order, Order::Create { .. });
        if is_for_all && let Some(error) = self.nodes.iter_mut().find_map(|node| node.error.take()) {
            return Err(error);
        }
        if !all || self.order == Order::Status {
            return Ok(all);
        }
        if !self.is_sent {
            self.send()?;
            self.is_sent = true;
        }
        for node in &mut self.nodes {
            if !node.has_obeyed {
                node.has_obeyed = node.go_on(|greeting| obeyed(greeting, now, is_late));
                all &= node.has_obeyed;
            }
        }
        if is_for_all && let Some(error) = self.nodes.iter_mut().find_map(|node| node.error.take()) {
            return Err(error);
        }
        Ok(all)
    }

    fn send(&mut self) -> Result<(), PoolError> {
        let count = self.nodes.len() as u32;
        let greetings = self.nodes.iter_mut().map(|node| &mut node.greeting);
        match self.order {
            Order::Status => Ok(()),
            Order::Create { pool } => {
                let mut greetings: Vec<_> = greetings.collect();
                if let Some(node) = greetings.iter().find(|node| node.place().is_ok()) {
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
                let mut nodes = greetings.iter_mut().zip(places);
                nodes.try_for_each(|(node, place)| node.send(&Create { place }))
            }
            Order::Fence { client } => {
                for node in &mut self.nodes {
                    node.go_on(|greeting| greeting.send(&Fence { client }).map(|()| false));
                }
                Ok(())
            }
        }
    }
}

/// Takes a node's answer to an order. True once that is there.
fn obeyed(node: &mut Greeting, now: Ns, is_late: bool) -> Result<bool, PoolError> {
    let Some(frame) = node.receive(now, is_late)? else {
        return Ok(false);
    };
    let told: Told = node.decode(&frame)?;
    // A client that is not at one of the nodes has nothing to be shut out of there.
    match told.outcome {
        Verdict::Done | Verdict::NoSuchClient => Ok(true),
        verdict => Err(PoolError::Refused {
            server: node.server.clone(),
            verdict,
        }),
    }
}
