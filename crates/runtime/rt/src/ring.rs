//! [`ring`]: messages of any length from one core to another, in order.
//!
//! ```text
//!            tail (consumer)                 published     head (producer)
//!             v                                  v             v
//!  | free     | len, bytes | len, bytes | box    | len, bytes  | free ... |
//! ```
//! Head and tail count bytes for ever; modulo the length they are offsets. A message is a word with its length, then
//! its bytes, padded to words; it may wrap anywhere. The producer publishes a batch with one Release store, the
//! consumer returns space with another, and each reads the other's count only when its own copy shows nothing left.
//! *(The shape of Lamport's queue with cached indices, which is widely used; our choice.)*
//!
//! A message longer than a quarter of the ring is sent in a box, separately allocated memory; the ring then holds only
//! a flag for it. So a small ring can carry any message, and a refusal lasts only until there is space.

use drover_base::sync::{Arc, AtomicU64, Ordering};
use drover_mem::{AllocError, PageWish, Region};
use drover_verbs::Waker;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Bytes of the length word.
const WORD: usize = 8;
/// Flag in a length word: the message is in a box.
const BOXED: u64 = 1 << 63;
/// Most bytes of boxes in flight; a single box may have any length.
const BOXED_BYTES_MAX: u64 = 4 << 20;

/// The memory of a ring: a [`Region`], or loom's atomics.
trait Memory {
    fn put(&self, at: usize, bytes: &[u8]);
    fn take(&self, at: usize, out: &mut [u8]);
}

impl Memory for Region {
    #[inline]
    fn put(&self, at: usize, bytes: &[u8]) {
        self.copy_in(at, bytes);
    }

    #[inline]
    fn take(&self, at: usize, out: &mut [u8]) {
        self.copy_short_out(at, out);
    }
}

/// A count that one side writes, on cache lines of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Count(AtomicU64);

#[derive(Debug)]
struct Shared<M> {
    memory: M,
    bytes: usize,
    /// Bytes published. Written by the producer.
    head: Count,
    /// Bytes consumed. Written by the consumer.
    tail: Count,
    /// Bytes of boxes consumed. Written by the consumer.
    boxed: Count,
}

impl<M: Memory> Shared<M> {
    /// Copies `bytes` to count `at`, in two parts if they wrap.
    fn put(&self, at: u64, bytes: &[u8]) {
        let at = at as usize & (self.bytes - 1);
        let (before, after) = bytes.split_at(bytes.len().min(self.bytes - at));
        self.memory.put(at, before);
        if !after.is_empty() {
            self.memory.put(0, after);
        }
    }

    fn take(&self, at: u64, out: &mut [u8]) {
        let at = at as usize & (self.bytes - 1);
        let (before, after) = out.split_at_mut(out.len().min(self.bytes - at));
        self.memory.take(at, before);
        if !after.is_empty() {
            self.memory.take(0, after);
        }
    }
}

/// The ring has no space for the message now. A later attempt may succeed, unless the consumer is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingFull;

/// Creates a queue of messages between two threads, in a ring of `bytes` of memory, and returns its two ends. A message
/// takes 8 bytes plus its length rounded up to 8; one longer than a quarter of the ring is allocated separately and
/// takes 8 bytes. Publishing calls `waker`, which should wake the core of the consumer.
///
/// # Errors
/// [`AllocError`] if the memory cannot be allocated.
///
/// # Panics
/// If `bytes` is not a power of two of at least 64.
pub fn ring(bytes: usize, waker: Waker) -> Result<(RingProducer, RingConsumer), AllocError> {
    check_bytes(bytes);
    let (producer, consumer) = ends(Region::private(bytes, PageWish::Small)?, bytes, waker);
    Ok((RingProducer(producer), RingConsumer(consumer)))
}

fn check_bytes(bytes: usize) {
    assert!(
        bytes.is_power_of_two() && bytes >= 64,
        "{bytes} is no length of a ring"
    );
}

