//! Values that are longer than a block: pieces that are linked behind it.
//!
//! They are written before the block, and never changed. So a reader with the block's slot has the whole value, all of one
//! version, for as long as its epoch lasts. Who unlinks the block frees the pieces, too.

use super::operation::Operation;
use super::read::Match;
use super::{Race, Shard};
use crate::error::RaceError;
use drover_index::race::BlockRef;
use drover_mem::Buffer;
use drover_memnode::block::{BlockMeta, Chain, Cut, PIECE_HEADER_BYTES, encode_piece};
use drover_memnode::{Addr, Class, EpochPin, Need};
use drover_rt::{StageError, TaskCx};
use drover_verbs::Provider;

/// WRITEs of pieces that are outstanding at a time, if there are buffers for them.
const WRITES: usize = 8;

/// Address and length of a piece.
pub(super) type Piece = (Addr, usize);

impl<P: Provider> Race<P> {
    /// Calls `each` with the pieces that `chain` leads to. The caller has a pin from before it saw the block's slot.
    pub(super) async fn walk(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        mut chain: Chain,
        each: &mut dyn FnMut(Addr, usize),
    ) -> Result<(), RaceError> {
        let mut bad = drover_memnode::BadRun::default();
        while let Some((addr, bytes, _)) = chain.next() {
            let at = self.nodes().locate(addr, PIECE_HEADER_BYTES)?;
            let ticket = cx.read(at.peer, cx.buffer(PIECE_HEADER_BYTES)?, at.remote)?;
            let header = cx.sync().await?.take(ticket);
            match chain.skip(&header) {
                Ok(()) if addr.node() == shard.node => each(addr, bytes),
                // READ again: three times is corruption.
                Ok(()) | Err(_) => bad.bad(addr)?,
            }
        }
        Ok(())
    }
}

impl<P: Provider> Race<P> {
    /// Frees the block of an entry that was replaced or removed, and what it links.
    pub(super) async fn free(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        pin: &EpochPin<P>,
        block: BlockRef,
        chain: Chain,
    ) {
        let arena = &self.0.arena;
        arena.free(pin, Addr::new(shard.node, block.addr), block.bytes());
        let mut free = |addr, bytes| arena.free(pin, addr, bytes);
        if let Err(error) = self.walk(cx, shard, chain, &mut free).await {
            // The item is gone all the same; the mark pass finds them when this process is gone.
            tracing::debug!(%error, "pieces of a value that is gone are not freed");
        }
    }
}

impl<P: Provider> Operation<'_, P> {
    /// A buffer, once there is one: other tasks use them for a while.
    pub(super) async fn buffer(&self, len: usize) -> Result<Buffer, RaceError> {
        loop {
            match self.cx.buffer(len) {
                Err(StageError::NoBuffer { .. }) => self.wait().await?,
                buffer => return Ok(buffer?),
            }
        }
    }

    /// READs the rest of a value that is longer than its block. `None`: a piece was broken: begin anew.
    pub(super) async fn complete(&mut self, mut found: Match) -> Result<Option<Match>, RaceError> {
        let mut chain = found.chain;
        if chain.next().is_none() {
            return Ok(Some(found));
        }
        let mut value = found.found.value().to_vec();
        while let Some((addr, bytes, _)) = chain.next() {
            let at = self.race.nodes().locate(addr, bytes)?;
            let buffer = self.buffer(bytes).await?;
            let ticket = self.cx.read(at.peer, buffer, at.remote)?;
            let piece = self.cx.sync().await?.take(ticket);
            match chain.take(&piece) {
                Ok(part) => value.extend_from_slice(part),
                Err(_) => {
                    self.bad.bad(addr)?;
                    return Ok(None);
                }
            }
        }
        self.bad.good();
        found.found.long = value;
        Ok(Some(found))
    }

    /// Allocates the pieces of a value that is cut like this, in order.
    pub(super) async fn alloc_pieces(&mut self, cut: &Cut) -> Result<Vec<Piece>, RaceError> {
        let (node, arena) = (self.shard.node, &self.race.0.arena);
        let mut pieces = Vec::new();
        for index in 1..=cut.piece_count() {
            let bytes = cut.piece_block_bytes(index);
            self.wanted = Class::of(bytes);
            match arena.alloc(self.cx, node, bytes, Need::Ordinary).await {
                Ok(addr) => pieces.push((addr, bytes)),
                Err(error) => {
                    pieces
                        .iter()
                        .for_each(|&(addr, bytes)| arena.put_back(addr, bytes));
                    return Err(error.into());
                }
            }
        }
        Ok(pieces)
    }

    /// WRITEs all pieces.
    pub(super) async fn write_pieces(
        &self,
        pieces: &[Piece],
        meta: &BlockMeta,
        cut: &Cut,
        value: &[u8],
    ) -> Result<(), RaceError> {
        let mut staged = 0;
        for (at, &(addr, bytes)) in pieces.iter().enumerate() {
            let buffer = match self.cx.buffer(bytes) {
                // Those that are staged need theirs until they are written.
                Err(StageError::NoBuffer { .. }) if staged > 0 => {
                    self.cx.sync().await?;
                    staged = 0;
                    self.buffer(bytes).await
                }
                Err(StageError::NoBuffer { .. }) => self.buffer(bytes).await,
                buffer => buffer.map_err(RaceError::from),
            };
            let mut buffer = buffer?;
            let next = pieces.get(at + 1).map_or(Addr::NULL, |piece| piece.0);
            encode_piece(&mut buffer, meta, cut, at + 1, value, next);
            let to = self.race.nodes().locate_to_write(self.cx, addr, bytes)?;
            self.cx.write(to.peer, buffer, to.remote)?;
            staged += 1;
            if staged == WRITES {
                self.cx.sync().await?;
                staged = 0;
            }
        }
        self.cx.sync().await?;
        Ok(())
    }
}
