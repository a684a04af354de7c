//! Arbitrary messages to a core of a service's member, as other cores, members that hand shards over and members that keep copies send them.

mod bed;
mod replies;

use crate::input::Input;
use bed::Bed;
use drover_memcached::Source;

/// Checks that a core of a member with replicas survives any messages, and that the replies are what their kinds promise. Input: pieces of a byte
/// that says what happens, a length (2 bytes, little-endian), and so many bytes: a message of another member for copies (0), of another core (1) or
/// over a link (2); or the reply to the copy under way (3; without bytes: that copy is lost), before the core sends what has changed.
pub fn messages(input: &[u8]) {
    let (mut bed, mut input) = (Bed::new(0), Input::new(input));
    while !input.is_empty() {
        let what = input.byte() % 4;
        let len = usize::from(u16::from_le_bytes(input.array()));
        let bytes = input.take(len);
        let source = match what {
            0 => Source::Copies,
            1 => Source::Core(1),
            2 => Source::Link(7),
            _ => {
                bed.end_copy(Some(bytes).filter(|reply| !reply.is_empty()));
                bed.step_copies();
                continue;
            }
        };
        replies::check(bytes, &bed.serve(source, bytes));
    }
    bed.end_copy(None);
    bed.step_copies();
}
