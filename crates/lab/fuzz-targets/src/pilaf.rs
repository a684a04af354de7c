//! Arbitrary control messages and replies of Pilaf, and arbitrary memory that its clients READ. For requests see
//! `request.rs`.

use crate::control;
use crate::input::Input;
use drover_base::{KeyHash, crc64};
use drover_index::cuckoo::{ENTRY_BYTES, Entry, RecordRef, Seal, fingerprint};
use drover_kv_pilaf::control::{Adopted, Attach, Grown, Hello, Ready, Welcome};
use drover_kv_pilaf::layout::{Record, Reply, Status};
use drover_kv_pilaf::logic::{Lookup, Miss, Step, TRIES_MAX, TableShape};

/// Checks that any frame decodes as a control message or is refused, and that a decoded message encodes to the same
/// bytes. Input: type of the message (1 byte), descriptor count (1 byte), body.
pub fn control_message(input: &[u8]) {
    let [which, fd_count, body @ ..] = input else {
        return;
    };
    match which % 6 {
        0 => control::again::<Hello>(body, *fd_count),
        1 => control::again::<Welcome>(body, *fd_count),
        2 => control::again::<Attach>(body, *fd_count),
        3 => control::again::<Ready>(body, *fd_count),
        4 => control::again::<Grown>(body, *fd_count),
        _ => control::again::<Adopted>(body, *fd_count),
    };
}

/// Checks that any message to a client is refused, or is a reply whose value fills the rest of the message and which
/// encodes to an equal one.
pub fn reply(input: &[u8]) {
    let Some((reply, value)) = Reply::decode(input) else {
        return;
    };
    let said = if reply.status == Status::Value {
        reply.record.len
    } else {
        0
    };
    assert_eq!(value.len(), said as usize, "{reply:?}");
    let again = [&reply.encode()[..], value].concat();
    assert_eq!(again.len(), input.len(), "nothing is left over");
    assert_eq!(Reply::decode(&again), Some((reply, value)));
}

const KEY: &[u8] = b"key";

/// Checks that a GET gives up after a bounded number of tries, READs nothing outside the server's memory and finds no
/// other key, whatever the memory holds. Input: options of the GET (1 byte); for each entry a byte that selects what to
/// make valid (seal, fingerprint of the key) and whether the table grows meanwhile, and the entry's bytes; for each
/// record whether its checksum matches (1 byte), its length (1 byte) and its bytes.
pub fn lookup(input: &[u8]) {
    let mut input = Input::new(input);
    let hash = KeyHash::from_bytes([7; 16]);
    let begin = input.byte();
    let shape = |epoch| TableShape {
        epoch,
        entry_count: 1 << (6 + epoch),
        extents_bytes: 1 << 16,
        record_bytes_max: 1 << 12,
    };
    let mut table = shape(1);
    let miss = [Miss::Confirmed, Miss::Trusted][usize::from(begin & 1)];
    let mut lookup = Lookup::new(hash, &table, miss);
    let mut step = lookup.begin(&table);
    let mut retries = 0;
    while !input.is_empty() {
        step = match step {
            Step::Entry(index) => {
                assert!(index < table.entry_count, "entry {index}");
                let how = input.byte();
                // The table grows while the READ is under way.
                if how & 4 != 0 && table.epoch < 4 {
                    table = shape(table.epoch + 1);
                }
                lookup.entry(&entry(&mut input, how, table.epoch, index, hash), &table)
            }
            Step::Record(record) => {
                // Not the code's own check, which may be what is wrong.
                let end = u128::from(record.offset) + u128::from(record.len);
                assert!(end <= u128::from(table.extents_bytes), "{record:?}");
                assert!(record.len <= table.record_bytes_max, "{record:?}");
                let how = input.byte();
                let len = usize::from(input.byte());
                let bytes = input.take(len);
                if how & 1 != 0 {
                    lookup.notified(RecordRef {
                        sum: crc64(bytes),
                        len: bytes.len() as u32,
                        ..record
                    });
                }
                let step = lookup.read(bytes, KEY, 100, &table);
                if step == Step::Found {
                    let found = Record::open(bytes, lookup.record()).expect("it was found");
                    assert_eq!(found.key, KEY);
                }
                step
            }
            Step::Retry => {
                retries += 1;
                lookup.begin(&table)
            }
            Step::Ask | Step::Miss | Step::Found => return,
        };
        assert!(retries <= TRIES_MAX, "{retries} tries");
    }
}

/// Returns an entry as a READ might return it.
fn entry(input: &mut Input<'_>, how: u8, epoch: u64, index: u64, hash: KeyHash) -> [u8; ENTRY_BYTES] {
    let bytes: [u8; ENTRY_BYTES] = input.array();
    if how & 1 == 0 {
        return bytes;
    }
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let entry = Entry {
        record: RecordRef {
            offset: u64::from(word(0)) * 8,
            len: word(4) & 0x7f_ffff,
            sum: u64::from(word(8)) | u64::from(word(12)) << 32,
        },
        fingerprint: if how & 2 != 0 { fingerprint(hash) } else { word(16) },
        version: word(20),
        choice: bytes[7] % 3,
    };
    Seal { epoch, index }.close((how & 8 == 0).then_some(&entry))
}
