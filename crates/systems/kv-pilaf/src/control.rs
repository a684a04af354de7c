//! Messages of the control channel.
//!
//! ```text
//! client: Hello ----------------------->
//!         <---------- Welcome (or refused)  addresses of table and extents, the server's queue pair
//! client: Attach ---------------------->    the client's queue pair, and memory for values that the server READs
//!         <---------------------- Ready
//! and from then on, whenever the table has grown:
//!         <---------------------- Grown     address of the new table
//! client: Adopted --------------------->    no READ of the previous table is in flight
//! ```

use drover_control::kind;
use drover_verbs::Export;

pub use drover_one_sided::{Ready, ServerParams, Ticket};

/// This system's name in a [`ServiceInfo`](drover_control::service::ServiceInfo).
pub const SYSTEM: &str = "pilaf";

/// Version of these messages and of the layouts; client and server must have the same.
pub const PROTOCOL_VERSION: u16 = 8;

/// A client's first message: what it asks for.
pub type Hello = drover_one_sided::Hello;

/// Describes a table that clients READ: epoch, size, and how to reach its memory.
#[derive(Clone, Debug)]
pub struct TableDescriptor {
    /// Epoch of the table, which the checksums of its entries cover; the table that replaces it has a higher one.
    pub epoch: u64,
    /// Number of entries, a power of two.
    pub entry_count: u64,
    /// How to reach the table's memory, for READs.
    pub memory: Export,
}

/// The server's answer to Hello: its parameters, and how to reach its memory and its queue pair.
#[derive(Clone, Debug)]
pub struct Welcome {
    /// Parameters that the servers of all one-sided systems send. The longest item in them is the longest record: 24
    /// bytes of header, key and value.
    pub terms: ServerParams,
    /// Epoch, size and memory of the current table.
    pub table: TableDescriptor,
    /// How to reach the records' memory, for READs.
    pub extents: Export,
    /// How to connect to the server's RC queue pair for this client.
    pub qp: Export,
}

/// The client's second message: how the server connects to its queue pair and reaches its memory.
#[derive(Clone, Debug)]
pub struct Attach {
    /// How to connect to the client's RC queue pair.
    pub qp: Export,
    /// How to reach the client's memory for long values, which the server READs.
    pub values: Export,
}

/// Notification to a client: the table has been replaced by a larger one.
#[derive(Clone, Debug)]
pub struct Grown {
    /// The new table. The previous one stays registered until all clients have sent [`Adopted`] or the lease has
    /// expired, but the server invalidates its entries meanwhile.
    pub table: TableDescriptor,
}

/// Report to the server: the client has no READ in flight of tables older than that of `epoch`, and issues no more.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// Epoch of the oldest table of which the client may have READs in flight.
    pub epoch: u64,
}

drover_control::fields!(TableDescriptor {
    epoch,
    entry_count,
    memory
});
drover_control::message!(kind::APPLICATION + 1 => Welcome { terms, table, extents, qp });
drover_control::message!(kind::APPLICATION + 2 => Attach { qp, values });
drover_control::message!(kind::APPLICATION + 4 => Grown { table });
drover_control::message!(kind::APPLICATION + 5 => Adopted { epoch });

#[cfg(test)]
mod tests {
    use super::*;
    use drover_control::{Frame, Message, Writer};
    use proptest::prelude::*;

    fn frame<M: Message>(body: &[u8]) -> Frame {
        Frame {
            kind: M::KIND,
            body: body.to_vec(),
            fds: Vec::new(),
        }
    }

    /// Decodes and encodes a message. Returns whether it was valid; a valid one must give the same bytes again.
    fn again<M: Message>(body: &[u8]) -> bool {
        let Ok(message) = frame::<M>(body).decode::<M>() else {
            return false;
        };
        let mut writer = Writer::new();
        message.encode(&mut writer);
        let (bytes, _) = writer.finish().expect("no longer than what was read");
        assert_eq!(bytes, body);
        true
    }

    #[test]
    fn messages_come_back_as_they_were() {
        let table = TableDescriptor {
            epoch: 7,
            entry_count: 64,
            memory: Export::default(),
        };
        let mut writer = Writer::new();
        Grown { table }.encode(&mut writer);
        let (body, _) = writer.finish().expect("short");
        assert!(again::<Grown>(&body) && !again::<Grown>(&body[1..]));
        assert!(again::<Adopted>(&[1; 8]) && !again::<Adopted>(&[1; 7]));
        // 24 bytes of numbers, then the secret behind its length.
        let hello = [&[2; 24][..], &[3, 0, 0, 0], b"key"].concat();
        assert!(again::<Hello>(&hello) && !again::<Hello>(&hello[..30]));
        assert!(!again::<Hello>(&[2; 24]), "the Hello of version 4");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_refused(body in proptest::collection::vec(any::<u8>(), 0..120), small in any::<bool>()) {
            // Small numbers are lengths that fit now and then.
            let body: Vec<u8> = body.into_iter().map(|byte| if small { byte % 4 } else { byte }).collect();
            again::<Hello>(&body);
            again::<Welcome>(&body);
            again::<Attach>(&body);
            again::<Ready>(&body);
            again::<Grown>(&body);
            again::<Adopted>(&body);
        }
    }
}
