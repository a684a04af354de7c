//! [`Nodes`]: one thread's connections to the nodes of a pool.

use crate::addr::Addr;
use crate::chunks::CHUNK_BYTES;
use crate::client::ClientId;
use crate::clients::ClientLine;
use crate::control::Verdict;
use crate::epochs::ThreadEpochs;
use crate::header::{CLIENT_BYTES, root_offset};
use crate::locks::Lock;
use crate::pool::{ChannelError, MemoryError, Pool, PoolError, PoolNode};
use drover_base::Ns;
use drover_rt::{PeerId, ResourceError, TaskCx, TaskPool};
use drover_verbs::{Provider, QpKind, QueuePair, RemoteAddr};
use std::rc::Rc;

/// One thread's connections to the nodes of a pool: destinations of its pool of tasks, and the epochs that its tasks pin.
/// Clones are handles of the same.
pub struct Nodes<P: Provider>(Rc<Inner<P>>);

impl<P: Provider> Clone for Nodes<P> {
    fn clone(&self) -> Nodes<P> {
        Nodes(self.0.clone())
    }
}

struct Inner<P: Provider> {
    pool: Pool<P>,
    ends: Vec<End>,
}

struct End {
    peer: PeerId,
    tag: u32,
    rkey: u32,
    capacity: u64,
    epochs: ThreadEpochs,
}

/// A thread's connection to a node, as its successor must know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The destination of requests.
    peer: PeerId,
    /// How the node knows it, in the session of this client.
    tag: u32,
    client: ClientId,
}

/// Connecting a thread: [poll](Joining::poll) it until it has an answer.
pub struct Joining<P: Provider> {
    pool: Pool<P>,
    /// Of each node: the thread's queue pair and the tag of the question.
    waiting: Vec<(P::Qp, u32)>,
    /// Nodes that are connected.
    connected: usize,
    /// What is replaced; empty: new connections.
    replaced: Vec<Connection>,
    deadline: Ns,
}

impl<P: Provider> Pool<P> {
    /// Begins to connect `tasks`, a pool of tasks of the calling thread in `ctx`, with all nodes. `ctx` is a context of
    /// the pool's domain, see [`context`](Pool::context). The nodes must answer by `deadline`.
    ///
    /// # Errors
    /// [`PoolError`] if queue pairs cannot be created, or a node is lost.
    pub fn join(&self, ctx: &P::Context, tasks: &TaskPool<P>, deadline: Ns) -> Result<Joining<P>, PoolError> {
        self.join_again(ctx, tasks, &[], deadline)
    }

    /// As [`join`](Pool::join), after the connections to this pool, or to one that was entered before, have failed: the new
    /// ones take the place of the [old ones](Nodes::connections), which the nodes close if they are of this pool. No task may
    /// have requests outstanding there.
    ///
    /// # Errors
    /// As [`join`](Pool::join).
    pub fn join_again(
        &self,
        ctx: &P::Context,
        tasks: &TaskPool<P>,
        old: &[Connection],
        deadline: Ns,
    ) -> Result<Joining<P>, PoolError> {
        let mut waiting = Vec::new();
        for (index, node) in self.nodes().iter().enumerate() {
            let qp = tasks.create_qp(ctx, QpKind::Rc)?;
            let mut tag = 0;
            if !node.is_absent() {
                let export = qp.export().map_err(ResourceError::Alloc)?;
                let own = old.get(index).filter(|old| old.client == self.client());
                let asked = node.channel().connect(export, own.map_or(0, |old| old.tag));
                tag = asked.map_err(|error| channel_error(node, error))?;
            }
            waiting.push((qp, tag));
        }
        Ok(Joining {
            pool: self.clone(),
            waiting,
            connected: 0,
            replaced: old.to_vec(),
            deadline,
        })
    }
}

fn channel_error(node: &PoolNode, error: ChannelError) -> PoolError {
    let server = node.server().to_owned();
    match error {
        ChannelError::Control(error) => PoolError::Control { server, error },
        ChannelError::Message(error) => PoolError::Message { server, error },
    }
}

