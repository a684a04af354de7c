//! [`Extension`]: what an update says besides key, value and time to live, and [`ItemInfo`]: what a reply says of an item
//! besides its value; as bytes that every system uses.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | condition | 0 always, 1 if absent, 2 if present, 3 if the version is the one below |
//! | 1 | 1 | keep | 1 if a key that exists keeps its expiry and flags, else 0 |
//! | 2 | 2 | | 0 |
//! | 4 | 4 | flags | the caller's own bits; 0 for a DELETE |
//! | 8 | 8 | version | 0 if the condition compares none |
//!
//! Little-endian. A request that says nothing of all this has no extension, so most requests are as long as without
//! this file.

use crate::Condition;

/// Bytes of an encoded [`Extension`].
pub const EXTENSION_BYTES: usize = 16;

/// Flags and condition of an update, and whether it keeps those that are there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Extension {
    /// Flags to be stored with the value of a PUT; 0 for other updates.
    pub flags: u32,
    /// Condition of the update.
    pub condition: Condition,
    /// Whether a PUT of a key that exists keeps its expiry and flags.
    pub keep: bool,
}

impl Extension {
    /// Encodes it as it is sent.
    pub fn encode(self) -> [u8; EXTENSION_BYTES] {
        let (kind, version) = match self.condition {
            Condition::Always => (0, 0),
            Condition::IfAbsent => (1, 0),
            Condition::IfPresent => (2, 0),
            Condition::IfVersion(version) => (3, version),
        };
        let mut bytes = [0; EXTENSION_BYTES];
        bytes[0] = kind;
        bytes[1] = u8::from(self.keep);
        bytes[4..8].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..].copy_from_slice(&version.to_le_bytes());
        bytes
    }

    /// Decodes it; `None` if the condition is unknown, or what must be 0 is not.
    pub fn decode(bytes: &[u8; EXTENSION_BYTES]) -> Option<Extension> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let version = u64::from(word(8)) | u64::from(word(12)) << 32;
        let [kind, keep, zeros @ ..] = word(0).to_le_bytes();
        if keep > 1 || zeros != [0; 2] {
            return None;
        }
        let condition = match (kind, version) {
            (0, 0) => Condition::Always,
            (1, 0) => Condition::IfAbsent,
            (2, 0) => Condition::IfPresent,
            (3, version) => Condition::IfVersion(version),
            _ => return None,
        };
        Some(Extension {
            flags: word(4),
            condition,
            keep: keep == 1,
        })
    }
}

/// Bytes of an encoded [`ItemInfo`].
pub const ITEM_INFO_BYTES: usize = 12;

/// What the reply to a [`GetItem`](crate::Op::GetItem) has before the value: version u64, flags u32, little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ItemInfo {
    /// The item's version.
    pub version: u64,
    /// The client's flags that were stored with the value.
    pub flags: u32,
}

impl ItemInfo {
    /// Encodes it.
    pub fn to_bytes(self) -> [u8; ITEM_INFO_BYTES] {
        let mut out = [0; ITEM_INFO_BYTES];
        out[..8].copy_from_slice(&self.version.to_le_bytes());
        out[8..].copy_from_slice(&self.flags.to_le_bytes());
        out
    }

    /// Decodes the start of `payload` and returns the rest; `None` if it is too short.
    pub fn split(payload: &[u8]) -> Option<(ItemInfo, &[u8])> {
        let (info, rest) = payload.split_first_chunk::<ITEM_INFO_BYTES>()?;
        let (version, flags) = info.split_first_chunk().expect("longer than a version");
        let flags = flags.try_into().expect("flags behind a version");
        let info = ItemInfo {
            version: u64::from_le_bytes(*version),
            flags: u32::from_le_bytes(flags),
        };
        Some((info, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_comes_back_and_is_where_the_table_says() {
        for (condition, kind, version) in [
            (Condition::Always, 0, 0),
            (Condition::IfAbsent, 1, 0),
            (Condition::IfPresent, 2, 0),
            (Condition::IfVersion(0x0102_0304_0506_0708), 3, 8),
            (Condition::IfVersion(0), 3, 0),
        ] {
            for keep in [false, true] {
                let extension = Extension {
                    flags: 0x0a0b_0c0d,
                    condition,
                    keep,
                };
                let bytes = extension.encode();
                assert_eq!(
                    bytes[..9],
                    [kind, u8::from(keep), 0, 0, 0xd, 0xc, 0xb, 0xa, version]
                );
                assert_eq!(Extension::decode(&bytes), Some(extension));
            }
        }
    }

    #[test]
    fn an_item_is_told_before_its_value() {
        let info = ItemInfo {
            version: 0x0102_0304_0506_0708,
            flags: 0x0a0b_0c0d,
        };
        let bytes = info.to_bytes();
        assert_eq!(bytes, [8, 7, 6, 5, 4, 3, 2, 1, 0xd, 0xc, 0xb, 0xa]);
        let payload = [&bytes[..], b"value"].concat();
        assert_eq!(ItemInfo::split(&payload), Some((info, &b"value"[..])));
        assert_eq!(ItemInfo::split(&payload[..11]), None);
    }

    #[test]
    fn what_nobody_encodes_is_refused() {
        for (at, byte) in [(0, 4), (0, 255), (1, 2), (2, 1), (3, 1), (8, 1), (15, 1)] {
            let mut bytes = Extension::default().encode();
            bytes[at] = byte;
            assert_eq!(Extension::decode(&bytes), None, "byte {at} is {byte}");
        }
    }
}
