//! What crosses from core to core: the hash of the key, what kind of request it is, and the request as its client
//! wrote it.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 16 | hash of the key ([`KeyHash::to_bytes`]) |
//! | 16 | 1 | kind |
//! | 17 | | the rest of the input that the request took |

use drover_base::KeyHash;

/// The hash of the key that a message is about: for prefetches before [`Desk::serve`](crate::Desk::serve). `None` if it
/// is about no single key.
pub fn key_hash(message: &[u8]) -> Option<KeyHash> {
    let (hash, rest) = message.split_first_chunk::<16>()?;
    rest.first().filter(|&&kind| kind != b'*')?;
    Some(KeyHash::from_bytes(*hash))
}
