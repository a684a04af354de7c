//! Comparison of two servers' answers.

use super::reply::{self, Reply, Token, WireKey};
use std::collections::BTreeMap;
use std::fmt;

/// A known difference between memcached and drover that is no bug.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// What differs, or what streams avoid because it would differ.
    pub what: &'static str,
    /// Reason for the difference.
    pub why: &'static str,
}

/// All known differences, which the comparison tolerates or streams avoid; any other difference is a bug.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "versions (CAS) are other numbers",
        why: "each server counts its own, and drover on each core; of a key the same must stand for the same, and never for two",
    },
    Difference {
        what: "the version of one key is not drawn as a condition on another key",
        why: "memcached orders the versions of all keys; drover only those of keys on the same core, and two cores use the same numbers",
    },
    Difference {
        what: "seconds left by one",
        why: "both count whole seconds, from moments of their own",
    },
    Difference {
        what: "seconds left until a moment are more in memcached, as many as it started late",
        why: "memcached reads the wall clock when it starts, and counts from when it is ready: seconds later on a busy machine",
    },
    Difference {
        what: "seconds since the last access, and an access that drover does not show",
        why: "drover records no access to items of classic commands, memcached without its LRU thread one a minute",
    },
    Difference {
        what: "the sign of exp of `me`",
        why: "memcached 1.6.18 shows seconds left as negative numbers, newer ones as positive ones; so its -1 is for ever or a second",
    },
    Difference {
        what: "cls and size of `me`",
        why: "where an item lies, and what it costs there, is each server's own",
    },
    Difference {
        what: "get with too long a key is drawn only where no answers are outstanding",
        why: "memcached then forgets answers to earlier commands that it has not sent yet; which, depends on timing",
    },
    Difference {
        what: "keys in base64 are not drawn with N, with MA or MP, nor counted up",
        why: "memcached 1.6.18 then forgets how the key was written, and shows the bytes themselves",
    },
    Difference {
        what: "values of blanks alone, and minus signs in numbers, are not drawn",
        why: "counting them memcached looks for digits, and for the sign, behind the value in whatever lay there before; for the sign also behind other numbers from 2^63 on, so it runs with unused space in each item",
    },
    Difference {
        what: "numbers are not counted and read in one batch",
        why: "memcached counts in place, or in a new item, depending on whether the old one is being sent, or its LRU thread has it; so it runs without that thread",
    },
    Difference {
        what: "T of ma is drawn with numbers that fall",
        why: "one that grows out of its place is a new item, and memcached gives the time to live to the old one; drover to the new",
    },
    Difference {
        what: "E, x (of ms, md, ma) are not drawn",
        why: "memcached 1.6.18 does not know them; newer versions do, and drover has its own tests",
    },
    Difference {
        what: "times to live of a few seconds are not drawn",
        why: "when they end within a stream is a matter of chance; memcached's own suite tests them",
    },
    Difference {
        what: "flush_all with a delay is not drawn",
        why: "memcached 1.6.18 then shows again what an earlier flush_all emptied, unless a thread has already collected it",
    },
    Difference {
        what: "lines without an end that are no get or gets are shorter than 2 KiB",
        why: "memcached closes the connection on longer ones without a reply; drover does at 16 KiB, with a reason",
    },
    Difference {
        what: "cache_memlimit is drawn with the size that both have",
        why: "drover refuses more than it was started with, and less than half of that, as out of bounds",
    },
    Difference {
        what: "version, stats that succeed, watch, dumps, lru and slabs with arguments, shutdown are not drawn",
        why: "what they say is about the server itself; memcached's own suite asks for what must be in it",
    },
];

/// State of a comparison: which versions (CAS) of the two servers have been found to correspond, and how far their
/// clocks may differ.
#[derive(Clone, Default, Debug)]
pub struct Relation {
    /// Extra seconds that the left server may show for times until a fixed moment.
    late_s: i64,
    /// Versions of the left server, mapped to the right one's.
    left: BTreeMap<u64, u64>,
    /// Versions of the left server, by key and version of the right one.
    right: BTreeMap<(WireKey, u64), u64>,
}

impl Relation {
    /// Creates a relation without versions. Where answers show the seconds left until a fixed moment, those of the left
    /// server, memcached, may be up to `late_s` more.
    pub fn new(late_s: i64) -> Relation {
        Relation {
            late_s,
            ..Relation::default()
        }
    }

