//! [`Lookup`]: which READ of a GET is next, decided from the bytes read so far.
//!
//! ```text
//! READ neighbourhood                 6 slots, each verified separately
//!   the key, inline                -> the value
//!   the key, with an object        -> READ object
//!                                     torn, or another incarnation -> after a backoff, start again
//!                                     another key                  -> next slot
//!                                     seems expired                -> ask the server
//!                                     the value
//!   no key, but a torn slot        -> after a backoff, start again; after TRIES_MAX: ask the server
//!   no key, but an overflow chain  -> READ the first overflow block, then the next
//!   no key                         -> a miss, which must be confirmed
//! ```
//! A miss is confirmed by the server, or by the table's count of moves: READ the count, repeat the search, READ the
//! count; the same even number means that no key moved in between. *(Neighbourhood, pointer with incarnation: from the
//! literature on `[FaRM]`; the rest: our choice.)*

use drover_base::{KeyHash, Ns};
use drover_index::hopscotch::{
    BLOCK_SLOTS, Content, INLINE_BYTES_MAX, Object, ObjectRef, READ_NS_MAX, Slot, SlotKind, TableOptions,
};
use std::ops::Deref;

/// Number of torn READs, in total, after which a GET still begins again; after the next one it asks the server. A count
/// of moves that was odd or changed counts as a torn READ; a READ of slots or an object that took longer than a
/// millisecond counts as 5, of an object of more than 64 KiB as 9. *(our choice)*
pub const TRIES_MAX: u32 = 8;

/// A READ that took too long counts as this many torn ones. On a slow fabric, or with a long value, the next READ is
/// almost always too slow as well, and the server answers sooner than several of them.
const TRIES_OF_A_LATE_READ: u32 = 5;

/// A READ of more than this many bytes that took too long is not repeated at all: its length is the likely cause.
/// *(our choice)*
const LONG_BYTES: usize = 64 << 10;

/// Maximum number of overflow blocks that a reader follows. A stale link may lead into the chain of another home.
/// *(our choice)*
const BLOCKS_MAX: u32 = 16;

/// What a client does when no slot has its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Miss {
    /// Ask the server: a key that moves during the READs is in none of the slots read.
    #[default]
    Confirmed,
    /// READ the count of moves, repeat the search, READ the count again: at least three more READs, without the
    /// server's processor.
    Counted,
    /// Report a miss. Sometimes wrong; only for tests that demonstrate this.
    Trusted,
}

/// Next step of a GET, for the caller to carry out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// READ `count` slots from slot `first` on.
    Slots {
        /// Index of the first slot.
        first: usize,
        /// Number of slots.
        count: usize,
    },
    /// The object is another key's: call [`slots`](Lookup::slots) again with the slots of the last READ, to search the
    /// rest of them. No READ is needed.
    Again,
    /// READ this object.
    Object(ObjectRef),
    /// READ the count of moves.
    Moves,
    /// The data was torn or proves nothing: wait a little, then [`begin`](Lookup::begin) again.
    Retry,
    /// Ask the server by a message; its answer is authoritative.
    Ask,
    /// Report that the key does not exist: only with [`Miss::Counted`] and [`Miss::Trusted`].
    Miss,
    /// Report the value, which was in a slot: [`inline`](Lookup::inline) returns it.
    Inline,
    /// Report the value in the object of the last READ, which is the key's.
    Found,
}

/// What a reader knows of a shard's table and objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableShape {
    /// The server's table options.
    pub table: TableOptions,
    /// Length of the objects' memory, bytes.
    pub objects_bytes: u64,
    /// Longest object, bytes in memory; a reader does not READ longer ones.
    pub object_bytes_max: u32,
}

impl TableShape {
    /// Whether `object` has a valid length and is within the memory that a reader may READ.
    pub fn has(&self, object: &ObjectRef) -> bool {
        let end = object.offset.checked_add(u64::from(object.len));
        let is_sized = object.len > 0 && object.len.is_multiple_of(64) && object.len <= self.object_bytes_max;
        is_sized && end.is_some_and(|end| end <= self.objects_bytes)
    }
}

/// Bytes of the consecutive slots that a READ fetched.
pub trait Slots {
    /// Fills `out` with the bytes from `offset` on, counted from the start of the first of the slots.
    fn copy_out(&self, offset: usize, out: &mut [u8]);
}

