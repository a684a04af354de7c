//! [`Lookup`]: what a GET reads next, decided from the bytes it has.
//!
//! ```text
//! READ neighbourhood                 6 slots, each opened by itself
//!   the key, inline                -> the value
//!   the key, and where its object is -> READ object
//!                                     torn, or another incarnation -> once more from the neighbourhood, a little later
//!                                     another key                  -> next slot
//!                                     seems expired                -> ask the server
//!                                     the value
//!   not there, a slot torn         -> once more, a little later; after TRIES_MAX: ask
//!   not there, a chain begins here -> READ overflow block, and so on
//!   not there                      -> a miss, to be confirmed
//! ```
//! A miss is confirmed by asking, or by the table's count of moves: READ, everything again, READ; one even number means that no key
//! moved meanwhile. *(Neighbourhood, pointer with incarnation: from the literature on `[FaRM]`; the rest: our choice.)*

use drover_base::{KeyHash, Ns};
use drover_index::hopscotch::{
    BLOCK_SLOTS, Content, INLINE_BYTES_MAX, Object, ObjectRef, READ_NS_MAX, Slot, SlotKind, TableOptions,
};
use std::ops::Deref;

/// Torn slots and objects before the server is asked. *(our choice)*
pub const TRIES_MAX: u32 = 8;

/// A READ that took too long counts as so many: where one does, of a long value or on a slow fabric, the next one hardly ever does
/// not, and the server answers sooner than many of them.
const TRIES_OF_A_LATE_READ: u32 = 5;

/// A READ of more than this that took too long is not repeated at all: more likely than not it is the length. *(our choice)*
const LONG_BYTES: usize = 64 << 10;

/// Blocks of a chain that a reader follows. A stale one may lead into another home's chain, and on. *(our choice)*
const BLOCKS_MAX: u32 = 16;

/// What a reader does when its key is nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Miss {
    /// It asks the server: a key that moves meanwhile is in none of the places read.
    #[default]
    Confirmed,
    /// It reads everything again between two looks at the count of moves: three READs more, none of the server's time.
    Counted,
    /// It says so: wrong now and then, and here for tests to show that.
    Trusted,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// READ so many slots from this one on.
    Slots {
        /// Number of the first.
        first: usize,
        /// How many.
        count: usize,
    },
    /// Look at the slots read last once more: [`slots`](Lookup::slots).
    Again,
    /// READ this object.
    Object(ObjectRef),
    /// READ the count of moves.
    Moves,
    /// Something was torn: wait a little, then [`begin`](Lookup::begin) again.
    Retry,
    /// Ask the server.
    Ask,
    /// There is no such key.
    Miss,
    /// [`inline`](Lookup::inline) is the value.
    Inline,
    /// The object read last has the value.
    Found,
}

/// The table as a reader knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableShape {
    /// As the server made it.
    pub table: TableOptions,
    /// Of the objects' memory.
    pub objects_bytes: u64,
    /// Longest object, bytes.
    pub object_bytes_max: u32,
}

impl TableShape {
    /// Whether a reader may READ it.
    pub fn has(&self, object: &ObjectRef) -> bool {
        let end = object.offset.checked_add(u64::from(object.len));
        let is_sized = object.len > 0 && object.len.is_multiple_of(64) && object.len <= self.object_bytes_max;
        is_sized && end.is_some_and(|end| end <= self.objects_bytes)
    }
}

/// Slots that were read, one behind the other.
pub trait Slots {
    /// Fills `out` with the bytes from `offset` on.
    fn copy_out(&self, offset: usize, out: &mut [u8]);
}

impl Slots for Vec<u8> {
    fn copy_out(&self, offset: usize, out: &mut [u8]) {
        out.copy_from_slice(&self[offset..][..out.len()]);
    }
}

/// One GET on its way through the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lookup {
    hash: KeyHash,
    /// First of the slots read last.
    first: usize,
    count: usize,
    /// Of these, how many have been looked at.
    seen: usize,
    blocks: u32,
    tries: u32,
    miss: Miss,
    /// The count of moves before all this.
    moves: Option<u64>,
    object: ObjectRef,
    inline: InlineValue,
}

