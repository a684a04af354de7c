//! `drover incr` and `decr`: numbers that many clients count with.

use super::keys::{Keys, KeysArgs, Reply};
use super::{Answer, ClientCommand, STATUSES, report_missing};
use clap::Args;
use drover_client::{Condition, Op};
use drover_kv::SystemTable;
use std::error::Error;

/// Arguments of `incr` and `decr`.
#[derive(Args)]
#[command(after_help = STATUSES)]
pub struct Count {
    /// Key of a value that is a decimal number, 0 to 2^64 - 1
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// By how much
    #[arg(default_value_t = 1)]
    amount: u64,
    /// Number to store if the key does not exist; without it that is a miss
    #[arg(long, value_name = "NUMBER")]
    initial: Option<u64>,
    /// Seconds until a number of --initial expires; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "initial")]
    ttl: u32,
    #[command(flatten)]
    at: KeysArgs,
}

/// Direction of a count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Add; 0 follows 2^64 - 1, as in memcached.
    Up,
    /// Subtract; the least is 0, as in memcached.
    Down,
}

impl ClientCommand for (Direction, &Count) {
    fn execute<T: SystemTable>(&self) -> Answer {
        let (direction, args) = *self;
        let mut keys = args.at.open::<T>()?;
        loop {
            let counted = keys.modify(&args.key, |old| {
                let number = number_in(old).ok_or_else(|| not_a_number(&args.key))?;
                Ok(direction.next(number, args.amount).to_string().into_bytes())
            })?;
            match (counted, args.initial) {
                (Some(text), _) => println!("{}", String::from_utf8_lossy(&text)),
                (None, None) => {
                    report_missing(&args.key);
                    return Ok(false);
                }
                (None, Some(initial)) if args.begin(&mut keys, initial)? => println!("{initial}"),
                // Another client was first: its number counts.
                (None, Some(_)) => continue,
            }
            return Ok(true);
        }
    }
}

impl Count {
    /// Stores the first number; whether it did, because there was none.
    fn begin(&self, keys: &mut Keys, initial: u64) -> Result<bool, Box<dyn Error>> {
        let reply = keys.one(&Op::Put {
            key: self.key.as_bytes(),
            value: initial.to_string().as_bytes(),
            ttl_s: self.ttl,
            flags: 0,
            condition: Condition::IfAbsent,
            keep: false,
        })?;
        Ok(reply == Reply::Done)
    }
}

impl Direction {
    fn next(self, number: u64, amount: u64) -> u64 {
        match self {
            Direction::Up => number.wrapping_add(amount),
            Direction::Down => number.saturating_sub(amount),
        }
    }
}

/// The number that a value is. Spaces may follow it: memcached's clients leave them when a number gets shorter.
fn number_in(value: &[u8]) -> Option<u64> {
    let text = value.trim_ascii_end();
    let is_decimal = text.iter().all(u8::is_ascii_digit);
    is_decimal.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

fn not_a_number(key: &str) -> String {
    format!(
        "the value of {} is no decimal number from 0 to {}: `drover set` it to one first",
        key.escape_debug(),
        u64::MAX
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_and_may_be_padded() {
        for (value, number) in [
            (&b"0"[..], Some(0)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"9 ", Some(9)),
            (b"", None),
            (b"+1", None),
            (b"1x", None),
            (b"\xff", None),
        ] {
            assert_eq!(number_in(value), number, "{value:?}");
        }
    }

    #[test]
    fn counts_end_as_those_of_memcached() {
        assert_eq!(Direction::Up.next(u64::MAX, 2), 1);
        assert_eq!(Direction::Down.next(1, 2), 0);
    }
}
