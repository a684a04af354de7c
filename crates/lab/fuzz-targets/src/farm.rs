//! Arbitrary bytes on FaRM-KV's control channel and in the memory that its clients READ.

use crate::control;
use crate::input::Input;
use drover_base::{KeyHash, Ns};
use drover_index::hopscotch::{Geometry, Object, SlotKind, TableOptions};
use drover_kv_farm::control::{Attach, Hello, Ready, Welcome};
use drover_kv_farm::logic::{Lookup, Miss, Step, TRIES_MAX, TableShape};

/// Checks that any frame decodes as a control message or is refused, and that a decoded message encodes to the same
/// bytes. Input: type of the message (1 byte, modulo 4), descriptor count (1 byte, modulo 20), body.
pub fn control_message(input: &[u8]) {
    let [which, fd_count, body @ ..] = input else {
        return;
    };
    match which % 4 {
        0 => control::again::<Hello>(body, *fd_count),
        1 => control::again::<Welcome>(body, *fd_count),
        2 => control::again::<Attach>(body, *fd_count),
        _ => control::again::<Ready>(body, *fd_count),
    };
}

const KEY: &[u8] = b"key";
const LINE: usize = 64;

/// Checks that a GET gives up after a bounded number of tries, READs nothing outside the server's memory and finds no
/// other key, whatever the memory holds. Input: table and options of the GET (1 byte), then for each READ a byte that
/// selects fields to make valid (versions, hash of the key) and the bytes that it returns.
pub fn lookup(input: &[u8]) {
    let mut input = Input::new(input);
    let hash = KeyHash::from_bytes([7; 16]);
    let begin = input.byte();
    let shape = TableShape {
        table: TableOptions {
            geometry: [Geometry::CLASSIC, Geometry::PAIRED][usize::from(begin & 1)],
            kind: [SlotKind::Wide, SlotKind::Narrow][usize::from(begin >> 1 & 1)],
            home_count: 16,
            block_count: 4,
            epoch: 1,
        },
        objects_bytes: 1 << 16,
        object_bytes_max: 1 << 10,
    };
    let miss = [Miss::Confirmed, Miss::Counted, Miss::Trusted][usize::from(begin >> 2) % 3];
    let mut lookup = Lookup::new(hash, miss);
    let mut step = lookup.begin(&shape);
    let (mut retries, mut slots, mut object) = (0, Vec::new(), Object::default());
    while !input.is_empty() {
        step = match step {
            Step::Slots { first, count } => {
                let end = shape.table.slot_offset(first + count);
                assert!(end <= shape.table.bytes(), "{count} slots from {first} on");
                slots.clear();
                (0..count).for_each(|_| slots.extend(slot(&mut input, shape.table.kind, hash)));
                lookup.slots(&slots, &shape)
            }
            Step::Again => lookup.slots(&slots, &shape),
            Step::Object(wanted) => {
                // Not the code's own check, which may be what is wrong.
                let end = u128::from(wanted.offset) + u128::from(wanted.len);
                assert!(end <= u128::from(shape.objects_bytes), "{wanted:?}");
                assert!(wanted.len <= shape.object_bytes_max, "{wanted:?}");
                let bytes = lines(&mut input, wanted.len as usize, wanted.incarnation);
                let step = lookup.read(&bytes, &mut object, KEY, 100);
                if step == Step::Found {
                    assert_eq!(object.key(), KEY);
                    assert!(object.value().len() < bytes.len());
                }
                step
            }
            Step::Moves => {
                let count = u64::from(input.byte() & 3);
                lookup.moves(count, &shape)
            }
            Step::Retry => {
                retries += 1;
                let took = Ns::from_us(u64::from(input.byte()) * 10);
                let late = lookup.late(took, 384);
                late.filter(|step| *step == Step::Ask)
                    .unwrap_or_else(|| lookup.begin(&shape))
            }
            Step::Inline => {
                assert!(lookup.inline().len() <= shape.table.kind.bytes());
                return;
            }
            Step::Ask | Step::Miss | Step::Found => return,
        };
        assert!(retries <= TRIES_MAX, "{retries} tries");
    }
}

/// Returns a slot as a READ might return it: its version is in the upper 48 bits of the first 8 bytes, the version's
/// lower half again at the end, the hash from byte 12 on.
fn slot(input: &mut Input<'_>, kind: SlotKind, hash: KeyHash) -> Vec<u8> {
    let how = input.byte();
    let mut bytes = vec![0; kind.bytes()];
    bytes[..16].copy_from_slice(&input.array::<16>());
    let rest = if how & 4 != 0 { kind.bytes() - 16 } else { 0 };
    let more = input.take(rest);
    bytes[16..16 + more.len()].copy_from_slice(more);
    if how & 2 != 0 {
        let whose = hash.to_bytes();
        let count = whose.len().min(kind.bytes() - 12);
        bytes[12..12 + count].copy_from_slice(&whose[..count]);
    }
    if how & 1 != 0 {
        bytes[0] &= !1;
        bytes[2] |= 1;
        let at = kind.bytes() - 4;
        bytes.copy_within(2..6, at);
    }
    bytes
}

/// Returns the lines of an object as a READ might return them.
fn lines(input: &mut Input<'_>, len: usize, incarnation: u16) -> Vec<u8> {
    let how = input.byte();
    let mut bytes = vec![0; len];
    let there = input.take(usize::from(how >> 2) * 2);
    let count = there.len().min(len);
    bytes[..count].copy_from_slice(&there[..count]);
    if how & 1 != 0 {
        bytes[..2].copy_from_slice(&(incarnation << 1).to_le_bytes());
        bytes[2] |= 1;
        bytes[3] &= 0x7f;
        let version = [bytes[2], bytes[3]];
        let lines = bytes.chunks_exact_mut(LINE);
        lines.for_each(|line| line[LINE - 2..].copy_from_slice(&version));
    }
    bytes
}