impl<P: Provider> Joining<P> {
    /// Goes on; `None`: some node has not answered yet.
    ///
    /// # Errors
    /// [`PoolError`] if a node is lost, refuses, or does not answer in time.
    pub fn poll(&mut self, tasks: &mut TaskPool<P>, now: Ns) -> Option<Result<Nodes<P>, PoolError>> {
        match self.advance(now) {
            Ok(false) => None,
            Ok(true) => Some(Ok(self.finish(tasks))),
            Err(error) => Some(Err(error)),
        }
    }

    fn advance(&mut self, now: Ns) -> Result<bool, PoolError> {
        while self.connected < self.waiting.len() {
            let index = self.connected;
            let node = self.pool.node(index);
            let (qp, tag) = &mut self.waiting[index];
            if node.is_absent() {
                self.connected += 1;
                continue;
            }
            let mut channel = node.channel();
            let polled = channel.poll(now);
            let Some(told) = channel.answer(*tag) else {
                polled.map_err(|error| channel_error(node, error))?;
                let server = node.server().to_owned();
                return match now >= self.deadline {
                    true => Err(PoolError::Timeout { server }),
                    false => Ok(false),
                };
            };
            if told.outcome != Verdict::Done {
                let (server, verdict) = (node.server().to_owned(), told.outcome);
                return Err(PoolError::Refused { server, verdict });
            }
            qp.connect(&told.qp)?;
            self.connected += 1;
        }
        Ok(true)
    }

    fn finish(&mut self, tasks: &mut TaskPool<P>) -> Nodes<P> {
        let qps = self.waiting.drain(..).zip(self.pool.nodes()).enumerate();
        let ends = qps.map(|(index, ((qp, tag), node))| {
            let peer = match self.replaced.get(index) {
                Some(&Connection { peer, .. }) => {
                    tasks.replace_peer(peer, qp);
                    peer
                }
                None => tasks.add_peer(qp),
            };
            if !node.is_absent() {
                tasks.add_region(node.memory());
            }
            End {
                peer,
                tag,
                rkey: node.memory().rkey,
                capacity: node.header().geometry.capacity,
                epochs: node.epochs.thread(),
            }
        });
        Nodes(Rc::new(Inner {
            ends: ends.collect(),
            pool: self.pool.clone(),
        }))
    }
}

/// Where a piece of a pool's memory is, for requests of one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Located {
    /// Destination of the requests.
    pub peer: PeerId,
    /// The memory.
    pub remote: RemoteAddr,
}

impl<P: Provider> Nodes<P> {
    /// The pool.
    pub fn pool(&self) -> &Pool<P> {
        &self.0.pool
    }

    /// The connections to the nodes, in their order: for [`Pool::join_again`].
    pub fn connections(&self) -> Vec<Connection> {
        let client = self.pool().client();
        let connection = |end: &End| Connection {
            peer: end.peer,
            tag: end.tag,
            client,
        };
        self.0.ends.iter().map(connection).collect()
    }

    /// Node `index`.
    ///
    /// # Panics
    /// If there is no such node.
    #[inline]
    pub fn node(&self, index: usize) -> &PoolNode {
        self.0.pool.node(index)
    }

    /// Where the `bytes` at `addr` are. The address may be anything: it is checked, because a request outside would end
    /// the queue pair.
    ///
    /// # Errors
    /// [`MemoryError::BadPointer`] if they are not in the data of a node.
    #[inline]
    pub fn locate(&self, addr: Addr, bytes: usize) -> Result<Located, MemoryError> {
        let bad = MemoryError::BadPointer {
            addr,
            bytes: bytes as u64,
        };
        let end = self.0.ends.get(addr.node()).ok_or(bad)?;
        let offset = addr.offset();
        let is_inside = offset >= CHUNK_BYTES as u64
            && addr.region() == 0
            && (bytes as u64) <= end.capacity
            && offset <= end.capacity - bytes as u64;
        match is_inside {
            true => Ok(end.at(offset)),
            false => Err(bad),
        }
    }

