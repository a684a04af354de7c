//! [`Note`]: what a client tells on its standard output, a line per event, before and after each operation: of a client
//! that is killed, everything it had begun is known.

use drover_testkit::history::Call;
use std::fmt;

/// One line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// Operation `token` on `key` of `phase` begins. Of a GET or DELETE, what came of it is not yet known.
    Begun {
        token: u64,
        phase: u64,
        key: u64,
        call: Call,
        at: u64,
    },
    /// It has ended, so.
    Done { token: u64, end: End, at: u64 },
}

/// What came of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A GET found this value.
    Value(u64),
    /// A GET or DELETE found nothing.
    Nothing,
    /// A PUT or DELETE took effect.
    Effect,
    /// Nobody knows.
    Unknown,
    /// Nothing was done.
    Refused,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Begun {
                token,
                phase,
                key,
                call,
                at,
            } => {
                let (word, id) = match call {
                    Call::Put(id) => ("put", *id),
                    Call::Delete(_) => ("delete", 0),
                    Call::Get(_) => ("get", 0),
                    other => unreachable!("no process calls {other:?}"),
                };
                write!(f, "begun {token} {phase} {key} {word} {id} {at}")
            }
            Note::Done { token, end, at } => {
                let (word, id) = match end {
                    End::Value(id) => ("value", *id),
                    End::Nothing => ("nothing", 0),
                    End::Effect => ("effect", 0),
                    End::Unknown => ("unknown", 0),
                    End::Refused => ("refused", 0),
                };
                write!(f, "done {token} {word} {id} {at}")
            }
        }
    }
}

impl Note {
    /// Reads a line; `None` if it is cut short, as the last line of a killed process may be, or something else.
    pub fn read(line: &str) -> Option<Note> {
        let words: Vec<&str> = line.strip_suffix('\n')?.split(' ').collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        match *words.first()? {
            "begun" => Some(Note::Begun {
                token: number(1)?,
                phase: number(2)?,
                key: number(3)?,
                call: match *words.get(4)? {
                    "put" => Call::Put(number(5)?),
                    "delete" => Call::Delete(None),
                    "get" => Call::Get(None),
                    _ => return None,
                },
                at: number(6)?,
            }),
            "done" => Some(Note::Done {
                token: number(1)?,
                end: match *words.get(2)? {
                    "value" => End::Value(number(3)?),
                    "nothing" => End::Nothing,
                    "effect" => End::Effect,
                    "unknown" => End::Unknown,
                    "refused" => End::Refused,
                    _ => return None,
                },
                at: number(4)?,
            }),
            _ => None,
        }
    }
}
