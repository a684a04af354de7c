//! [`Bucket`]: a header and seven slots.

use super::{BUCKET_BYTES, BadHeader, Header, Slot};

/// Slots of a bucket.
pub const SLOTS: usize = BUCKET_BYTES / 8 - 1;

/// A copy of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bucket {
    /// The header.
    pub header: Header,
    /// The slots.
    pub slots: [Slot; SLOTS],
}

impl Bucket {
    /// Decodes a bucket of any bytes.
    ///
    /// # Errors
    /// [`BadHeader`] if its first word is not a header. Slots can be anything.
    #[inline]
    pub fn from_bytes(bytes: &[u8; BUCKET_BYTES]) -> Result<Bucket, BadHeader> {
        let words = bytes.as_chunks::<8>().0;
        Ok(Bucket {
            header: Header::from_word(u64::from_le_bytes(words[0]))?,
            slots: std::array::from_fn(|slot| Slot::from_word(u64::from_le_bytes(words[slot + 1]))),
        })
    }

    /// The bytes of the bucket.
    pub fn to_bytes(&self) -> [u8; BUCKET_BYTES] {
        let mut bytes = [0; BUCKET_BYTES];
        bytes[..8].copy_from_slice(&self.header.word().to_le_bytes());
        for (to, slot) in bytes[8..].chunks_exact_mut(8).zip(self.slots) {
            to.copy_from_slice(&slot.word().to_le_bytes());
        }
        bytes
    }

    /// Offset of a slot from the start of its bucket, bytes.
    pub const fn slot_offset(slot: usize) -> usize {
        (slot + 1) * 8
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_bucket_or_none(bytes in any::<[[u8; 32]; 2]>(), sane in any::<bool>()) {
            let mut bytes: [u8; BUCKET_BYTES] = bytes.concat().try_into().expect("64 bytes");
            if sane {
                bytes[..8].fill(0);
            }
            match Bucket::from_bytes(&bytes) {
                Ok(bucket) => prop_assert_eq!(bucket.to_bytes(), bytes),
                Err(_) => prop_assert!(!sane),
            }
        }
    }
}
