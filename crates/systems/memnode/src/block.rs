//! [`Block`]: an item as it stands in a pool: key, value, and what belongs to them. Bytes only, no I/O.
//!
//! ```text
//! slot -> block: header, key, first part of the value -next-> piece: header, part -next-> piece ... (up to 1 MiB)
//! ```
//! A block is written while nobody else has its address, and never changed after that.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | checksum | CRC-32C of all that follows, as far as it is in use |
//! | 4 | 2 | owner | number of the client that wrote it |
//! | 6 | 2 | epoch | of that client |
//! | 8 | 2 | key bytes | 1 to 250 |
//! | 10 | 2 | reserved | 0 |
//! | 12 | 4 | value bytes | of the whole value |
//! | 16 | 4 | flags | the caller's |
//! | 20 | 4 | expire | seconds of the node's clock; 0: never |
//! | 24 | 4 | created | seconds of the node's clock |
//! | 28 | 4 | part bytes | of the value that is in this block |
//! | 32 | 8 | version | never used before |
//! | 40 | 8 | next | address of the first piece; 0: none |
//! | 48 | | key, then the value's first part | |
//!
//! A piece:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | checksum | as above |
//! | 4 | 4 | owner, epoch | as above |
//! | 8 | 8 | version | that of the block |
//! | 16 | 4 | part bytes | of the value in this piece |
//! | 20 | 4 | index | from 1 |
//! | 24 | 8 | next | address of the next piece; 0: none |
//! | 32 | | part of the value | |
//!
//! All fields are little-endian, written by the client that made the block. An item of 8 and 8 bytes takes 64 bytes.

use crate::addr::Addr;
use crate::chunks::CHUNK_BYTES;
use crate::client::ClientId;
use drover_kv::KEY_BYTES_MAX;
use drover_mem::crc32c_of;
use std::ops::Range;

/// Bytes of a block's header.
pub const BLOCK_HEADER_BYTES: usize = 48;
/// Bytes of a piece's header.
pub const PIECE_HEADER_BYTES: usize = 32;
/// Longest block, bytes: so long that its length in units of 64 bytes fits a byte, as structures have it in their
/// pointers.
pub const BLOCK_BYTES_MAX: usize = CHUNK_BYTES - 64;
/// Longest value, bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// Longest part of a value in a piece, bytes.
pub const PIECE_BYTES_MAX: usize = CHUNK_BYTES - PIECE_HEADER_BYTES;

/// Distinguish the checksums of blocks and pieces.
const BLOCK_TAG: u64 = u64::from_le_bytes(*b"block...");
const PIECE_TAG: u64 = u64::from_le_bytes(*b"piece...");

/// What belongs to an item besides key and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockMeta {
    /// Client that wrote it.
    pub owner: ClientId,
    /// The caller's.
    pub flags: u32,
    /// Seconds of the node's clock when it expires; 0: never.
    pub expire_s: u32,
    /// Seconds of the node's clock when it was written.
    pub created_s: u32,
    /// A number that was never used before.
    pub version: u64,
}

impl BlockMeta {
    /// Whether the item has expired at `now_s` of the node's clock.
    #[inline]
    pub fn is_expired(&self, now_s: u32) -> bool {
        self.expire_s != 0 && self.expire_s <= now_s
    }
}

/// Why bytes are not a block, or not the piece that was expected: they were torn, reused, or never one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// Lengths that no block has, or that leave the bytes.
    #[error("impossible lengths")]
    Lengths,
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// The piece belongs to another block or another place in it.
    #[error("a piece of another value")]
    Stranger,
}

/// A decoded block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block<'a> {
    /// What belongs to the item.
    pub meta: BlockMeta,
    /// The key.
    pub key: &'a [u8],
    /// The value, or its first part.
    pub part: &'a [u8],
    /// Bytes of the whole value.
    pub value_bytes: usize,
    /// Address of the first piece; null: the value is whole.
    pub next: Addr,
}

/// How a value is cut into a block and pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    key_bytes: usize,
    value_bytes: usize,
}

impl Cut {
    /// Of an item with these lengths; `None` if it is too long, or has no key.
    pub fn new(key_bytes: usize, value_bytes: usize) -> Option<Cut> {
        let fits = (1..=KEY_BYTES_MAX).contains(&key_bytes) && value_bytes <= VALUE_BYTES_MAX;
        fits.then_some(Cut {
            key_bytes,
            value_bytes,
        })
    }

    /// Bytes of the value that are in the block itself.
    pub fn head_bytes(&self) -> usize {
        self.value_bytes
            .min(BLOCK_BYTES_MAX - BLOCK_HEADER_BYTES - self.key_bytes)
    }

    /// Length of the block.
    pub fn block_bytes(&self) -> usize {
        BLOCK_HEADER_BYTES + self.key_bytes + self.head_bytes()
    }