fn ends<M: Memory>(memory: M, bytes: usize, waker: Waker) -> (Producer<M>, Consumer<M>) {
    let shared = Arc::new(Shared {
        memory,
        bytes,
        head: Count::default(),
        tail: Count::default(),
        boxed: Count::default(),
    });
    let (box_sender, box_receiver) = channel();
    let producer = Producer {
        shared: shared.clone(),
        waker,
        head: 0,
        published: 0,
        tail: 0,
        boxed: 0,
        unboxed: 0,
        boxes: box_sender,
    };
    let consumer = Consumer {
        shared,
        tail: 0,
        released: 0,
        head: 0,
        boxed: 0,
        boxes: box_receiver,
    };
    (producer, consumer)
}

/// The writing end of a [`ring`].
#[derive(Debug)]
pub struct RingProducer(Producer<Region>);

impl RingProducer {
    /// Adds one message, the concatenation of `pieces`; the consumer sees it after the next
    /// [`publish`](RingProducer::publish). Cost: a copy; a message longer than a quarter of the ring also allocates.
    ///
    /// # Errors
    /// [`RingFull`] if there is no space for the message now (all separately allocated messages share 4 MiB; a single
    /// one may be longer); then nothing was added. If the consumer is gone, separately allocated messages are refused
    /// at once, the others when the ring is full.
    #[inline]
    pub fn push(&mut self, pieces: &[&[u8]]) -> Result<(), RingFull> {
        self.0.push(pieces)
    }

    /// Whether a message of up to `len` bytes, which is not too long for the ring itself, has space now.
    pub fn has_space(&mut self, len: usize) -> bool {
        self.0.has_space(len)
    }

    /// Makes all messages added so far visible to the consumer, and calls its waker. Cost: a store and the waker;
    /// nothing if no message was added since the last call.
    #[inline]
    pub fn publish(&mut self) {
        self.0.publish(Ordering::Release);
    }

    /// Whether the consumer has returned space since [`push`](RingProducer::push) last looked: a refused message may
    /// now fit.
    pub fn has_new_space(&self) -> bool {
        self.0.has_new_space()
    }
}

/// The reading end of a [`ring`].
#[derive(Debug)]
pub struct RingConsumer(Consumer<Region>);

impl RingConsumer {
    /// Replaces the contents of `out` with the next message. Returns false, and leaves `out` unchanged, if there is
    /// none. An empty ring costs one load of a cache line that no other core writes meanwhile.
    #[inline]
    pub fn pop(&mut self, out: &mut Vec<u8>) -> bool {
        self.0.pop(out)
    }

    /// Lets the producer reuse the space of all messages popped so far; `pop` alone does not. Call it once per batch.
    #[inline]
    pub fn release(&mut self) {
        self.0.release();
    }
}

#[derive(Debug)]
struct Producer<M> {
    shared: Arc<Shared<M>>,
    waker: Waker,
    head: u64,
    published: u64,
    /// The consumer's count when last read.
    tail: u64,
    /// Bytes of all boxes sent.
    boxed: u64,
    /// The consumer's count of box bytes when last read.
    unboxed: u64,
    boxes: Sender<Box<[u8]>>,
}

impl<M: Memory> Producer<M> {
    fn has_space(&mut self, len: usize) -> bool {
        len <= self.shared.bytes / 4 && self.make_space(WORD + len.next_multiple_of(WORD)).is_ok()
    }

