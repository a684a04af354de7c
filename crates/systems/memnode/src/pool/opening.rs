//! [`Opening`]: how a compute process enters a pool. It asks all nodes who they are, checks that they are the nodes of
//! one pool, and registers: first with node 0, which says who we are, then with the others.

use super::channel::Channel;
use super::greeting::Greeting;
use super::{Pool, PoolError, PoolNode};
use crate::activity::Activity;
use crate::client::ClientId;
use crate::clients::{ClientState, decode_infos};
use crate::clock::NodeClock;
use crate::control::{Attach, Leave, Stopped, Told, Verdict};
use crate::epochs::ProcessEpochs;
use crate::header::{PoolKind, PoolMembership};
use crate::lease::Lease;
use crate::sweeps::ProcessSweeps;
use drover_base::sync::{Arc, AtomicU32, AtomicU64, Mutex};
use drover_base::{Cpu, Ns};
use drover_control::{Dial, Message};
use drover_one_sided::Ready;
use drover_rt::{Depths, Queues, ResourceError};
use drover_verbs::{Context, Domain, Export, OpenError, Provider, QueuePair};
use std::rc::Rc;

/// What a compute process wants of a pool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// What the pool must hold.
    pub kind: PoolKind,
    /// The secret that the nodes require; empty: none.
    pub secret: Vec<u8>,
    /// Time within which all nodes must have answered.
    pub timeout: Ns,
    /// An earlier identity of this process, and the nodes at which it has stopped: see
    /// [`Pool::has_stopped_at`]. They are told so, and need not wait for it.
    pub stopped: Vec<(u32, ClientId)>,
    /// Whether the process enters at one node only, whichever that is, to repair what others left there. The other nodes are
    /// [absent](PoolNode::is_absent).
    pub alone: bool,
    /// Where the process counts what it does.
    pub activity: Arc<Activity>,
}

impl PoolOptions {
    /// A pool of `kind` without a secret, whose nodes answer within 5 s.
    pub fn new(kind: PoolKind) -> PoolOptions {
        PoolOptions {
            kind,
            secret: Vec::new(),
            timeout: Ns::from_s(5),
            stopped: Vec::new(),
            alone: false,
            activity: Arc::default(),
        }
    }
}

/// A pool that was entered, and the lease that keeps this process in it.
pub type Opened<P> = (Pool<P>, Lease<P>);

/// Entering a pool: [poll](Opening::poll) it until it has an answer. It never blocks, apart from its [`Dial`]s.
pub struct Opening<P: Provider> {
    nodes: Vec<NodeOpening<P>>,
    options: PoolOptions,
    client: ClientId,
    /// Only numbers above this one are wanted: the others are in use somewhere.
    above: u16,
    /// Nodes that have let us in.
    entered: usize,
    deadline: Option<Ns>,
    /// `None`: a process of one thread.
    domain: Option<P::Domain>,
    ctx: Rc<P::Context>,
}

/// One node, from dialling to its last answer.
struct NodeOpening<P: Provider> {
    greeting: Greeting,
    place: Option<PoolMembership>,
    /// Queue pair for the lease, once we have asked to be let in.
    queues: Option<Queues<P>>,
}

/// Requests of a lease that are outstanding at a time.
const LEASE_DEPTH: usize = 2;

impl<P: Provider> Opening<P> {
    /// Begins to enter the pool whose nodes `dials` lead to, in any order. The calling thread becomes the one that keeps
    /// the lease.
    ///
    /// # Errors
    /// [`OpenError`] if the thread gets no context of `domain`.
    pub fn new(domain: &P::Domain, dials: Vec<Dial>, options: PoolOptions) -> Result<Opening<P>, OpenError> {
        let ctx = Rc::new(domain.context()?);
        Ok(Opening {
            domain: Some(domain.clone()),
            ..Opening::of_thread(ctx, dials, options)
        })
    }

    /// As [`new`](Opening::new), for a process of one thread, which keeps the lease and does everything else in `ctx`. Tasks
    /// must be gone before the [`Lease`] is dropped, which takes the nodes' memory out of the context.
    pub fn of_thread(ctx: Rc<P::Context>, dials: Vec<Dial>, options: PoolOptions) -> Opening<P> {
        let node = |dial: Dial| NodeOpening {
            greeting: Greeting::new(dial),
            place: None,
            queues: None,
        };
        Opening {
            nodes: dials.into_iter().map(node).collect(),
            options,
            client: ClientId::NONE,
            above: 0,
            entered: 0,
            deadline: None,
            domain: None,
            ctx,
        }
    }

