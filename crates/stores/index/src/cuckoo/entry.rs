//! [`Entry`]: 32 bytes that refer to a record, and prove that they are whole and in the right entry.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | record offset | in units of 8 bytes from the start of the extents: 32 GiB of them |
//! | 4 | 4 | length and flags | bits 0-23 record length, bytes; 24-25 index among the key's choices; 26 in use; 27-31 zero |
//! | 8 | 8 | record sum | checksum of the whole record |
//! | 16 | 4 | fingerprint | 32 bits of the key's hash, independent of its three candidate entries |
//! | 20 | 4 | version | incremented each time the key is written |
//! | 24 | 8 | entry sum | checksum of bytes 0-23, of the table's epoch and of the entry's index |
//!
//! Little-endian, 32-aligned, so that no entry straddles a cache line; written by the server, read by any peer. A free
//! entry is sealed like any other: a reader can distinguish it from unwritten memory. *(Two sums of 8 bytes, 32 bytes
//! in all: stated in `[HERD §5.1]`; fields and salt: our choice.)*

use drover_base::Crc64;

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 32;

/// Longest record that an entry can refer to, bytes: 8 short of 16 MiB.
pub const RECORD_BYTES_MAX: usize = (1 << 24) - 8;

/// First record offset beyond the range of an entry, bytes: 32 GiB.
pub const RECORD_OFFSET_END: u64 = 8 << 32;

const _: () = assert!(crate::BUCKET_BYTES.is_multiple_of(ENTRY_BYTES));

const LEN_MASK: u32 = (1 << 24) - 1;
const CHOICE_SHIFT: u32 = 24;
const IN_USE: u32 = 1 << 26;
const RESERVED: u32 = !(LEN_MASK | 3 << CHOICE_SHIFT | IN_USE);

/// Location and checksum of the record (key and value) that an entry refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecordRef {
    /// Offset of the record from the start of the records' memory, bytes; a multiple of 8 below [`RECORD_OFFSET_END`].
    pub offset: u64,
    /// Length of the record in bytes, at most [`RECORD_BYTES_MAX`].
    pub len: u32,
    /// [`crc64`](drover_base::crc64) of the record.
    pub sum: u64,
}

/// Decoded content of an entry that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Location and checksum of the key's record.
    pub record: RecordRef,
    /// [`fingerprint`](super::fingerprint) of the key.
    pub fingerprint: u32,
    /// Number of writes of the key since its last insertion, that one included, modulo 2^32. If the key is written
    /// while the table grows and before it is copied, the count restarts at 1 in the new table.
    pub version: u32,
    /// Position of this entry among the key's [candidates](super::Candidates): 0, 1 or 2.
    pub choice: u8,
}

/// The bytes read are not an entry of this table at this index: torn, of another index or epoch, or never written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a whole entry of this table at this index")]
pub struct BadEntry;

/// Location of an entry, with which it is encoded and decoded: table and index. The entry's checksum covers both, so
/// its bytes are valid nowhere else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seal {
    /// Epoch of the table.
    pub epoch: u64,
    /// Index of the entry.
    pub index: u64,
}

impl Seal {
    fn sum(self, body: &[u8; 24]) -> u64 {
        Crc64::default()
            .bytes(body)
            .word(self.epoch)
            .word(self.index)
            .sum()
    }

    /// Encodes `entry`, or a free entry if it is `None`, with the checksum for this location.
    ///
    /// # Panics
    /// If the record's length or offset is beyond the range of an entry.
    pub fn close(self, entry: Option<&Entry>) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        if let Some(entry) = entry {
            entry.write(&mut bytes);
        }
        let sum = self.sum(bytes.first_chunk().expect("an entry has a body"));
        bytes[24..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Checks the checksum of `bytes` against this location and decodes them; `None` if the entry is free.
    ///
    /// # Errors
    /// [`BadEntry`] if the checksum does not match, reserved bits are set, or the choice is 3.
    pub fn open(self, bytes: &[u8; ENTRY_BYTES]) -> Result<Option<Entry>, BadEntry> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let flags = word(4);
        let choice = (flags >> CHOICE_SHIFT & 3) as u8;
        let body = bytes.first_chunk().expect("an entry has a body");
        if long(24) != self.sum(body) || flags & RESERVED != 0 || choice > 2 {
            return Err(BadEntry);
        }
        if flags & IN_USE == 0 {
            return Ok(None);
        }
        Ok(Some(Entry {
            record: RecordRef {
                offset: u64::from(word(0)) * 8,
                len: flags & LEN_MASK,
                sum: long(8),
            },
            fingerprint: word(16),
            version: word(20),
            choice,
        }))
    }
}

