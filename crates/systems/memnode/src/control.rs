//! Messages between a compute process and a node.
//!
//! ```text
//! client: Hello ----------------------->
//!         <---------- Welcome (or refused)  header, memory, times
//! client: Create ---------------------->    only to make a pool: the node's place in it
//!         <---------------------- Told
//! client: Fence ----------------------->    an operator's: shuts another client out
//!         <---------------------- Told
//! client: Stopped --------------------->    an earlier identity of it writes no more: see `keeper`
//! client: Attach ---------------------->    who it is, its queue pair for the lease
//!         <--------------- Ready, Told      who it is, the node's queue pair
//! client: Connect --------------------->    once per thread, and in place of a connection that has failed: its queue pair
//!         <---------------------- Told
//! client: Recovered ------------------->    what a fenced client left was repaired
//! client: Leave ----------------------->    it has given back what it held, and ends
//! ```

use crate::client::ClientId;
use crate::clients::INFOS_BYTES_MAX;
use crate::header::{HEADER_BYTES, PoolKind, PoolMembership};
use crate::times::LeaseTimes;
use drover_base::Ns;
use drover_control::{Bytes, DecodeError, Field, Reader, Writer, kind};
use drover_verbs::Export;

/// Name of a memory node in a [`ServiceInfo`](drover_control::service::ServiceInfo).
pub const SYSTEM: &str = "memory-node";

/// Version of these messages and of the layout.
pub const PROTOCOL_VERSION: u16 = 4;

/// The client's first message: what every server of shards is sent. The shard is not looked at.
pub type Hello = drover_one_sided::Hello<()>;

/// The node's answer.
#[derive(Clone, Debug)]
pub struct Welcome {
    /// Copy of the first bytes of the node's memory.
    pub header: Vec<u8>,
    /// How to reach the node's memory.
    pub memory: Export,
    /// Most chunks that a client may own at this node.
    pub quota_chunks: u32,
    /// Times of leases.
    pub times: LeaseTimes,
    /// The node's clients, those that were shut out included: see [`ClientInfo`](crate::ClientInfo).
    pub clients: Vec<u8>,
}

/// Makes a node part of a pool. Refused if it is part of another.
#[derive(Clone, Debug)]
pub struct Create {
    /// The node's place.
    pub place: PoolMembership,
}

/// The client's second message: it wants to be let in.
#[derive(Clone, Debug)]
pub struct Attach {
    /// Who it is, as the first node of the pool said; [`ClientId::NONE`] for the first node itself.
    pub client: ClientId,
    /// The first node gives it a number above this one: some other node still knows a client with that.
    pub above: u16,
    /// Its queue pair for the lease.
    pub qp: Export,
}

/// Asks for one more connection, for another thread.
#[derive(Clone, Debug)]
pub struct Connect {
    /// Returned with the answer; not 0.
    pub tag: u32,
    /// Tag of the connection of this session whose place it takes, which the node then closes; 0: none. Nothing is
    /// outstanding there.
    pub replaces: u32,
    /// The thread's queue pair.
    pub qp: Export,
}

/// What the fenced client left at this node was repaired: its number may be given to another.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The fenced client.
    pub client: ClientId,
}

/// The client, which an earlier process of the node had let in, writes to its memory no more.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// The client.
    pub client: ClientId,
}

/// Shuts a client out. Its answer comes before that is done.
#[derive(Clone, Debug)]
pub struct Fence {
    /// The client.
    pub client: ClientId,
}

/// The client has given back what it held, and ends.
#[derive(Clone, Debug)]
pub struct Leave;

/// The node's answer to [`Create`], [`Fence`] and [`Attach`], with tag 0, and to [`Connect`].
#[derive(Clone, Debug)]
pub struct Told {
    /// Tag of the message that this answers.
    pub tag: u32,
    /// Why not, or that it was done.
    pub outcome: Verdict,
    /// Who the client is.
    pub client: ClientId,
    /// The node's queue pair, where there is one.
    pub qp: Export,
}

/// What came of a question to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It was done.
    Done,
    /// All lines of the client table are in use, by live clients or by dead ones that wait for recovery.
    ClientsMax,
    /// The number of this client is in use at this node.
    ClientBusy,
    /// No queue pair could be created or connected.
    NoQueuePair,
    /// The node is part of another pool.
    OtherPool,
    /// The node has no such client, or it is shut out already.
    NoSuchClient,
}

impl Field for Verdict {
    fn encode(&self, to: &mut Writer) {
        to.u8(*self as u8);
    }

    fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<Verdict, DecodeError> {
        Ok(match from.u8()? {
            0 => Verdict::Done,
            1 => Verdict::ClientsMax,
            2 => Verdict::ClientBusy,
            3 => Verdict::NoQueuePair,
            4 => Verdict::OtherPool,
            5 => Verdict::NoSuchClient,
            other => {
                let value = u64::from(other);
                return Err(DecodeError::Value { field: name, value });
            }
        })
    }
}

