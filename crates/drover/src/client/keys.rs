//! Where keys are: at a server, or in a pool of memory nodes. Both execute the same operations.

use super::server::ServerArgs;
use crate::pool::{KeysOfPool, PoolNodes, TooLarge};
use clap::Args;
use drover_client::{CallError, Client, Condition, Item, Op, Outcome, Refusal, SizeLimits, SubmitError};
use drover_kv::SystemTable;
use std::error::Error;

/// Options that select where the keys are.
#[derive(Args)]
pub struct KeysArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pool: KeysOfPool,
}

/// Where the keys of a command are.
pub enum Keys {
    /// At a server, whose client this is.
    Server(Client),
    /// In a pool, which is entered for each list of operations.
    Pool(Box<PoolNodes>),
}

/// What came of an operation that did not fail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A GET's item. Its version and flags are 0 if the operation did not ask for them.
    Found(Item),
    /// The update was done.
    Done,
    /// The key does not exist.
    NotFound,
    /// The key exists, and must not, or has another version.
    Exists,
}

impl KeysArgs {
    /// Reaches the server; a pool is entered later.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the client.
    pub fn open<T: SystemTable>(&self) -> Result<Keys, Box<dyn Error>> {
        let server = &self.server;
        match self.pool.nodes(server.timeout_ms, &server.access, &server.device) {
            Some(nodes) => Ok(Keys::Pool(Box::new(nodes))),
            None => server.connect::<T>().map(Keys::Server),
        }
    }
}

impl Keys {
    /// Executes one operation.
    ///
    /// # Errors
    /// As [`execute`](Keys::execute).
    pub fn one(&mut self, op: &Op<'_>) -> Result<Reply, Box<dyn Error>> {
        let replies = self.execute(std::slice::from_ref(op))?;
        Ok(replies.into_iter().next().expect("a reply to each operation"))
    }

    /// Executes `ops` and returns their replies in the same order.
    ///
    /// # Errors
    /// The first failure.
    pub fn execute(&mut self, ops: &[Op<'_>]) -> Result<Vec<Reply>, Box<dyn Error>> {
        match self {
            Keys::Server(client) => ask(client, ops),
            Keys::Pool(nodes) => match nodes.execute(ops)? {
                Ok(answers) => {
                    let replies = answers
                        .iter()
                        .map(|(answer, value)| reply_of(answer.outcome(value, true)));
                    Ok(replies.collect::<Result<_, _>>()?)
                }
                Err(TooLarge { index, limits }) => {
                    Err(too_large(&ops[index], &limits, "the tables of this pool take", "").into())
                }
            },
        }
    }

    /// Replaces the value of `key` by what `change` makes of it, and begins anew if another client was faster. Expiry and
    /// flags stay. Returns the new value; `None` if the key does not exist.
    ///
    /// # Errors
    /// As [`execute`](Keys::execute), or that of `change`.
    pub fn modify(
        &mut self,
        key: &str,
        change: impl Fn(&[u8]) -> Result<Vec<u8>, String>,
    ) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
        let key = key.as_bytes();
        loop {
            let Reply::Found(item) = self.one(&Op::GetItem { key })? else {
                return Ok(None);
            };
            let value = change(&item.value)?;
            let reply = self.one(&Op::Put {
                key,
                value: &value,
                ttl_s: 0,
                flags: 0,
                condition: Condition::IfVersion(item.version),
                keep: true,
            })?;
            if reply == Reply::Done {
                return Ok(Some(value));
            }
        }
    }
}

fn ask(client: &mut Client, ops: &[Op<'_>]) -> Result<Vec<Reply>, Box<dyn Error>> {
    let mut replies: Vec<Option<Result<Reply, CallError>>> = vec![None; ops.len()];
    let submitted = client.execute(ops, |i, outcome| replies[i] = Some(reply_of(outcome)));
    for (op, reply) in ops.iter().zip(&replies) {
        let failure = match (reply, &submitted) {
            (Some(Ok(_)), _) => continue,
            (Some(Err(error)), _) | (None, Err(error)) => *error,
            (None, Ok(())) => unreachable!("an outcome for each operation"),
        };
        return Err(text_of(failure, op, client.size_limits(op)).into());
    }
    let replies = replies.into_iter().flatten();
    Ok(replies.collect::<Result<_, _>>()?)
}

fn reply_of(outcome: Outcome<'_>) -> Result<Reply, CallError> {
    let item = |value: &[u8], version, flags| {
        Reply::Found(Item {
            value: value.to_vec(),
            version,
            flags,
        })
    };
    match outcome {
        Outcome::Value(value) => Ok(item(value, 0, 0)),
        Outcome::Found {
            value,
            version,
            flags,
        } => Ok(item(value, version, flags)),
        Outcome::Exists => Ok(Reply::Exists),
        other => Ok(match other.found()? {
            true => Reply::Done,
            false => Reply::NotFound,
        }),
    }
}

/// What a user reads of a failure: with the limit, if one was passed.
fn text_of(error: CallError, op: &Op<'_>, limits: Option<SizeLimits>) -> String {
    match (error, limits) {
        (CallError::Submit(SubmitError::BadKey), _) => {
            format!("{error}; this one has {}", op.key().len())
        }
        (CallError::Submit(SubmitError::TooLarge) | CallError::Refused(Refusal::TooLarge), Some(limits)) => {
            let flag = match op.key().len() > limits.key_bytes {
                true => ": serve --slot-bytes-max",
                false => ": serve -I",
            };
            too_large(op, &limits, "this server takes", flag)
        }
        _ => error.to_string(),
    }
}

/// Names the limit that `op` has passed. `flag`: what raises it.
fn too_large(op: &Op<'_>, limits: &SizeLimits, taker: &str, flag: &str) -> String {
    let (what, bytes, most) = match op.key().len() > limits.key_bytes {
        true => ("key", op.key().len(), limits.key_bytes),
        false => ("value", op.value().len(), limits.value_bytes),
    };
    let (bytes, most) = (with_commas(bytes), with_commas(most));
    format!("{what} of {bytes} B; {taker} {most}{flag}")
}

/// The number with a comma before each group of three digits.
fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three_digits() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_048_576, "1,048,576"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(with_commas(number), text);
        }
    }

    #[test]
    fn a_limit_that_was_passed_is_named() {
        let limits = SizeLimits {
            key_bytes: 216,
            value_bytes: 1_048_576,
        };
        let value = vec![0; 2_000_000];
        let too_large = CallError::Refused(Refusal::TooLarge);
        assert_eq!(
            text_of(too_large, &Op::put(b"k", &value), Some(limits)),
            "value of 2,000,000 B; this server takes 1,048,576: serve -I"
        );
        let key = [b'k'; 250];
        assert_eq!(
            text_of(too_large, &Op::Get { key: &key }, Some(limits)),
            "key of 250 B; this server takes 216: serve --slot-bytes-max"
        );
        assert_eq!(
            text_of(too_large, &Op::put(b"k", &value), None),
            "the key or the value is larger than the server allows"
        );
    }
}