impl Entry {
    fn write(&self, bytes: &mut [u8; ENTRY_BYTES]) {
        let RecordRef { offset, len, sum } = self.record;
        assert!(
            offset.is_multiple_of(8) && offset < RECORD_OFFSET_END,
            "a record at {offset:#x}"
        );
        assert!(len as usize <= RECORD_BYTES_MAX, "a record of {len} bytes");
        let flags = len | u32::from(self.choice) << CHOICE_SHIFT | IN_USE;
        bytes[..4].copy_from_slice(&((offset / 8) as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&flags.to_le_bytes());
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.fingerprint.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.version.to_le_bytes());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEAL: Seal = Seal { epoch: 9, index: 5 };

    fn entry() -> Entry {
        Entry {
            record: RecordRef {
                offset: 4096,
                len: 80,
                sum: 0x1234_5678_9abc_def0,
            },
            fingerprint: 0xfeed_beef,
            version: 3,
            choice: 2,
        }
    }

    /// Pilaf's released code packs an entry into 53 bytes, so that most lie in two cache lines: a READ sees halves of
    /// two.
    #[test]
    fn pilaf_an_entry_lies_in_one_line() {
        for index in 0..1000 {
            let offset = super::super::entry_offset(index);
            assert_eq!(offset / 64, (offset + ENTRY_BYTES - 1) / 64);
        }
    }

    #[test]
    fn the_layout() {
        let bytes = SEAL.close(Some(&entry()));
        assert_eq!(bytes[..4], 512u32.to_le_bytes());
        assert_eq!(bytes[4..8], [80, 0, 0, 0b110]);
        assert_eq!(bytes[8..16], 0x1234_5678_9abc_def0u64.to_le_bytes());
        assert_eq!(bytes[16..20], 0xfeed_beefu32.to_le_bytes());
        assert_eq!(bytes[20..24], 3u32.to_le_bytes());
        assert_eq!(SEAL.open(&bytes), Ok(Some(entry())));
        assert_eq!(SEAL.open(&SEAL.close(None)), Ok(None));
    }

    /// Pilaf's released code did not salt its guard: an entry read at the wrong index, or of a table that had been
    /// replaced, passed.
    #[test]
    fn pilaf_an_entry_is_rejected_elsewhere_and_in_the_next_epoch() {
        for bytes in [SEAL.close(Some(&entry())), SEAL.close(None)] {
            assert_eq!(Seal { index: 6, ..SEAL }.open(&bytes), Err(BadEntry));
            assert_eq!(Seal { epoch: 10, ..SEAL }.open(&bytes), Err(BadEntry));
        }
    }

    #[test]
    fn memory_nobody_wrote_is_rejected() {
        for index in 0..1000 {
            let seal = Seal {
                epoch: index % 3,
                index,
            };
            assert_eq!(seal.open(&[0; 32]), Err(BadEntry));
            assert_eq!(seal.open(&[0xff; 32]), Err(BadEntry));
        }
    }

    #[test]
    fn any_flipped_bit_is_found() {
        let bytes = SEAL.close(Some(&entry()));
        for bit in 0..ENTRY_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SEAL.open(&flipped), Err(BadEntry), "bit {bit}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 512 }))]
        #[test]
        fn random_bytes_are_rejected(bytes in any::<[u8; 32]>(), epoch in any::<u64>(), index in any::<u64>()) {
            prop_assert_eq!(Seal { epoch, index }.open(&bytes), Err(BadEntry));
        }

        #[test]
        fn half_of_one_entry_and_half_of_another_is_rejected(words in 1usize..8, versions in any::<[u32; 2]>()) {
            prop_assume!(versions[0] != versions[1]);
            let record = |version: u32| RecordRef { offset: u64::from(version) * 8, len: version & 0xff_ffff & !7, sum: !u64::from(version) };
            let write = |version| SEAL.close(Some(&Entry { record: record(version), version, ..entry() }));
            let (old, new) = (write(versions[0]), write(versions[1]));
            let mut torn = old;
            torn[..words * 4].copy_from_slice(&new[..words * 4]);
            if torn != old && torn != new {
                prop_assert_eq!(SEAL.open(&torn), Err(BadEntry));
            }
        }
    }
}