    /// Number of pieces.
    pub fn piece_count(&self) -> usize {
        (self.value_bytes - self.head_bytes()).div_ceil(PIECE_BYTES_MAX)
    }

    /// Bytes of the value that piece `index`, from 1, holds.
    ///
    /// # Panics
    /// If there is no such piece.
    pub fn piece(&self, index: usize) -> Range<usize> {
        assert!(
            (1..=self.piece_count()).contains(&index),
            "piece {index} of {self:?}"
        );
        let start = self.head_bytes() + (index - 1) * PIECE_BYTES_MAX;
        start..(start + PIECE_BYTES_MAX).min(self.value_bytes)
    }

    /// Length of piece `index` with its header.
    ///
    /// # Panics
    /// As [`piece`](Cut::piece).
    pub fn piece_block_bytes(&self, index: usize) -> usize {
        PIECE_HEADER_BYTES + self.piece(index).len()
    }
}

fn put<const N: usize>(to: &mut [u8], at: usize, bytes: [u8; N]) {
    to[at..at + N].copy_from_slice(&bytes);
}

fn take<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    from[at..at + N].try_into().expect("N bytes")
}

fn put_owner(to: &mut [u8], owner: ClientId) {
    put(to, 4, owner.id.to_le_bytes());
    put(to, 6, owner.epoch.to_le_bytes());
}

fn take_owner(from: &[u8]) -> ClientId {
    ClientId {
        id: u16::from_le_bytes(take(from, 4)),
        epoch: u16::from_le_bytes(take(from, 6)),
    }
}

/// Writes the block of an item to the start of `to`, and returns its length, [`Cut::block_bytes`]. `next` is the address
/// of its first piece, null if it has none.
///
/// # Panics
/// If the item is too long, or `to` too short.
pub fn encode_block(to: &mut [u8], meta: &BlockMeta, key: &[u8], value: &[u8], next: Addr) -> usize {
    let cut = Cut::new(key.len(), value.len()).expect("an item that fits");
    assert_eq!(
        next.is_null(),
        cut.piece_count() == 0,
        "an address for the pieces"
    );
    let (head, bytes) = (cut.head_bytes(), cut.block_bytes());
    put_owner(to, meta.owner);
    put(to, 8, (key.len() as u16).to_le_bytes());
    put(to, 10, [0; 2]);
    put(to, 12, (value.len() as u32).to_le_bytes());
    put(to, 16, meta.flags.to_le_bytes());
    put(to, 20, meta.expire_s.to_le_bytes());
    put(to, 24, meta.created_s.to_le_bytes());
    put(to, 28, (head as u32).to_le_bytes());
    put(to, 32, meta.version.to_le_bytes());
    put(to, 40, next.bits().to_le_bytes());
    let content = BLOCK_HEADER_BYTES + key.len();
    to[BLOCK_HEADER_BYTES..content].copy_from_slice(key);
    to[content..bytes].copy_from_slice(&value[..head]);
    let checksum = crc32c_of(BLOCK_TAG, &[&to[4..bytes]]);
    put(to, 0, checksum.to_le_bytes());
    bytes
}

/// Writes piece `index`, from 1, of an item's value to the start of `to`, and returns its length.
///
/// # Panics
/// If the item has no such piece, or `to` is too short.
pub fn encode_piece(
    to: &mut [u8],
    meta: &BlockMeta,
    cut: &Cut,
    index: usize,
    value: &[u8],
    next: Addr,
) -> usize {
    let part = &value[cut.piece(index)];
    let bytes = PIECE_HEADER_BYTES + part.len();
    put_owner(to, meta.owner);
    put(to, 8, meta.version.to_le_bytes());
    put(to, 16, (part.len() as u32).to_le_bytes());
    put(to, 20, (index as u32).to_le_bytes());
    put(to, 24, next.bits().to_le_bytes());
    to[PIECE_HEADER_BYTES..bytes].copy_from_slice(part);
    let checksum = crc32c_of(PIECE_TAG, &[&to[4..bytes]]);
    put(to, 0, checksum.to_le_bytes());
    bytes
}