    fn push(&mut self, pieces: &[&[u8]]) -> Result<(), RingFull> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        if len > self.shared.bytes / 4 {
            return self.push_box(len, pieces);
        }
        self.make_space(WORD + len.next_multiple_of(WORD))?;
        let mut at = self.head;
        self.shared.put(at, &(len as u64).to_le_bytes());
        at += WORD as u64;
        for piece in pieces {
            self.shared.put(at, piece);
            at += piece.len() as u64;
        }
        self.head = at.next_multiple_of(WORD as u64);
        Ok(())
    }

    #[cold]
    fn push_box(&mut self, len: usize, pieces: &[&[u8]]) -> Result<(), RingFull> {
        // Acquire: as in `make_space`; here it orders only the count itself.
        self.unboxed = self.shared.boxed.0.load(Ordering::Acquire);
        let under_way = self.boxed - self.unboxed;
        if under_way != 0 && under_way + len as u64 > BOXED_BYTES_MAX {
            return Err(RingFull);
        }
        self.make_space(WORD)?;
        if self.boxes.send(pieces.concat().into()).is_err() {
            return Err(RingFull); // the consumer is gone
        }
        self.boxed += len as u64;
        self.shared.put(self.head, &BOXED.to_le_bytes());
        self.head += WORD as u64;
        Ok(())
    }

    #[inline]
    fn make_space(&mut self, need: usize) -> Result<(), RingFull> {
        let fits = |head: u64, tail: u64, bytes: usize| (head - tail) as usize + need <= bytes;
        if fits(self.head, self.tail, self.shared.bytes) {
            return Ok(());
        }
        // Acquire: pairs with the Release in `release`; the consumer has read the bytes to be overwritten.
        self.tail = self.shared.tail.0.load(Ordering::Acquire);
        if fits(self.head, self.tail, self.shared.bytes) {
            return Ok(());
        }
        Err(RingFull)
    }

    /// `order` is Release, or the flaw of a test.
    #[inline]
    fn publish(&mut self, order: Ordering) {
        if self.head == self.published {
            return;
        }
        self.published = self.head;
        // Release: pairs with the Acquire in `pop`; publishes the bytes, and the boxes sent before.
        self.shared.head.0.store(self.head, order);
        self.waker.wake();
    }

    fn has_new_space(&self) -> bool {
        let [tail, unboxed] =
            [&self.shared.tail, &self.shared.boxed].map(|count| count.0.load(Ordering::Relaxed));
        tail != self.tail || unboxed != self.unboxed
    }
}

#[derive(Debug)]
struct Consumer<M> {
    shared: Arc<Shared<M>>,
    tail: u64,
    released: u64,
    /// The producer's count when last read.
    head: u64,
    /// Bytes of all boxes received.
    boxed: u64,
    boxes: Receiver<Box<[u8]>>,
}

impl<M: Memory> Consumer<M> {
    #[inline]
    fn pop(&mut self, out: &mut Vec<u8>) -> bool {
        if self.tail == self.head {
            // Acquire: pairs with the Release in `publish`.
            self.head = self.shared.head.0.load(Ordering::Acquire);
            if self.tail == self.head {
                return false;
            }
        }
        let mut word = [0; WORD];
        self.shared.take(self.tail, &mut word);
        self.tail += WORD as u64;
        let len = u64::from_le_bytes(word);
        out.clear();
        if len == BOXED {
            self.pop_box(out);
            return true;
        }
        out.resize(len as usize, 0);
        self.shared.take(self.tail, out);
        self.tail += len.next_multiple_of(WORD as u64);
        true
    }

    #[cold]
    fn pop_box(&mut self, out: &mut Vec<u8>) {
        let sent = self.boxes.try_recv().expect("a box is sent before its word");
        self.boxed += sent.len() as u64;
        *out = sent.into();
    }