    /// The context of the lease's thread.
    pub fn context(&self) -> &Rc<P::Context> {
        &self.ctx
    }

    /// Goes on; `None`: the nodes have not answered yet. Poll it again after a microsecond or later.
    ///
    /// # Errors
    /// [`PoolError`] if these are not all nodes of a pool of this kind, or they do not let us in. All connections are
    /// then given up.
    pub fn poll(&mut self, now: Ns) -> Option<Result<Opened<P>, PoolError>> {
        match self.advance(now) {
            Ok(false) => None,
            Ok(true) => Some(self.finish(now)),
            Err(error) => {
                self.leave_all();
                self.nodes.clear();
                Some(Err(error))
            }
        }
    }

    fn advance(&mut self, now: Ns) -> Result<bool, PoolError> {
        if self.nodes.is_empty() {
            return Err(PoolError::NoNodes);
        }
        let deadline = *self.deadline.get_or_insert(now + self.options.timeout);
        let is_late = now >= deadline;
        if self.nodes.iter().any(|node| node.place.is_none()) {
            let mut all = true;
            for node in &mut self.nodes {
                all &= node.greeting.greet(&self.options.secret, now, is_late)?;
            }
            if !all {
                return Ok(false);
            }
            self.check()?;
            self.above = self.number_for_all()? - 1;
        }
        while let Some(node) = self.nodes.get_mut(self.entered) {
            let me = Attach {
                client: self.client,
                above: self.above,
                qp: Export::default(),
            };
            let entered = match node.enter(&self.ctx, me, &self.options.stopped, now, is_late) {
                // What a dead client left there is not repaired yet, and its number is free at node 0 already.
                Err(PoolError::Refused {
                    verdict: Verdict::ClientBusy,
                    ..
                }) if self.entered > 0 => {
                    self.begin_anew();
                    return Ok(false);
                }
                entered => entered?,
            };
            let Some(client) = entered else {
                return Ok(false);
            };
            (self.client, self.entered) = (client, self.entered + 1);
        }
        Ok(true)
    }

    /// The first number above [`above`](Opening::above) that all nodes could give us, by what they have said. To ask node 0 for
    /// one number after another would take seconds where another node has hundreds of clients that it does not have, and
    /// each attempt is in the way of those of others.
    ///
    /// # Errors
    /// [`PoolError::Refused`] if there is none.
    fn number_for_all(&self) -> Result<u16, PoolError> {
        let welcomes = self
            .nodes
            .iter()
            .filter_map(|node| node.greeting.welcome.as_ref());
        let tables: Vec<Taken> = welcomes
            .map(|(welcome, header)| Taken::of(&welcome.clients, header.geometry.client_count))
            .collect();
        let longest = tables.iter().map(|taken| taken.numbers.len()).min().unwrap_or(0);
        let number = (usize::from(self.above)..longest)
            .find(|&index| tables.iter().all(|taken| !taken.numbers[index]))
            .and_then(|index| u16::try_from(index + 1).ok());
        let fullest = tables
            .iter()
            .zip(&self.nodes)
            .max_by_key(|(taken, _)| taken.count());
        number.ok_or_else(|| PoolError::Refused {
            server: fullest.map_or(String::new(), |(_, node)| node.greeting.server.clone()),
            verdict: Verdict::ClientsMax,
        })
    }

    /// Leaves the nodes that have let us in, to enter with another number.
    fn begin_anew(&mut self) {
        self.leave_all();
        (self.above, self.client, self.entered) = (self.client.id, ClientId::NONE, 0);
        for node in &mut self.nodes {
            node.greeting.begin_anew();
            (node.place, node.queues) = (None, None);
        }
    }