/// Reads a block from the start of `bytes`, which may be anything.
///
/// # Errors
/// [`BlockError`] if they are not a whole block.
pub fn decode_block(bytes: &[u8]) -> Result<Block<'_>, BlockError> {
    if bytes.len() < BLOCK_HEADER_BYTES {
        return Err(BlockError::Lengths);
    }
    let u32_at = |at| u32::from_le_bytes(take(bytes, at));
    let key_bytes = usize::from(u16::from_le_bytes(take(bytes, 8)));
    let (value_bytes, head) = (u32_at(12) as usize, u32_at(28) as usize);
    let cut = Cut::new(key_bytes, value_bytes).ok_or(BlockError::Lengths)?;
    let next = Addr::from_bits(u64::from_le_bytes(take(bytes, 40)));
    let lengths_fit = cut.head_bytes() == head
        && cut.block_bytes() <= bytes.len()
        && next.is_null() == (cut.piece_count() == 0);
    if !lengths_fit {
        return Err(BlockError::Lengths);
    }
    let used = &bytes[4..cut.block_bytes()];
    if crc32c_of(BLOCK_TAG, &[used]) != u32_at(0) {
        return Err(BlockError::Checksum);
    }
    let content = &bytes[BLOCK_HEADER_BYTES..];
    Ok(Block {
        meta: meta_of(bytes).ok_or(BlockError::Lengths)?,
        key: &content[..key_bytes],
        part: &content[key_bytes..key_bytes + head],
        value_bytes,
        next,
    })
}

/// The key of a block of which `bytes` are the beginning, whatever they are; `None` if it is not in them. Nothing says
/// whether the block is whole.
pub fn key_of(bytes: &[u8]) -> Option<&[u8]> {
    let header = bytes.get(..BLOCK_HEADER_BYTES)?;
    let key_bytes = usize::from(u16::from_le_bytes(take(header, 8)));
    bytes.get(BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + key_bytes)
}

/// What belongs to the item of a block of which `bytes` are the beginning, whatever they are; `None` if they are too few.
/// Nothing says whether the block is whole.
pub fn meta_of(bytes: &[u8]) -> Option<BlockMeta> {
    let header = bytes.get(..BLOCK_HEADER_BYTES)?;
    let u32_at = |at| u32::from_le_bytes(take(header, at));
    Some(BlockMeta {
        owner: take_owner(header),
        flags: u32_at(16),
        expire_s: u32_at(20),
        created_s: u32_at(24),
        version: u64::from_le_bytes(take(header, 32)),
    })
}

impl Block<'_> {
    /// How its value is cut.
    pub fn cut(&self) -> Cut {
        Cut {
            key_bytes: self.key.len(),
            value_bytes: self.value_bytes,
        }
    }

    /// The way to the rest of the value; ended already if there is none.
    pub fn chain(&self) -> Chain {
        Chain {
            cut: self.cut(),
            version: self.meta.version,
            index: 1,
            next: self.next,
        }
    }
}

/// The way along the pieces of a value. It ends after as many pieces as the block says, whatever the pieces say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    cut: Cut,
    version: u64,
    index: usize,
    next: Addr,
}

impl Chain {
    /// Address and length of the piece to READ next, and where in the value it belongs; `None`: the value is complete.
    pub fn next(&self) -> Option<(Addr, usize, Range<usize>)> {
        if self.index > self.cut.piece_count() {
            return None;
        }
        let range = self.cut.piece(self.index);
        Some((self.next, PIECE_HEADER_BYTES + range.len(), range))
    }

    /// Takes the piece that [`next`](Chain::next) asked for, and returns its part of the value.
    ///
    /// # Errors
    /// [`BlockError`] if it is not that piece.
    ///
    /// # Panics
    /// If none was asked for.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], BlockError> {
        let (_, wanted, range) = self.next().expect("a piece that was asked for");
        if bytes.len() < wanted || u32::from_le_bytes(take(bytes, 16)) as usize != range.len() {
            return Err(BlockError::Lengths);
        }
        let bytes = &bytes[..wanted];
        if crc32c_of(PIECE_TAG, &[&bytes[4..]]) != u32::from_le_bytes(take(bytes, 0)) {
            return Err(BlockError::Checksum);
        }
        self.skip(bytes)?;
        Ok(&bytes[PIECE_HEADER_BYTES..])
    }

    /// As [`take`](Chain::take), for who wants only to know where the pieces are: the header alone is READ. Nothing
    /// says whether the piece is whole.
    ///
    /// # Errors
    /// [`BlockError`] if it is not that piece.
    ///
    /// # Panics
    /// If none was asked for.
    pub fn skip(&mut self, bytes: &[u8]) -> Result<(), BlockError> {
        let (_, _, range) = self.next().expect("a piece that was asked for");
        let len_fits =
            bytes.len() >= PIECE_HEADER_BYTES && u32::from_le_bytes(take(bytes, 16)) as usize == range.len();
        if !len_fits {
            return Err(BlockError::Lengths);
        }
        let next = Addr::from_bits(u64::from_le_bytes(take(bytes, 24)));
        let is_last = self.index == self.cut.piece_count();
        let fits = u64::from_le_bytes(take(bytes, 8)) == self.version
            && u32::from_le_bytes(take(bytes, 20)) as usize == self.index
            && next.is_null() == is_last;
        if !fits {
            return Err(BlockError::Stranger);
        }
        (self.index, self.next) = (self.index + 1, next);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