impl Slots for Vec<u8> {
    fn copy_out(&self, offset: usize, out: &mut [u8]) {
        out.copy_from_slice(&self[offset..][..out.len()]);
    }
}

/// State of one GET. It decides which READ is next, but posts none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lookup {
    hash: KeyHash,
    /// Index of the first of the slots READ last.
    first: usize,
    count: usize,
    /// Number of these slots that have been searched.
    seen: usize,
    blocks: u32,
    tries: u32,
    miss: Miss,
    /// The count of moves that was READ before the search.
    moves: Option<u64>,
    object: ObjectRef,
    inline: InlineValue,
}

/// A copy of a value that was in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InlineValue {
    bytes: [u8; INLINE_BYTES_MAX],
    len: usize,
}

impl Deref for InlineValue {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Lookup {
    /// Creates the state of a GET of the key with `hash`; [`begin`](Lookup::begin) returns the first step.
    pub fn new(hash: KeyHash, miss: Miss) -> Lookup {
        Lookup {
            hash,
            first: 0,
            count: 0,
            seen: 0,
            blocks: 0,
            tries: 0,
            miss,
            moves: None,
            object: ObjectRef {
                offset: 0,
                len: 0,
                incarnation: 0,
            },
            inline: InlineValue {
                bytes: [0; INLINE_BYTES_MAX],
                len: 0,
            },
        }
    }

    /// Starts, or starts again, with the neighbourhood of the key's home: returns [`Step::Slots`].
    pub fn begin(&mut self, shape: &TableShape) -> Step {
        self.blocks = 0;
        let geometry = shape.table.geometry;
        self.read_slots(geometry.first(shape.table.home(self.hash)), geometry.span)
    }

    /// Location of the object of the last [`Step::Object`].
    pub fn object(&self) -> &ObjectRef {
        &self.object
    }

    /// The value, after [`Step::Inline`].
    pub fn inline(&self) -> InlineValue {
        self.inline
    }

    /// Whether the slots of the last [`Step::Slots`] are an overflow block.
    pub fn is_in_overflow(&self) -> bool {
        self.blocks > 0
    }

    /// Whether the GET asks the server because of too many torn or late READs, and not because of a miss.
    pub fn has_given_up(&self) -> bool {
        self.tries > TRIES_MAX
    }

    fn read_slots(&mut self, first: usize, count: usize) -> Step {
        (self.first, self.count, self.seen) = (first, count, 0);
        Step::Slots { first, count }
    }

    /// Handles the slots that were READ, and returns the next step.
    #[inline]
    pub fn slots(&mut self, slots: &impl Slots, shape: &TableShape) -> Step {
        let kind = shape.table.kind;
        let mut bytes = [0; SlotKind::Wide.bytes()];
        let bytes = &mut bytes[..kind.bytes()];
        let mut is_torn = false;
        // First try the slot that claims to be the key's; usually it is, and the others need no verification.
        for at in self.seen..self.count {
            slots.copy_out(at * kind.bytes(), bytes);
            if !Slot::may_be_of(kind, bytes, self.hash) {
                continue;
            }
            let Ok(slot) = Slot::open(kind, bytes) else {
                continue;
            };
            match slot.content() {
                None => {}
                Some(Content::Inline(value)) => {
                    self.inline.bytes[..value.len()].copy_from_slice(value);
                    self.inline.len = value.len();
                    return Step::Inline;
                }
                // The versions are right, but the address is still checked: a READ out of bounds would break the
                // connection.
                Some(Content::Object(object)) if !shape.has(&object) => is_torn = true,
                Some(Content::Object(object)) => {
                    self.object = object;
                    self.seen = at + 1;
                    return Step::Object(object);
                }
            }
        }
        let mut link = 0;
        for at in 0..self.count {
            slots.copy_out(at * kind.bytes(), bytes);
            match Slot::open(kind, bytes) {
                Ok(head) if at == 0 => link = head.link,
                Ok(_) => {}
                Err(_) => is_torn = true,
            }
        }
        match is_torn {
            true => self.torn(),
            false => self.follow(link, shape),
        }
    }

    /// Continues with the next block of the overflow chain.
    fn follow(&mut self, link: u32, shape: &TableShape) -> Step {
        match shape.table.block_slot(link) {
            None if link == 0 => self.missed(),
            None => self.torn(),
            Some(_) if self.blocks == BLOCKS_MAX => Step::Ask,
            Some(first) => {
                self.blocks += 1;
                self.read_slots(first, BLOCK_SLOTS)
            }
        }
    }