    #[inline]
    fn release(&mut self) {
        if self.tail == self.released {
            return;
        }
        self.released = self.tail;
        self.shared.boxed.0.store(self.boxed, Ordering::Release);
        // Release: pairs with the Acquire in `make_space`; the bytes read may be overwritten.
        self.shared.tail.0.store(self.tail, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use drover_base::Rng;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    fn quiet(bytes: usize) -> (RingProducer, RingConsumer) {
        ring(bytes, Waker::new(|| ())).expect("memory")
    }

    #[test]
    fn nothing_is_seen_or_woken_before_it_is_published() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counted = wakes.clone();
        let waker = Waker::new(move || _ = counted.fetch_add(1, Relaxed));
        let (mut producer, mut consumer) = ring(256, waker).expect("memory");
        let mut out = Vec::new();
        producer.publish();
        for byte in 0..3 {
            producer.push(&[&[byte], b"", b"xyz"]).expect("space");
        }
        assert!(!consumer.pop(&mut out) && wakes.load(Relaxed) == 0);
        producer.publish();
        producer.publish();
        assert_eq!(wakes.load(Relaxed), 1, "one wake for the batch");
        for byte in 0..3 {
            assert!(consumer.pop(&mut out));
            assert_eq!(out, [byte, b'x', b'y', b'z']);
        }
        assert!(!consumer.pop(&mut out));
    }

    #[test]
    fn a_full_ring_refuses_until_space_is_given_back() {
        let (mut producer, mut consumer) = quiet(64);
        let mut out = Vec::new();
        (0..4).for_each(|i| producer.push(&[&[i; 8]]).expect("space"));
        assert_eq!(producer.push(&[b""]), Err(RingFull));
        assert_eq!(
            producer.push(&[&[1; 1000]]),
            Err(RingFull),
            "the word of a box needs space"
        );
        producer.publish();
        assert!(consumer.pop(&mut out) && !producer.has_new_space());
        assert_eq!(producer.push(&[b""]), Err(RingFull));
        consumer.release();
        assert!(producer.has_new_space());
        assert_eq!(producer.push(&[b"abcdefgh"]), Ok(()));
    }

    #[test]
    fn a_long_message_goes_in_its_turn_and_many_wait() {
        let (mut producer, mut consumer) = quiet(256);
        let mut out = Vec::new();
        let huge = vec![7; 3 * BOXED_BYTES_MAX as usize];
        producer.push(&[b"before"]).expect("space");
        producer.push(&[b"head", &huge]).expect("one is never refused");
        assert_eq!(
            producer.push(&[&[1; 100]]),
            Err(RingFull),
            "so many bytes are under way"
        );
        producer.push(&[b"behind"]).expect("space");
        producer.publish();
        assert!(consumer.pop(&mut out) && out == b"before");
        assert!(consumer.pop(&mut out) && out.len() == huge.len() + 4 && out[..4] == *b"head");
        assert!(consumer.pop(&mut out) && out == b"behind");
        consumer.release();
        assert_eq!(producer.push(&[&[1; 100]]), Ok(()));
    }

    #[test]
    fn a_ring_whose_reader_is_gone_fills_up() {
        let (mut producer, consumer) = quiet(64);
        drop(consumer);
        assert_eq!(producer.push(&[&[0; 100]]), Err(RingFull));
        (0..4).for_each(|i| producer.push(&[&[i; 8]]).expect("space"));
        assert_eq!(producer.push(&[b""]), Err(RingFull));
    }

    #[test]
    #[should_panic(expected = "0 is no length of a ring")]
    fn a_ring_without_memory_is_a_bug_of_the_caller() {
        let _ = ring(0, Waker::new(|| ()));
    }

    #[test]
    fn between_threads_everything_arrives_once_and_in_order() {
        const COUNT: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let (mut producer, mut consumer) = quiet(512);
        let message = |i: u64| vec![i as u8; (i * 7 % 150) as usize];
        let sender = std::thread::spawn(move || {
            for i in 0..COUNT {
                while producer.push(&[&i.to_le_bytes(), &message(i)]).is_err() {
                    producer.publish();
                    std::thread::yield_now();
                }
                if i % 3 == 0 {
                    producer.publish();
                }
            }
            producer.publish();
        });
        let (mut out, mut next) = (Vec::new(), 0u64);
        while next < COUNT {
            if !consumer.pop(&mut out) {
                consumer.release();
                // A failed sender never sends: do not wait for it.
                assert!(
                    next < COUNT && (!sender.is_finished() || consumer.pop(&mut out)),
                    "lost"
                );
                if out.is_empty() {
                    std::thread::yield_now();
                    continue;
                }
            }
            assert_eq!(out[..8], next.to_le_bytes());
            assert_eq!(out[8..], message(next));
            next += 1;
            out.clear();
        }
        sender.join().expect("sender");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

        /// The model is a bounded queue: published messages come out, refused ones do not, wherever the ring wraps.
        #[test]
        fn a_ring_is_a_bounded_queue(seed in any::<u64>(), shift in 6u32..10) {
            let (mut producer, mut consumer) = quiet(1 << shift);
            let mut rng = Rng::new(seed, 0, 0);
            let (mut added, mut shown) = (VecDeque::new(), VecDeque::<Vec<u8>>::new());
            let (mut out, mut popped_since) = (Vec::new(), 0);
            for stamp in 0..if cfg!(miri) { 40 } else { 600u32 } {
                match rng.below(5) {
                    0 | 1 => {
                        let bytes = vec![stamp as u8; rng.below(1 << (shift - 1)) as usize];
                        let cut = rng.below(bytes.len() as u64 + 1) as usize;
                        if producer.push(&[&bytes[..cut], &bytes[cut..]]).is_ok() {
                            added.push_back(bytes);
                        } else {
                            prop_assert!(added.len() + shown.len() + popped_since > 0, "an empty ring refuses");
                        }
                    }
                    2 => {
                        producer.publish();
                        shown.append(&mut added);
                    }
                    3 => {
                        let popped = consumer.pop(&mut out).then(|| out.clone());
                        popped_since += usize::from(popped.is_some());
                        prop_assert_eq!(popped, shown.pop_front());
                    }
                    _ => {
                        consumer.release();
                        popped_since = 0;
                    }
                }
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::thread;

    /// Whole words only, for messages of one word.
    struct Words(Vec<AtomicU64>);

    impl Memory for Words {
        fn put(&self, at: usize, bytes: &[u8]) {
            for (i, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                self.0[at / 8 + i].store(u64::from_le_bytes(*word), Ordering::Relaxed);
            }
        }

        fn take(&self, at: usize, out: &mut [u8]) {
            for (i, word) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *word = self.0[at / 8 + i].load(Ordering::Relaxed).to_le_bytes();
            }
        }
    }

    /// Six messages of one word through a ring with space for four: two overwrite bytes already read. `early`: the
    /// consumer returns the space of a message before it reads it.
    fn pass(publish: Ordering, early: bool) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let memory = Words((0..8).map(|_| AtomicU64::new(0)).collect());
            let (mut producer, mut consumer) = ends(memory, 64, Waker::new(|| ()));
            let sender = thread::spawn(move || {
                for batch in [[1u64, 2], [3, 4], [5, 6]] {
                    for message in batch {
                        while producer.push(&[&message.to_le_bytes()]).is_err() {
                            thread::yield_now();
                        }
                    }
                    producer.publish(publish);
                }
            });
            let (mut out, mut next) = (Vec::new(), 1u64);
            while next <= 6 {
                if early && consumer.tail != consumer.head {
                    consumer
                        .shared
                        .tail
                        .0
                        .store(consumer.tail + 16, Ordering::Release);
                }
                if consumer.pop(&mut out) {
                    assert_eq!(out, next.to_le_bytes());
                    next += 1;
                    consumer.release();
                } else {
                    thread::yield_now();
                }
            }
            sender.join().expect("sender");
        });
    }

    #[test]
    fn loom_messages_arrive_whole_and_in_order() {
        pass(Ordering::Release, false);
    }

    #[test]
    #[should_panic]
    fn loom_a_head_that_publishes_nothing_is_caught() {
        pass(Ordering::Relaxed, false);
    }

    #[test]
    #[should_panic]
    fn loom_space_given_back_too_early_is_caught() {
        pass(Ordering::Release, true);
    }
}
