//! A native client over shared memory.

use super::plan::{Answer, Ask, Request, Voice, now};
use drover_base::Ns;
use drover_client::{Client, Options};
use drover_kv::{Op, Outcome};

/// Longer than a server takes to begin.
const PATIENCE: Ns = Ns::from_s(30);

pub struct Native(Client);

impl Native {
    /// Connects to the server at `addr`. An operation without an answer after `deadline` fails.
    pub fn connect(addr: &str, deadline: Ns) -> Native {
        let options = Options {
            connect_timeout: PATIENCE,
            call_timeout: deadline,
            ..Options::default()
        };
        Native(Client::connect_with(addr, &options).expect("a server"))
    }
}

impl Voice for Native {
    fn is_memcached(&self) -> bool {
        false
    }

    fn ask(&mut self, batch: &mut [Request]) -> Vec<Option<(Answer, u64)>> {
        let values: Vec<String> = batch.iter().map(value).collect();
        let ops: Vec<Op<'_>> = batch.iter().zip(&values).map(op).collect();
        let mut answers = vec![None; batch.len()];
        // What could not even be submitted has no answer either.
        let _ = self.0.execute(&ops, |i, outcome| {
            answers[i] = answer(outcome).map(|answer| (answer, now()));
        });
        answers
    }
}

fn value(request: &Request) -> String {
    match request.ask {
        Ask::Put(id) => id.to_string(),
        _ => String::new(),
    }
}

fn op<'a>((request, value): (&'a Request, &'a String)) -> Op<'a> {
    let (key, value) = (request.key.as_bytes(), value.as_bytes());
    match request.ask {
        Ask::Get => Op::Get { key },
        Ask::Put(_) => Op::put(key, value),
        Ask::Delete => Op::delete(key),
        Ask::Swap(_) | Ask::Add(_) => panic!("native clients have no such operation"),
    }
}

fn answer(outcome: Outcome<'_>) -> Option<Answer> {
    match outcome {
        Outcome::Value(bytes) => {
            let text = std::str::from_utf8(bytes).expect("a number");
            Some(Answer::Done(Some(text.trim().parse().expect("a number"))))
        }
        Outcome::Stored | Outcome::Deleted => Some(Answer::Done(None)),
        Outcome::NotFound => Some(Answer::Missing),
        _ => None,
    }
}
