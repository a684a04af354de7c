//! Shrinks a stream that shows a difference to the fewest commands that do.

use super::command::Element;
use super::compare::Mismatch;
use std::io;

/// Maximum number of plays: an intermittent difference shrinks badly.
const PLAYS_MAX: usize = 1000;

/// Removes commands from `elements`, first many at a time, then ever fewer, as long as `play` still finds a difference
/// with the rest; `mismatch` is the difference with all. Returns the rest and its difference. Ends of batches stay,
/// because some commands must not share a batch; empty batches are removed at the end. Calls `play` up to about a
/// thousand times.
///
/// # Errors
/// The first error of `play`.
pub fn shrink(
    elements: Vec<Element>,
    mismatch: Mismatch,
    mut play: impl FnMut(&[Element]) -> io::Result<Option<Mismatch>>,
) -> io::Result<(Vec<Element>, Mismatch)> {
    let (mut kept, mut shown) = (elements, mismatch);
    let mut piece = kept.len().div_ceil(2);
    let mut plays = 0;
    while piece > 0 {
        let (mut at, before) = (0, kept.len());
        while at < kept.len() && plays < PLAYS_MAX {
            plays += 1;
            let end = (at + piece).min(kept.len());
            let ends = kept[at..end].iter().filter(|element| !element.is_command());
            let without = kept[..at].iter().chain(ends).chain(&kept[end..]);
            let without: Vec<Element> = without.cloned().collect();
            let after = at + without.len() - (kept.len() - (end - at));
            at = match without.len() < kept.len() {
                false => end,
                true => match play(&without)? {
                    Some(mismatch) => {
                        (kept, shown) = (without, mismatch);
                        after
                    }
                    None => end,
                },
            };
        }
        // After removals of single commands, others may have become unneeded.
        if piece > 1 || kept.len() == before || plays == PLAYS_MAX {
            piece /= 2;
        }
    }
    let mut without = kept.clone();
    let mut is_empty = true;
    without
        .retain(|element| !std::mem::replace(&mut is_empty, !element.is_command()) || element.is_command());
    match play(&without)? {
        Some(mismatch) => Ok((without, mismatch)),
        None => Ok((kept, shown)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::{Command, Piece};
    use super::*;

    fn command(n: u32) -> Element {
        Element::Command(Command {
            words: vec![Piece::Text(n.to_string().into_bytes())],
            gap: " ",
            ending: "\r\n",
            body: None,
        })
    }

    #[test]
    fn only_what_matters_stays() {
        let all: Vec<Element> = (0..1000).map(command).collect();
        let needed = [command(17), command(503), command(998)];
        let mismatch = Mismatch::new(b"a", b"b");
        let mut plays = 0;
        let (kept, _) = shrink(all, mismatch.clone(), |some| {
            plays += 1;
            Ok(needed
                .iter()
                .all(|one| some.contains(one))
                .then(|| mismatch.clone()))
        })
        .expect("nothing fails");
        assert_eq!(kept, needed);
        assert!(plays < 200, "{plays} plays");
    }
}
