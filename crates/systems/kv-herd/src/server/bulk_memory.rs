//! Opening a client's bulk memory: chunks for values too long for a slot, and an RC queue pair to access them.

use super::mail::{BulkMemory, Command};
use super::session::Port;
use super::sessions::Sessions;
use super::variant::Variant;
use crate::control::{ErrorCode, Message};
use drover_control::acceptor::Peers;
use drover_kv::SetupError;
use drover_mem::{PageWish, round_up};
use drover_rt::ChunkMap;
use drover_verbs::{Access, Context, Export, MemoryRegion, Provider, QpKind, QueuePair};

/// Most chunks of each kind per client.
const CHUNKS_MAX: usize = 64;
/// Bytes of a short chunk, if the longest value is not shorter.
const SHORT_BYTES: usize = 32 << 10;

impl<P: Provider, V: Variant> Sessions<P, V> {
    pub(super) fn open_bulk(&mut self, peers: &mut Peers, index: usize, counts: [usize; 2]) {
        let answer = match self.try_open_bulk(index, counts) {
            Ok(ready) => ready,
            Err(text) => Message::Error {
                code: ErrorCode::Resources,
                text,
            },
        };
        self.all[index].send(peers, &answer);
    }

    /// Makes bulk memory for session `index`, with as many long and short chunks, tells the workers, and returns the
    /// BulkReady to send. Errors are for people.
    fn try_open_bulk(&mut self, index: usize, counts: [usize; 2]) -> Result<Message, String> {
        let session = &self.all[index];
        if session.bulk.port.is_some() || session.bulk.opening.is_some() {
            return Err("bulk memory is open already".to_owned());
        }
        let [long_count, short_count] = counts;
        if long_count == 0 || counts.into_iter().any(|count| count > CHUNKS_MAX) {
            return Err("1 to 64 chunks, and at most as many short ones".to_owned());
        }
        let (client, _) = session.id.ok_or("no session")?;
        let long_bytes = round_up(self.identity.item_bytes_max.max(1), 4096);
        let map = ChunkMap {
            long_bytes,
            long_count,
            short_bytes: SHORT_BYTES.min(long_bytes),
            short_count,
        };
        let made = self.make_bulk(map);
        let (bulk, port, region, rc) = made.map_err(|error| error.to_string())?;
        let opening = self.ask_workers(|reply| Command::OpenBulk {
            client,
            bulk: bulk.clone(),
            reply,
        });
        let session = &mut self.all[index];
        (session.bulk.port, session.bulk.opening) = (Some(port), Some(opening));
        Ok(Message::BulkReady {
            chunk_bytes: long_bytes as u32,
            chunk_count: long_count as u8,
            short_bytes: map.short_bytes as u32,
            short_count: short_count as u8,
            region,
            rc,
        })
    }

    fn make_bulk(&self, map: ChunkMap) -> Result<(BulkMemory, Port<P>, Export, Export), SetupError> {
        let region = self.ctx.alloc(map.bytes(), PageWish::Small)?;
        let access = Access {
            remote_read: true,
            ..Access::REMOTE_WRITE
        };
        let own = self.own_context()?;
        let mr = own.as_ref().unwrap_or(&self.ctx).register(&region, access)?;
        let export = mr.export(&[])?;
        let (port, rc) = self.make_port(QpKind::Rc, mr, own)?;
        let memory = BulkMemory { region, map };
        Ok((memory, port, export, rc))
    }

    pub(super) fn attach_bulk(&mut self, peers: &mut Peers, index: usize, rc: &Export) {
        let session = &mut self.all[index];
        let Some(port) = &mut session.bulk.port else {
            return session.refuse(peers, ErrorCode::OutOfOrder, "no bulk memory is open");
        };
        match port.qp.connect(rc) {
            Ok(()) => {
                session.bulk.attached = true;
                self.ready_if_bulk_open(peers, index);
            }
            Err(error) => {
                session.bulk.port = None;
                session.send(
                    peers,
                    &Message::Error {
                        code: ErrorCode::Resources,
                        text: error.to_string(),
                    },
                );
            }
        }
    }

    /// Sends Ready if the client's end is connected and all workers know the bulk memory.
    pub(super) fn ready_if_bulk_open(&mut self, peers: &mut Peers, index: usize) {
        let session = &mut self.all[index];
        if session.bulk.opening.is_none() && session.bulk.attached {
            session.bulk.attached = false;
            session.send(peers, &Message::Ready);
        }
    }
}