    /// Nothing is to be repaired where we were let in, or will be by a node that has not answered yet.
    fn leave_all(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.queues.is_some()) {
            let _ = node.greeting.send(&Leave);
        }
    }

    /// Checks that these are all nodes of one pool, each once, and sorts them.
    fn check(&mut self) -> Result<(), PoolError> {
        for node in &mut self.nodes {
            node.place = Some(node.greeting.place()?);
        }
        let place = |node: &NodeOpening<P>| node.place.expect("set above");
        if self.options.alone {
            return self.check_alone();
        }
        self.nodes.sort_by_key(|node| place(node).index);
        let named = |node: &NodeOpening<P>| (node.greeting.server.clone(), place(node));
        let places: Vec<_> = self.nodes.iter().map(named).collect();
        check_places(Some(self.options.kind), &places)
    }

    /// Checks that there is one node, of the right kind.
    fn check_alone(&mut self) -> Result<(), PoolError> {
        let [node] = &self.nodes[..] else {
            return Err(PoolError::NoNodes);
        };
        let (place, wanted) = (node.place.expect("set before"), self.options.kind);
        match place.kind == wanted {
            true => Ok(()),
            false => Err(PoolError::WrongKind {
                server: node.greeting.server.clone(),
                found: place.kind,
                wanted,
            }),
        }
    }

    fn finish(&mut self, now: Ns) -> Result<Opened<P>, PoolError> {
        let (mut nodes, mut queues) = (Vec::new(), Vec::new());
        for node in self.nodes.drain(..) {
            let (greeting, place) = (node.greeting, node.place.expect("it has answered"));
            let (welcome, header) = greeting.welcome.expect("it has answered");
            let memory = match &self.domain {
                Some(domain) => domain.import_region(&welcome.memory)?,
                None => self.ctx.import_region(&welcome.memory)?,
            };
            if memory.len < header.geometry.capacity {
                match &self.domain {
                    Some(domain) => domain.forget_region(&memory),
                    None => self.ctx.forget_region(&memory),
                }
                let what = "a header for more memory than there is";
                return Err(ResourceError::Unusable { what }.into());
            }
            let until = now + welcome.times.stop_after;
            queues.push(node.queues.expect("it has let us in"));
            nodes.push(PoolNode {
                server: greeting.server,
                place,
                memory,
                times: welcome.times,
                quota_chunks: welcome.quota_chunks,
                epochs: Arc::new(ProcessEpochs::new(header.reclaim)),
                sweeps: Arc::new(ProcessSweeps::new(header.sweep)),
                epoch: AtomicU64::new(header.epoch),
                clock: NodeClock::new(header.clock_s, now),
                writes_until: AtomicU64::new(until.0),
                chunks_owned: AtomicU32::new(0),
                ended: AtomicU64::new(0),
                channel: Mutex::new(Channel::new(greeting.stream.expect("an open channel"))),
                header,
            });
        }
        if self.options.alone {
            (nodes, queues) = self.among_absent(nodes, queues)?;
        }
        let pool = Pool::new(
            nodes,
            self.client,
            self.domain.clone(),
            self.options.activity.clone(),
        );
        let lease = Lease::new(&self.ctx, pool.clone(), queues)?;
        Ok((pool, lease))
    }

    /// The node that was asked in its place, among what keeps the places of the others.
    fn among_absent(
        &self,
        mut nodes: Vec<PoolNode>,
        mut queues: Vec<Queues<P>>,
    ) -> Result<(Vec<PoolNode>, Vec<Queues<P>>), PoolError> {
        let own = nodes.first().map(|node| node.place).expect("one node was asked");
        for index in (0..own.count).filter(|&index| index != own.index) {
            let absent = nodes[0].absent(index);
            let queue = Queues::<P>::new(&self.ctx, Depths::of_sends(LEASE_DEPTH))?;
            nodes.push(absent);
            queues.push(queue);
        }
        let place = own.index as usize;
        nodes[..=place].rotate_left(1);
        queues[..=place].rotate_left(1);
        Ok((nodes, queues))
    }
}