    fn missed(&mut self) -> Step {
        match self.miss {
            Miss::Confirmed => Step::Ask,
            Miss::Counted => Step::Moves,
            Miss::Trusted => Step::Miss,
        }
    }

    /// Handles the count of moves that was READ, before or after the repeated search, and returns the next step.
    pub fn moves(&mut self, count: u64, shape: &TableShape) -> Step {
        match self.moves.take() {
            Some(before) if before == count => Step::Miss,
            None if count.is_multiple_of(2) => {
                self.moves = Some(count);
                self.begin(shape)
            }
            _ => self.torn(),
        }
    }

    /// Handles the bytes of the object that was READ: decodes them into `object`, and returns the next step. `key` is
    /// the key of the GET, `now_s` the current second of the server's clock.
    pub fn read(&mut self, bytes: &[u8], object: &mut Object, key: &[u8], now_s: u32) -> Step {
        match object.open(bytes, self.object.incarnation) {
            Err(_) => self.torn(),
            Ok(()) if object.key() != key => Step::Again,
            // Clients' clocks differ; only the server's clock decides, for all clients alike.
            Ok(()) if object.head().is_expired(now_s) => Step::Ask,
            Ok(()) => Step::Found,
        }
    }

    /// Checks the duration `took` of a READ of `bytes` bytes. If it was longer than [`READ_NS_MAX`], the data proves
    /// nothing, because versions may have wrapped around: returns the step to take instead of handling the data. `None`
    /// if it was not.
    pub fn late(&mut self, took: Ns, bytes: usize) -> Option<Step> {
        let tries = match bytes > LONG_BYTES {
            true => TRIES_MAX + 1,
            false => TRIES_OF_A_LATE_READ,
        };
        (took > READ_NS_MAX).then(|| {
            self.tries += tries - 1;
            self.torn()
        })
    }