    fn agree(&mut self, key: Option<&WireKey>, left: u64, right: u64) -> bool {
        let known = key.is_none_or(|key| *self.right.entry((key.clone(), right)).or_insert(left) == left);
        *self.left.entry(left).or_insert(right) == right && known
    }

    /// Whether two remaining times correspond.
    fn is_near(&self, left: i64, right: i64, slack_s: i64) -> bool {
        (-slack_s..=self.late_s + slack_s).contains(&(left - right))
    }
}

/// The first two answers that differ, each cut after 240 bytes and escaped as text; `(nothing)` for a missing one, or
/// `(closed)` and `(open)` if only one server closed the connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Answer of the left server, memcached.
    pub left: String,
    /// Answer of the right server.
    pub right: String,
    /// Whether the two answers differ only in numbers of seconds. This also happens without a bug, if a server gets no
    /// processor time for some seconds.
    pub only_seconds: bool,
}

impl Mismatch {
    /// Whether the right server failed: it answered with a failure, fell silent, or closed the connection.
    pub fn is_failure(&self) -> bool {
        self.right.starts_with("SERVER_ERROR") || ["(nothing)", "(closed)"].contains(&self.right.as_str())
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "    {}\n    {}", self.left, self.right)
    }
}

/// Maximum bytes of an answer to show.
const SHOWN: usize = 240;

impl Mismatch {
    /// Creates a mismatch between two answers, with `only_seconds` false.
    pub fn new(left: &[u8], right: &[u8]) -> Mismatch {
        let text = |bytes: &[u8]| match bytes {
            b"" => "(nothing)".to_string(),
            _ => bytes
                .iter()
                .take(SHOWN)
                .flat_map(|b| b.escape_ascii())
                .map(char::from)
                .collect(),
        };
        Mismatch {
            left: text(left),
            right: text(right),
            only_seconds: false,
        }
    }
}

/// Compares the answers of two servers, of which `left` is memcached. Returns the first mismatch that [`DIFFERENCES`]
/// do not allow, or `None`. Adds to `relation` which versions correspond; later answers must agree with that.
pub fn compare(mut left: &[u8], mut right: &[u8], relation: &mut Relation) -> Option<Mismatch> {
    loop {
        match (reply::next(&mut left), reply::next(&mut right)) {
            (None, None) => return None,
            (Some(a), Some(b)) if same(&a, &b, relation, SLACK_S) => {}
            (Some(a), Some(b)) => {
                return Some(Mismatch {
                    only_seconds: same(&a, &b, relation, i64::from(u32::MAX)),
                    ..Mismatch::new(a.bytes, b.bytes)
                });
            }
            (a, b) => {
                let bytes = |reply: Option<Reply<'_>>| reply.map_or(Vec::new(), |reply| reply.bytes.to_vec());
                return Some(Mismatch::new(&bytes(a), &bytes(b)));
            }
        }
    }
}

/// A value that is not a number of seconds.
const FOR_EVER: i64 = -1;
/// Difference between two clocks of whole seconds.
const SLACK_S: i64 = 1;

/// Whether two answers are equivalent, if clocks may differ by `slack_s`.
fn same(left: &Reply<'_>, right: &Reply<'_>, relation: &mut Relation, slack_s: i64) -> bool {
    left.tokens.len() == right.tokens.len()
        && left.tokens.iter().zip(&right.tokens).all(|(a, b)| match (a, b) {
            (Token::Cas(a), Token::Cas(b)) => relation.agree(right.key.as_ref(), *a, *b),
            (Token::Seconds(a), Token::Seconds(b)) => {
                a == b || ![*a, *b].contains(&FOR_EVER) && relation.is_near(*a, *b, slack_s)
            }
            (Token::Fetched(memcached), Token::Fetched(drover)) => *memcached || !drover,
            (Token::Left(a), Token::Left(b)) => left_alike(*a, *b, relation, slack_s),
            (Token::Specific, _) | (_, Token::Specific) => true,
            _ => a == b,
        })
}