/// Checks that these, in the order of their indices, are all nodes of one pool, each once, and of this kind if one is given.
///
/// # Errors
/// [`PoolError`] that names the nodes.
pub fn check_places(kind: Option<PoolKind>, nodes: &[(String, PoolMembership)]) -> Result<(), PoolError> {
    let Some((other, first)) = nodes.first() else {
        return Err(PoolError::NoNodes);
    };
    for (server, own) in nodes {
        let server = server.clone();
        let wanted = kind.unwrap_or(own.kind);
        if own.kind != wanted {
            let found = own.kind;
            return Err(PoolError::WrongKind {
                server,
                found,
                wanted,
            });
        }
        if (own.pool, own.count) != (first.pool, first.count) {
            let other = other.clone();
            return Err(PoolError::OtherPool { server, other });
        }
    }
    for pair in nodes.windows(2) {
        let [(server, own), (other, second)] = pair else {
            continue;
        };
        if own.index == second.index {
            return Err(PoolError::Duplicate {
                server: server.clone(),
                other: other.clone(),
                index: own.index,
            });
        }
    }
    let has = |index: u32| {
        nodes
            .get(index as usize)
            .is_some_and(|(_, own)| own.index == index)
    };
    match (0..first.count).find(|&index| !has(index)) {
        Some(index) => Err(PoolError::Missing {
            index,
            count: first.count,
        }),
        None => Ok(()),
    }
}

/// Numbers that a node would not give to a client that comes now, at index 0 number 1.
struct Taken {
    numbers: Vec<bool>,
}

impl Taken {
    /// By what a node says of its clients. Those that it does not name may be there; it refuses their numbers.
    fn of(infos: &[u8], client_count: u32) -> Taken {
        let infos = decode_infos(infos).unwrap_or_default();
        // Where nobody lives, a dead client's number can be had.
        let is_deserted = !infos.iter().any(|info| info.state == ClientState::Live);
        let mut numbers = vec![false; client_count as usize];
        for info in infos {
            let index = usize::from(info.client.id).wrapping_sub(1);
            if let Some(taken) = numbers.get_mut(index) {
                *taken = !(is_deserted && info.state == ClientState::Fenced);
            }
        }
        Taken { numbers }
    }

    fn count(&self) -> usize {
        self.numbers.iter().filter(|&&taken| taken).count()
    }
}

impl<P: Provider> NodeOpening<P> {
    /// Asks to be let in, and takes the answer: who we are.
    fn enter(
        &mut self,
        ctx: &P::Context,
        me: Attach,
        stopped: &[(u32, ClientId)],
        now: Ns,
        is_late: bool,
    ) -> Result<Option<ClientId>, PoolError> {
        let client = me.client;
        if self.queues.is_none() {
            let index = self.place.map(|place| place.index);
            for &(_, client) in stopped.iter().filter(|&&(node, _)| Some(node) == index) {
                self.greeting.send(&Stopped { client })?;
            }
            let queues = Queues::<P>::new(ctx, Depths::of_sends(LEASE_DEPTH))?;
            let qp = queues.qp.export().map_err(ResourceError::Alloc)?;
            self.queues = Some(queues);
            self.greeting.send(&Attach { qp, ..me })?;
        }
        while let Some(frame) = self.greeting.receive(now, is_late)? {
            if frame.kind == Ready::KIND {
                continue;
            }
            let told: Told = self.greeting.decode(&frame)?;
            let is_expected = client.is_none() || told.client == client;
            if told.outcome != Verdict::Done || told.client.is_none() || !is_expected {
                return Err(PoolError::Refused {
                    server: self.greeting.server.clone(),
                    verdict: told.outcome,
                });
            }
            let queues = self.queues.as_mut().expect("made above");
            queues.qp.connect(&told.qp)?;
            return Ok(Some(told.client));
        }
        Ok(None)
    }
}

impl<P: Provider> Pool<P> {
    /// Enters the pool whose nodes `dials` lead to, in any order, and waits until they have answered, at most
    /// [`PoolOptions::timeout`]. `idle` is called between two looks: it may yield the core. The calling thread becomes
    /// the one that keeps the lease: it must step the [`Lease`] often, or hand over to one that begins with
    /// [`Opening`] instead.
    ///
    /// # Errors
    /// [`PoolError`] if these are not all nodes of a pool of this kind, or they do not let us in.
    pub fn open(
        domain: &P::Domain,
        dials: Vec<Dial>,
        options: PoolOptions,
        mut idle: impl FnMut(),
    ) -> Result<Opened<P>, PoolError> {
        let opening = Opening::<P>::new(domain, dials, options);
        let mut opening = opening.map_err(|error| PoolError::Fabric { error })?;
        loop {
            let now = opening.context().cpu().refresh();
            if let Some(opened) = opening.poll(now) {
                return opened;
            }
            idle();
        }
    }
}