    /// As [`locate`](Nodes::locate), to write there.
    ///
    /// # Errors
    /// Also [`MemoryError::LeaseOver`] if this process may not write to the node in this step, and
    /// [`MemoryError::NodeLost`] if it never may again.
    #[inline]
    pub fn locate_to_write(&self, cx: &TaskCx<P>, addr: Addr, bytes: usize) -> Result<Located, MemoryError> {
        let located = self.locate(addr, bytes)?;
        self.check_lease(cx, addr.node())?;
        Ok(located)
    }

    /// Checks that this process may write to node `node` in this step. No clock is read.
    ///
    /// # Errors
    /// [`MemoryError::LeaseOver`] or [`MemoryError::NodeLost`].
    #[inline]
    pub fn check_lease(&self, cx: &TaskCx<P>, node: usize) -> Result<(), MemoryError> {
        match self.node(node).may_write(cx.now()) {
            true => Ok(()),
            false if self.node(node).is_lost() => Err(MemoryError::NodeLost { node }),
            false => Err(MemoryError::LeaseOver { node }),
        }
    }

    /// Where root `index` of node `node` is: a word to READ and CAS.
    ///
    /// # Panics
    /// If there is no such node or root.
    pub fn root(&self, node: usize, index: usize) -> Located {
        self.0.ends[node].at(root_offset(index) as u64)
    }

    /// A place in the header or tables of a node.
    pub(crate) fn table(&self, node: usize, offset: usize) -> Located {
        self.0.ends[node].at(offset as u64)
    }

    /// Begins to hold pointers to blocks of node `node`: until the pin is dropped, blocks that were not freed before are
    /// not used again.
    ///
    /// # Panics
    /// If there is no such node.
    #[inline]
    pub fn pin(&self, node: usize) -> EpochPin<P> {
        EpochPin {
            epoch: self.0.ends[node].epochs.pin(),
            node,
            nodes: self.clone(),
        }
    }

    /// READs the line of client `id` at node `node`; `None` if it makes no sense.
    ///
    /// # Errors
    /// [`MemoryError`] if there is no such line, or the READ failed.
    pub async fn client_line(
        &self,
        cx: &TaskCx<P>,
        node: usize,
        id: u16,
    ) -> Result<Option<ClientLine>, MemoryError> {
        let geometry = self.node(node).header().geometry;
        if id == 0 || u32::from(id) > geometry.client_count {
            let what = "number of a client";
            return Err(MemoryError::Tables { node, what });
        }
        let at = self.table(node, geometry.client_line(id));
        let ticket = cx.read(at.peer, cx.buffer(CLIENT_BYTES)?, at.remote)?;
        let bytes = cx.sync().await?.take(ticket);
        Ok(ClientLine::decode(bytes[..].try_into().expect("a line")))
    }

    /// Whether the owner of `lock`, a word of node `node`, was fenced: nothing of it lands any more. One READ. A free
    /// lock has no owner: false.
    ///
    /// # Errors
    /// As [`client_line`](Nodes::client_line).
    pub async fn owner_is_dead(&self, cx: &TaskCx<P>, node: usize, lock: Lock) -> Result<bool, MemoryError> {
        if lock.is_free() || lock.is_mine(self.pool().client()) {
            return Ok(false);
        }
        let line = self.client_line(cx, node, lock.owner().id).await?;
        Ok(line.is_some_and(|line| lock.owner_is_dead(&line)))
    }

    /// The reclamation epoch of node `node`, as last read.
    #[inline]
    pub(crate) fn reclaim(&self, node: usize) -> u64 {
        self.0.ends[node].epochs.seen()
    }
}

impl End {
    #[inline]
    fn at(&self, offset: u64) -> Located {
        Located {
            peer: self.peer,
            remote: RemoteAddr {
                rkey: self.rkey,
                offset,
            },
        }
    }
}

/// An operation that holds pointers into a node.
#[must_use = "pointers are held only while it lives"]
pub struct EpochPin<P: Provider> {
    nodes: Nodes<P>,
    node: usize,
    epoch: u64,
}

impl<P: Provider> EpochPin<P> {
    /// The node.
    pub fn node(&self) -> usize {
        self.node
    }

    /// Epoch in which the operation began.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl<P: Provider> Drop for EpochPin<P> {
    #[inline]
    fn drop(&mut self) {
        self.nodes.0.ends[self.node].epochs.unpin(self.epoch);
    }
}