    fn torn(&mut self) -> Step {
        self.moves = None;
        self.tries += 1;
        match self.tries > TRIES_MAX {
            true => Step::Ask,
            false => Step::Retry,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::HashSeed;
    use drover_index::hopscotch::{
        Geometry, HopscotchTable, ObjectHead, ObjectWriter, SlotKind, object_bytes,
    };

    const SHAPE: TableShape = TableShape {
        table: TableOptions {
            geometry: Geometry::CLASSIC,
            kind: SlotKind::Wide,
            home_count: 16,
            block_count: 8,
            epoch: 1,
        },
        objects_bytes: 1 << 20,
        object_bytes_max: 4096,
    };

    fn hash(key: u64) -> KeyHash {
        HashSeed::new(1, 2).hash(&key.to_le_bytes())
    }

    fn object(key: u64) -> Content<'static> {
        Content::Object(ObjectRef {
            offset: key * 64,
            len: 128,
            incarnation: 3,
        })
    }

    fn table(shape: &TableShape, keys: u64) -> HopscotchTable<Vec<u8>> {
        let mut table = HopscotchTable::new(vec![0; shape.table.bytes()], &shape.table);
        for key in 0..keys {
            table.put(hash(key), object(key)).expect("space");
        }
        table
    }

    fn bytes(table: &HopscotchTable<Vec<u8>>, first: usize, count: usize) -> Vec<u8> {
        let at = table.options().slot_offset(first);
        table.memory()[at..at + count * table.options().kind.bytes()].to_vec()
    }

    /// Follows steps as long as they READ slots.
    fn walk(
        lookup: &mut Lookup,
        mut step: Step,
        table: &HopscotchTable<Vec<u8>>,
        shape: &TableShape,
    ) -> Step {
        while let Step::Slots { first, count } = step {
            step = lookup.slots(&bytes(table, first, count), shape);
        }
        step
    }

    #[test]
    fn whatever_is_there_is_found_in_overflow_too() {
        let table = table(&SHAPE, 24);
        assert!(table.overflow_len() > 0);
        for key in 0..24 {
            let mut lookup = Lookup::new(hash(key), Miss::Confirmed);
            let begin = lookup.begin(&SHAPE);
            let step = walk(&mut lookup, begin, &table, &SHAPE);
            assert!(
                matches!(step, Step::Object(object) if object.offset == key * 64),
                "{step:?}"
            );
        }
    }

    /// A narrow slot has only half of the key's hash: the object of another key is not an answer, but the next slot
    /// may be the right one.
    #[test]
    fn farm_another_keys_object_leads_to_the_next_slot() {
        let shape = TableShape {
            table: TableOptions {
                kind: SlotKind::Narrow,
                ..SHAPE.table
            },
            ..SHAPE
        };
        let mut table = table(&shape, 0);
        // Two keys of one home whose slots look the same.
        let (ours, other) = (
            hash(1),
            KeyHash {
                low: hash(1).low ^ 1,
                ..hash(1)
            },
        );
        table.put(other, object(5)).expect("space");
        table.put(ours, object(6)).expect("space");
        let mut lookup = Lookup::new(ours, Miss::Confirmed);
        let Step::Slots { first, count } = lookup.begin(&shape) else {
            unreachable!("slots")
        };
        let read = bytes(&table, first, count);
        assert!(matches!(lookup.slots(&read, &shape), Step::Object(object) if object.offset == 5 * 64));
        let mut memory = vec![0; object_bytes(5, 0)];
        let head = ObjectHead {
            version: 1,
            incarnation: 3,
            expire_s: 0,
            flags: 0,
        };
        ObjectWriter::default().write(&mut memory, 0, head, b"other", b"");
        let mut opened = Object::default();
        assert_eq!(lookup.read(&memory, &mut opened, b"ours", 1), Step::Again);
        assert!(matches!(lookup.slots(&read, &shape), Step::Object(object) if object.offset == 6 * 64));
    }

    /// After the pointer was read, the object's memory was reused for another object, of the same or another key.
    #[test]
    fn farm_a_stale_pointer_is_not_followed() {
        let mut lookup = Lookup::new(hash(1), Miss::Confirmed);
        lookup.object.incarnation = 4;
        let mut memory = vec![0; object_bytes(3, 5)];
        let head = ObjectHead {
            version: 9,
            incarnation: 5,
            expire_s: 0,
            flags: 0,
        };
        ObjectWriter::default().write(&mut memory, 0, head, b"key", b"value");
        let mut opened = Object::default();
        assert_eq!(lookup.read(&memory, &mut opened, b"key", 1), Step::Retry);
        lookup.object.incarnation = 5;
        assert_eq!(lookup.read(&memory, &mut opened, b"key", 1), Step::Found);
    }

    /// Readers that retry for ever starve on an object that is written continuously.
    #[test]
    fn farm_retries_end_with_a_question() {
        let mut lookup = Lookup::new(hash(1), Miss::Confirmed);
        let torn = vec![0; SHAPE.table.geometry.span * 64];
        for _ in 0..TRIES_MAX {
            assert!(matches!(lookup.begin(&SHAPE), Step::Slots { .. }));
            assert_eq!(lookup.slots(&torn, &SHAPE), Step::Retry);
        }
        lookup.begin(&SHAPE);
        assert_eq!(lookup.slots(&torn, &SHAPE), Step::Ask);
    }

    /// If a READ takes long enough for 65,536 writes, all versions are as before, but the bytes are not.
    #[test]
    fn farm_a_read_that_took_too_long_proves_nothing() {
        let mut lookup = Lookup::new(hash(1), Miss::Confirmed);
        let mut writer = ObjectWriter::default();
        let image = |writer: &mut ObjectWriter, version, value: &[u8]| {
            let mut memory = vec![0; object_bytes(3, value.len())];
            let head = ObjectHead {
                version,
                incarnation: 0,
                expire_s: 0,
                flags: 0,
            };
            writer.write(&mut memory, 0, head, b"key", value);
            memory
        };
        let before = image(&mut writer, 1, &[1; 100]);
        let after = image(&mut writer, 1 + (1 << 16), &[2; 100]);
        let mixture = [&before[..64], &after[64..]].concat();
        let mut opened = Object::default();
        // Shows that the check is needed: by the versions alone, the mixture looks complete.
        assert_eq!(lookup.read(&mixture, &mut opened, b"key", 1), Step::Found);
        assert!(opened.value().contains(&1) && opened.value().contains(&2));
        assert_eq!(lookup.late(READ_NS_MAX, LONG_BYTES), None);
        let late = READ_NS_MAX + Ns(1);
        let mut of_a_long_one = lookup;
        assert_eq!(of_a_long_one.late(late, LONG_BYTES + 1), Some(Step::Ask));
        assert_eq!(lookup.late(late, LONG_BYTES), Some(Step::Retry));
        // A second late READ is enough to ask; eight are not needed.
        assert_eq!(lookup.late(late, LONG_BYTES), Some(Step::Ask));
    }

    /// A hostile or faulty server cannot make its readers READ out of bounds, or follow a chain for ever.
    #[test]
    fn farm_pointers_out_of_bounds_are_not_followed() {
        let far = [
            (SHAPE.objects_bytes, 64),
            (SHAPE.objects_bytes - 64, 128),
            (0, 4096 + 64),
            (0, 0),
            (0, 65),
        ];
        for (offset, len) in far {
            let mut table = table(&SHAPE, 0);
            let object = ObjectRef {
                offset,
                len,
                incarnation: 0,
            };
            table.put(hash(1), Content::Object(object)).expect("space");
            let mut lookup = Lookup::new(hash(1), Miss::Confirmed);
            let begin = lookup.begin(&SHAPE);
            assert_eq!(
                walk(&mut lookup, begin, &table, &SHAPE),
                Step::Retry,
                "{object:?}"
            );
        }
        let mut lookup = Lookup::new(hash(1), Miss::Confirmed);
        lookup.begin(&SHAPE);
        let mut reads = 0;
        while let Step::Slots { .. } = lookup.follow(1, &SHAPE) {
            reads += 1;
        }
        assert_eq!(reads, BLOCKS_MAX);
    }

    #[test]
    fn a_miss_is_confirmed_unless_it_is_trusted() {
        let table = table(&SHAPE, 0);
        for (miss, want) in [
            (Miss::Confirmed, Step::Ask),
            (Miss::Counted, Step::Moves),
            (Miss::Trusted, Step::Miss),
        ] {
            let mut lookup = Lookup::new(hash(1), miss);
            let begin = lookup.begin(&SHAPE);
            assert_eq!(walk(&mut lookup, begin, &table, &SHAPE), want);
        }
    }

    /// The count of moves decides about a miss: the same even number twice confirms it, anything else means a retry.
    #[test]
    fn farm_a_count_that_is_odd_or_changes_is_no_confirmation() {
        let table = table(&SHAPE, 0);
        for (before, after, want) in [(4, 4, Step::Miss), (4, 6, Step::Retry), (4, 5, Step::Retry)] {
            let mut lookup = Lookup::new(hash(1), Miss::Counted);
            let begin = lookup.begin(&SHAPE);
            assert_eq!(walk(&mut lookup, begin, &table, &SHAPE), Step::Moves);
            let again = lookup.moves(before, &SHAPE);
            assert!(matches!(again, Step::Slots { .. }));
            assert_eq!(walk(&mut lookup, again, &table, &SHAPE), Step::Moves);
            assert_eq!(lookup.moves(after, &SHAPE), want);
        }
        let mut lookup = Lookup::new(hash(1), Miss::Counted);
        lookup.begin(&SHAPE);
        assert_eq!(lookup.moves(3, &SHAPE), Step::Retry);
    }

    /// A key moves up while the neighbourhood is READ, and the lines are sampled in an order in which the key is
    /// nowhere.
    #[test]
    fn farm_a_key_that_moves_within_the_neighbourhood_is_asked_for() {
        let (mut missed, mut asked) = (0, 0);
        for key in 0..16 {
            for coming in 100..160 {
                let (before, mut table) = (table(&SHAPE, 16), table(&SHAPE, 16));
                if table.put(hash(coming), object(coming)).is_err() {
                    continue;
                }
                for miss in [Miss::Trusted, Miss::Confirmed] {
                    let mut lookup = Lookup::new(hash(key), miss);
                    let Step::Slots { first, count } = lookup.begin(&SHAPE) else {
                        unreachable!("slots")
                    };
                    // Upper slots sampled early, lower ones late.
                    let (old, new) = (bytes(&before, first, count), bytes(&table, first, count));
                    for cut in 0..count {
                        let mut lookup = lookup;
                        let seen = [&new[..cut * 64], &old[cut * 64..]].concat();
                        let step = lookup.slots(&seen, &SHAPE);
                        missed += u32::from(step == Step::Miss);
                        asked += u32::from(step == Step::Ask);
                    }
                }
            }
        }
        assert!(missed > 0, "keys that are there all the time were never missed");
        assert_eq!(
            missed, asked,
            "whatever a trusting reader misses a confirming one asks for"
        );
    }
}
