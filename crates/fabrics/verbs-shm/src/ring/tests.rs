//! The ring against a `VecDeque`, against hostile memory, and under loom.

use super::*;
use drover_base::sync::{Arc, AtomicU64};

/// The words of a lane, and the number of lines prefetched.
#[derive(Clone)]
struct Words(Arc<Vec<AtomicU64>>, Arc<AtomicU64>);

impl Words {
    fn new(geometry: Geometry) -> Words {
        let words = (0..geometry.bytes() / 8).map(|_| AtomicU64::new(0));
        Words(Arc::new(words.collect()), Arc::new(AtomicU64::new(0)))
    }
}

impl Memory for Words {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0[word].load(order)
    }
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.0[word].store(value, order);
    }
    fn prefetch(&self, word: usize) {
        assert!(word < self.0.len(), "asked for word {word}");
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

fn ring(shift: u32) -> (Words, Producer<Words>, Consumer<Words>) {
    let geometry = Geometry::new(shift, 0).expect("within limits");
    let words = Words::new(geometry);
    let producer = Producer::new(words.clone(), geometry);
    (words.clone(), producer, Consumer::new(words, geometry))
}

/// Message `number` of `len` bytes.
fn message(number: u64, len: usize) -> (Head, Vec<u8>) {
    let head = Head {
        len,
        flags: Head::IMM,
        imm: number as u32,
        src_qpn: !number as u32,
        qkey: 7,
        following: number as u32 % 3,
    };
    (head, (0..len as u64).map(|i| (number * 31 + i) as u8).collect())
}

/// The bytes of the peeked message, read word by word.
fn payload(consumer: &Consumer<Words>, head: Head) -> Vec<u8> {
    let mut out = vec![0; head.len];
    consumer.payload(head, |memory, at, to, n| {
        for (i, byte) in out[to..to + n].iter_mut().enumerate() {
            *byte = (memory.load((at + i) / 8, Ordering::Relaxed) >> ((at + i) % 8 * 8)) as u8;
        }
    });
    out
}

#[cfg(not(loom))]
mod plain {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn agrees_with_a_queue(
            steps in proptest::collection::vec((any::<bool>(), 0usize..208), 1..300),
            start in 0u64..3,
        ) {
            let (_, producer, mut consumer) = ring(3);
            let mut model: VecDeque<(Head, Vec<u8>)> = VecDeque::new();
            let mut lines = 0;
            for (number, &(push, len)) in steps.iter().enumerate() {
                if push {
                    let (head, bytes) = message(start + number as u64, len);
                    if producer.push(head, &bytes) {
                        lines += lines_of(len);
                        prop_assert!(lines <= 8, "overwrote a message");
                        model.push_back((head, bytes));
                    } else {
                        // The producer may not yet know about free lines of less than a quarter ring.
                        prop_assert!(lines + lines_of(len) + 2 > 8, "refused with {} lines in use", lines);
                    }
                    continue;
                }
                let seen = consumer.peek().expect("an honest producer");
                prop_assert_eq!(seen, model.front().map(|(head, _)| *head));
                if let (Some(head), Some((_, bytes))) = (seen, model.pop_front()) {
                    prop_assert_eq!(payload(&consumer, head), bytes);
                    lines -= lines_of(head.len);
                    consumer.advance(head);
                }
            }
        }

        /// Arbitrary values in any word at any time cause no panic and no access outside (the model's index would
        /// panic).
        #[test]
        fn hostile_words_harm_nobody(
            steps in proptest::collection::vec((0usize..96, any::<u64>(), 0u8..4), 1..200),
        ) {
            let (words, producer, mut consumer) = ring(3);
            for (number, (word, value, kind)) in steps.into_iter().enumerate() {
                let (at, lap) = consumer.next();
                match kind {
                    0 => words.store(word % words.0.len(), value, Ordering::Relaxed),
                    // A tag that the consumer reads.
                    1 => words.store(at, u64::from(lap) | value << 32, Ordering::Relaxed),
                    2 => {
                        let (head, bytes) = message(number as u64, value as usize % 208);
                        producer.push(head, &bytes);
                    }
                    _ => {}
                }
                if let Ok(Some(head)) = consumer.peek() {
                    prop_assert_eq!(payload(&consumer, head).len(), head.len);
                    consumer.advance(head);
                }
            }
        }
    }

    /// A run has space up to the end of the ring, or of the lines that are free; each message is as if sent alone.
    #[test]
    fn a_run_ends_with_the_space_or_with_the_ring() {
        let (_, producer, mut consumer) = ring(2);
        let all: Vec<_> = (0..12).map(|number| message(number, FIRST_BYTES)).collect();
        let send = |from: usize, count: usize| {
            let mut run = producer.run(count);
            for (head, bytes) in &all[from..][..run.space()] {
                run.put(*head, bytes[..].try_into().expect("a line's payload"));
            }
            producer.end_run(run)
        };
        assert_eq!(send(0, 3), 3, "no more messages");
        assert_eq!(send(3, 6), 1, "no more space");
        assert_eq!(send(4, 1), 0);
        let mut taken = 0;
        for (head, bytes) in &all[..8] {
            assert_eq!(consumer.peek(), Ok(Some(*head)));
            assert_eq!(&payload(&consumer, *head), bytes);
            consumer.advance(*head);
            taken += 1;
            match taken {
                2 => assert_eq!(send(4, 4), 2, "two lines are free"),
                4 => assert_eq!(send(6, 4), 2, "the ring ends"),
                _ => {}
            }
        }
        assert_eq!(consumer.peek(), Ok(None));
        assert_eq!(send(8, 4), 4, "around the end");
    }

    /// Before RECVs are posted: messages need not be taken as long as there is a RECV for each.
    #[test]
    fn how_many_messages_there_are_at_most_takes_one_look() {
        for (len, lines) in [(8, 1), (FIRST_BYTES + 1, 2)] {
            let (_, producer, mut consumer) = ring(4);
            for lap in 0..3 {
                for sent in 0..5 {
                    let counts = (0..20).filter(|&count| consumer.holds_at_most(count));
                    assert_eq!(
                        counts.min(),
                        Some(sent * lines),
                        "lap {lap}, {sent} of {len} bytes"
                    );
                    let (head, bytes) = message(sent, len);
                    assert!(producer.push(head, &bytes));
                }
                while let Ok(Some(head)) = consumer.peek() {
                    consumer.advance(head);
                }
            }
        }
    }

    /// A sender's announcement of further messages is only a hint for prefetching: it may be false.
    #[test]
    fn a_hostile_announcement_asks_for_few_lines() {
        let (words, producer, consumer) = ring(6);
        let asked = || words.1.load(Ordering::Relaxed);
        for number in 0..4 {
            let (head, bytes) = message(number, 8);
            let following = u32::MAX;
            assert!(producer.push(Head { following, ..head }, &bytes));
        }
        let mut run = consumer.run();
        for number in 0..4 {
            let (_, head) = run.peek_plain().expect("a plain message");
            assert_eq!(head.imm, number);
            assert_eq!(asked(), u64::from(FOLLOWING_MAX), "once for all: {number} later");
            run.next_plain();
        }
        assert!(run.peek_plain().is_none());
    }

    /// Lines that are asked for beyond the end of the ring are those at its begin, which the test's memory checks.
    #[test]
    fn runs_end_with_the_ring_and_go_on_at_its_begin() {
        let (words, producer, mut consumer) = ring(3);
        for from in (0..60).step_by(5) {
            for number in from..from + 5 {
                let (head, bytes) = message(number, 16);
                let following = (from + 4 - number) as u32;
                assert!(producer.push(Head { following, ..head }, &bytes));
            }
            let mut number = from;
            while number < from + 5 {
                let mut run = consumer.run();
                let left = (from + 5 - number).min(run.space() as u64);
                assert!(left > 0 && run.space() <= 8);
                for _ in 0..left {
                    let (_, head) = run.peek_plain().expect("a plain message");
                    assert_eq!(u64::from(head.imm), number);
                    run.next_plain();
                    number += 1;
                }
                let end = run.end();
                consumer.end_run(end);
            }
        }
        assert!(
            words.1.load(Ordering::Relaxed) >= 12 * 4,
            "each list was asked for"
        );
    }

    #[test]
    fn short_tails_become_words() {
        for len in 0..8u8 {
            let bytes: Vec<u8> = (1..=len).collect();
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(&bytes);
            assert_eq!(partial_word(&bytes), u64::from_le_bytes(word));
        }
    }
}

