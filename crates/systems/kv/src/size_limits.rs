//! [`SizeLimits`]: the longest key and value that a service takes.

/// Longest key and value that a service takes, as one of its clients knows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeLimits {
    /// Longest key of the operation asked about, bytes.
    pub key_bytes: usize,
    /// Longest value under the key of that operation, bytes.
    pub value_bytes: usize,
}