/// A value that was in a slot.
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
    /// Of the key with `hash`.
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

    /// From the neighbourhood on.
    pub fn begin(&mut self, shape: &TableShape) -> Step {
        self.blocks = 0;
        let geometry = shape.table.geometry;
        self.read_slots(geometry.first(shape.table.home(self.hash)), geometry.span)
    }

    /// The object asked for last.
    pub fn object(&self) -> &ObjectRef {
        &self.object
    }

    /// The value that was in the slot.
    pub fn inline(&self) -> InlineValue {
        self.inline
    }

    /// Whether what is read now is overflow.
    pub fn is_in_overflow(&self) -> bool {
        self.blocks > 0
    }

    /// Whether it asks because of what was torn, and not because of a miss.
    pub fn has_given_up(&self) -> bool {
        self.tries > TRIES_MAX
    }

    fn read_slots(&mut self, first: usize, count: usize) -> Step {
        (self.first, self.count, self.seen) = (first, count, 0);
        Step::Slots { first, count }
    }

    /// The slots asked for have come.
    #[inline]
    pub fn slots(&mut self, slots: &impl Slots, shape: &TableShape) -> Step {
        let kind = shape.table.kind;
        let mut bytes = [0; SlotKind::Wide.bytes()];
        let bytes = &mut bytes[..kind.bytes()];
        let mut is_torn = false;
        // First the slot that says it is the key's: most often it is, and the others need not be opened.
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
                // Whole, and still not to be trusted with an address: a wrong one breaks the connection.
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

    /// To the next block of the chain.
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

    /// The count of moves has come.
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

    /// The object asked for has come: what `bytes` are to a reader of `key` at second `now_s` of the server's clock.
    pub fn read(&mut self, bytes: &[u8], object: &mut Object, key: &[u8], now_s: u32) -> Step {
        match object.open(bytes, self.object.incarnation) {
            Err(_) => self.torn(),
            Ok(()) if object.key() != key => Step::Again,
            // Only the server's clock says so to everybody alike.
            Ok(()) if object.head().is_expired(now_s) => Step::Ask,
            Ok(()) => Step::Found,
        }
    }

    /// A READ of `bytes` took `took`: if that was too long, what it brought proves nothing, because versions may have come round
    /// meanwhile.
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

    /// Goes on until it is something else than reading slots.
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

    /// Half of a hash is known of a key in a narrow slot: the object of another key is not an answer, but the next slot may be.
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
        // Two keys of one home whose slots say the same.
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
        };
        ObjectWriter::default().write(&mut memory, 0, head, b"other", b"");
        let mut opened = Object::default();
        assert_eq!(lookup.read(&memory, &mut opened, b"ours", 1), Step::Again);
        assert!(matches!(lookup.slots(&read, &shape), Step::Object(object) if object.offset == 6 * 64));
    }

    /// The pointer was read, then its object's place was given to another object of the same key, or of another one.
    #[test]
    fn farm_a_stale_pointer_is_not_followed() {
        let mut lookup = Lookup::new(hash(1), Miss::Confirmed);
        lookup.object.incarnation = 4;
        let mut memory = vec![0; object_bytes(3, 5)];
        let head = ObjectHead {
            version: 9,
            incarnation: 5,
            expire_s: 0,
        };
        ObjectWriter::default().write(&mut memory, 0, head, b"key", b"value");
        let mut opened = Object::default();
        assert_eq!(lookup.read(&memory, &mut opened, b"key", 1), Step::Retry);
        lookup.object.incarnation = 5;
        assert_eq!(lookup.read(&memory, &mut opened, b"key", 1), Step::Found);
    }

    /// Readers that retry for ever starve on an object that is written all the time.
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

    /// 65,535 writes fit into a READ that takes long enough: then all versions are as they were, and the bytes are not.
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
            };
            writer.write(&mut memory, 0, head, b"key", value);
            memory
        };
        let before = image(&mut writer, 1, &[1; 100]);
        let after = image(&mut writer, 1 + (1 << 16), &[2; 100]);
        let mixture = [&before[..64], &after[64..]].concat();
        let mut opened = Object::default();
        // The canary: versions alone take it for whole.
        assert_eq!(lookup.read(&mixture, &mut opened, b"key", 1), Step::Found);
        assert!(opened.value().contains(&1) && opened.value().contains(&2));
        assert_eq!(lookup.late(READ_NS_MAX, LONG_BYTES), None);
        let late = READ_NS_MAX + Ns(1);
        let mut of_a_long_one = lookup;
        assert_eq!(of_a_long_one.late(late, LONG_BYTES + 1), Some(Step::Ask));
        assert_eq!(lookup.late(late, LONG_BYTES), Some(Step::Retry));
        // It is not worth eight of them.
        assert_eq!(lookup.late(late, LONG_BYTES), Some(Step::Ask));
    }

    /// A server that means harm, or has a bug, cannot make its readers READ out of bounds, nor round in circles.
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

    /// What the count of moves makes of a miss: the same even number twice, or once more.
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

    /// A key moves up while the neighbourhood is read, and its lines are seen in an order in which it is nowhere.
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
                    // The upper slots early, the lower ones late.
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