impl Field for ClientId {
    fn encode(&self, to: &mut Writer) {
        to.u32(self.bits());
    }

    fn decode(from: &mut Reader<'_>, _: &'static str) -> Result<ClientId, DecodeError> {
        Ok(ClientId::from_bits(from.u32()?))
    }
}

impl Field for LeaseTimes {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.renew_every.0)
            .u64(self.stop_after.0)
            .u64(self.suspect_after.0);
    }

    fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<LeaseTimes, DecodeError> {
        let times = LeaseTimes {
            renew_every: Ns(from.u64()?),
            stop_after: Ns(from.u64()?),
            suspect_after: Ns(from.u64()?),
        };
        // Longer times are nobody's, and sums of them could overflow.
        match times.are_consistent() && times.suspect_after < Ns::from_s(1 << 20) {
            true => Ok(times),
            false => Err(DecodeError::Value {
                field: name,
                value: times.suspect_after.0,
            }),
        }
    }
}

impl Field for PoolMembership {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.pool)
            .u32(self.index)
            .u32(self.count)
            .u64(u64::from_le_bytes(self.kind.0));
    }

    fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<PoolMembership, DecodeError> {
        let place = PoolMembership {
            pool: from.u64()?,
            index: from.u32()?,
            count: from.u32()?,
            kind: PoolKind(from.u64()?.to_le_bytes()),
        };
        match place.is_consistent() {
            true => Ok(place),
            false => Err(DecodeError::Value {
                field: name,
                value: u64::from(place.index),
            }),
        }
    }
}

drover_control::message!(kind::APPLICATION + 1 => Welcome { header as Bytes<HEADER_BYTES>, memory, quota_chunks, times, clients as Bytes<INFOS_BYTES_MAX> });
drover_control::message!(kind::APPLICATION + 2 => Attach { client, above, qp });
drover_control::message!(kind::APPLICATION + 4 => Told { tag, outcome, client, qp });
drover_control::message!(kind::APPLICATION + 5 => Connect { tag, replaces, qp });
drover_control::message!(kind::APPLICATION + 6 => Create { place });
drover_control::message!(kind::APPLICATION + 7 => Leave {});
drover_control::message!(kind::APPLICATION + 8 => Recovered { client });
drover_control::message!(kind::APPLICATION + 9 => Fence { client });
drover_control::message!(kind::APPLICATION + 10 => Stopped { client });

#[cfg(test)]
mod tests {
    use super::*;
    use drover_control::{Frame, Message};
    use proptest::prelude::*;

    /// Decodes and encodes; a valid message must give the same bytes again.
    fn again<M: Message>(body: &[u8]) -> bool {
        let frame = Frame {
            kind: M::KIND,
            body: body.to_vec(),
            fds: Vec::new(),
        };
        let Ok(message) = frame.decode::<M>() else {
            return false;
        };
        let mut writer = Writer::new();
        message.encode(&mut writer);
        assert_eq!(writer.finish().expect("no longer than what was read").0, body);
        true
    }

    fn bytes<M: Message>(message: &M) -> Vec<u8> {
        let mut writer = Writer::new();
        message.encode(&mut writer);
        writer.finish().expect("short").0
    }

    #[test]
    fn messages_come_back_as_they_were() {
        let qp = Export {
            bytes: vec![1, 2, 3],
            fds: Vec::new(),
        };
        let client = ClientId { id: 3, epoch: 4 };
        assert!(again::<Attach>(&bytes(&Attach {
            client,
            above: 6,
            qp: qp.clone()
        })));
        assert!(again::<Connect>(&bytes(&Connect {
            tag: 1,
            replaces: 2,
            qp: qp.clone()
        })));
        for outcome in [
            Verdict::Done,
            Verdict::ClientsMax,
            Verdict::ClientBusy,
            Verdict::NoQueuePair,
            Verdict::OtherPool,
            Verdict::NoSuchClient,
        ] {
            let told = Told {
                tag: 7,
                outcome,
                client,
                qp: qp.clone(),
            };
            assert!(again::<Told>(&bytes(&told)));
        }
        let welcome = Welcome {
            header: vec![9; HEADER_BYTES],
            memory: qp,
            quota_chunks: 5,
            times: LeaseTimes::default(),
            clients: vec![1; 32],
        };
        assert!(again::<Welcome>(&bytes(&welcome)));
        let place = |index, count| PoolMembership {
            pool: 1,
            index,
            count,
            kind: PoolKind::new("race"),
        };
        assert!(again::<Create>(&bytes(&Create { place: place(1, 2) })));
        assert!(
            !again::<Create>(&bytes(&Create { place: place(2, 2) })),
            "no such node"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(body: Vec<u8>) {
            again::<Welcome>(&body);
            again::<Attach>(&body);
            again::<Told>(&body);
            again::<Connect>(&body);
            again::<Create>(&body);
            again::<Leave>(&body);
            again::<Recovered>(&body);
            again::<Fence>(&body);
            again::<Stopped>(&body);
        }
    }
}