#[cfg(loom)]
mod modelled {
    use super::*;

    /// Four messages, three of them of two lines, through a ring of four lines: it wraps, and the producer waits for
    /// space. Two preemptions, as in the other models.
    const MESSAGES: [(u64, usize); 4] = [(1, 41), (2, 0), (3, 41), (4, 41)];

    fn exchange(consume: impl Fn(&mut Consumer<Words>, Head) + Sync + Send + Copy + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let (_, producer, mut consumer) = ring(2);
            let sender = loom::thread::spawn(move || {
                for (number, len) in MESSAGES {
                    let (head, bytes) = message(number, len);
                    while !producer.push(head, &bytes) {
                        loom::thread::yield_now();
                    }
                }
            });
            for (number, len) in MESSAGES {
                let seen = loop {
                    match consumer.peek().expect("an honest producer") {
                        Some(head) => break head,
                        None => {
                            let (word, lap) = consumer.next();
                            let found = consumer.memory().load(word, Ordering::Relaxed) as u32;
                            assert!(found <= lap, "a message was overwritten before it was read");
                            loom::thread::yield_now();
                        }
                    }
                };
                let (head, bytes) = message(number, len);
                assert_eq!(seen, head, "a message was overwritten before it was read");
                assert_eq!(payload(&consumer, seen), bytes);
                consume(&mut consumer, seen);
            }
            sender.join().expect("the sender");
        });
    }

    #[test]
    fn loom_messages_arrive_whole_and_in_order() {
        exchange(|consumer, head| {
            consumer.advance(head);
        });
    }

    /// The canary: lines freed before they were read are overwritten, and the model detects it.
    #[test]
    #[should_panic(expected = "overwritten before it was read")]
    fn loom_lines_freed_too_early_are_caught() {
        exchange(|consumer, head| {
            consumer.memory().store(CONSUMED, 3, Ordering::Release);
            consumer.advance(head);
        });
    }
}