/// Whether remaining times of `me` correspond: signs are ignored, they may differ by `slack_s`, and -1 may be one
/// second if the other time is that near.
fn left_alike(a: i64, b: i64, relation: &Relation, slack_s: i64) -> bool {
    match (a, b) {
        (FOR_EVER, few) | (few, FOR_EVER) => (FOR_EVER..=1 + SLACK_S).contains(&few),
        _ => relation.is_near(a.abs(), b.abs(), slack_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differ(left: &str, right: &str) -> bool {
        compare(left.as_bytes(), right.as_bytes(), &mut Relation::default()).is_some()
    }

    #[test]
    fn versions_must_pair_up_one_to_one() {
        assert!(!differ(
            "HD c1\r\nHD c2\r\nHD c1 ka\r\nHD c2 kb\r\n",
            "HD c7\r\nHD c7\r\nHD c7 ka\r\nHD c7 kb\r\n"
        ));
        assert!(
            differ("HD c1 ka\r\nHD c2 ka\r\n", "HD c7 ka\r\nHD c7 ka\r\n"),
            "one version for two"
        );
        assert!(
            differ("HD c1\r\nHD c1\r\n", "HD c7\r\nHD c8\r\n"),
            "two versions for one"
        );
    }

    #[test]
    fn seconds_may_be_off_by_one_but_not_for_ever() {
        assert!(!differ("HD t99\r\n", "HD t100\r\n"));
        assert!(differ("HD t98\r\n", "HD t100\r\n"));
        assert!(differ("HD t-1\r\n", "HD t0\r\n"));
        let me = |exp: i64| format!("ME k exp={exp} la=3\r\n");
        assert!(!differ(&me(-99), &me(100)) && differ(&me(-98), &me(100)));
        assert!(!differ(&me(-1), &me(-1)) && !differ(&me(-1), &me(2)) && differ(&me(-1), &me(3)));
    }

    #[test]
    fn differences_of_nothing_but_seconds_are_told_apart() {
        let only_seconds = |left: &str, right: &str| {
            let mismatch = compare(left.as_bytes(), right.as_bytes(), &mut Relation::default());
            mismatch.expect("they differ").only_seconds
        };
        assert!(only_seconds("HD t90 l0\r\n", "HD t95 l9\r\n"));
        assert!(!only_seconds("HD t90 s1\r\n", "HD t95 s2\r\n"));
        assert!(!only_seconds("HD t-1\r\n", "HD t95\r\n"));
        assert!(!only_seconds("HD t90\r\n", "EN\r\n"));
    }

    #[test]
    fn accesses_may_be_unknown_to_drover_only() {
        assert!(!differ("HD l2\r\n", "HD l900\r\n") && !differ("ME k la=9\r\n", "ME k la=900\r\n"));
        assert!(!differ("HD h1\r\n", "HD h0\r\n") && differ("HD h0\r\n", "HD h1\r\n"));
        assert!(!differ("ME k fetch=yes\r\n", "ME k fetch=no\r\n"));
        assert!(differ("ME k fetch=no\r\n", "ME k fetch=yes\r\n"));
    }

    /// Two items on two cores whose versions happen to be the same number.
    #[test]
    fn a_key_in_base64_is_another_one_than_the_same_letters() {
        assert!(!differ(
            "HD c1 kAAAA\r\nHD c2 kAAAA b\r\n",
            "HD c7 kAAAA\r\nHD c7 kAAAA b\r\n"
        ));
    }

    #[test]
    fn memcached_may_have_begun_to_count_late_and_no_other() {
        let differ = |left: &str, right: &str| {
            compare(left.as_bytes(), right.as_bytes(), &mut Relation::new(3)).is_some()
        };
        assert!(!differ("HD t104\r\n", "HD t100\r\n") && differ("HD t105\r\n", "HD t100\r\n"));
        assert!(!differ("HD t99\r\n", "HD t100\r\n") && differ("HD t98\r\n", "HD t100\r\n"));
        assert!(!differ("ME k exp=-104\r\n", "ME k exp=100\r\n"));
    }

    #[test]
    fn everything_else_must_be_the_same() {
        assert!(differ("STORED\r\n", "NOT_STORED\r\n"));
        assert!(differ("STORED\r\n", ""));
        assert!(differ(
            "VALUE k 0 3\r\n9  \r\nEND\r\n",
            "VALUE k 0 1\r\n9\r\nEND\r\n"
        ));
        assert!(differ(
            "VALUE k 0 3\r\n9  \r\nEND\r\n",
            "VALUE k 0 1\r\n8\r\nEND\r\n"
        ));
        assert!(differ(
            "VALUE k 0 2\r\nab\r\nEND\r\n",
            "VALUE k 0 2\r\nac\r\nEND\r\n"
        ));
        assert!(differ("VALUE k 0 1\r\na\r\n", "VALUE k 1 1\r\na\r\n"));
        assert!(differ("HD Oa\r\n", "HD Ob\r\n"));
        assert!(!differ(
            "ME k cls=1 size=9 fetch=no\r\n",
            "ME k cls=4 size=7 fetch=no\r\n"
        ));
    }
}
