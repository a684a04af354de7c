//! [`Contest`]: a stream played to both servers, and what they made of it.

use super::cache_aside::{self, Tally};
use super::held::{HEADINGS, Held};
use super::oracle::{Oracle, Simulated};
use super::pair::{Limits, NAMES, Pair};
use super::stream::{Request, Stream};
use serde_json::{Value, json};
use std::fmt;

/// Results of a server.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    tally: Tally,
    held: Held,
}

/// Results of a stream.
pub struct Contest {
    stream: Stream,
    limits: Limits,
    /// In the order of [`NAMES`].
    scores: [Score; 2],
    /// Results of other policies, or the reason why there are none.
    simulated: Result<Vec<Simulated>, String>,
}

/// Requests that one server gets before it is the other's turn. Both servers meet every state of the machine.
const CHUNK: usize = 10_000;

impl Contest {
    /// Plays `stream` to both servers.
    ///
    /// # Errors
    /// A server, or the oracle, fails.
    pub fn play(
        stream: &Stream,
        seed: u64,
        mut pair: Pair,
        oracle: Result<&Oracle, &str>,
    ) -> Result<Contest, String> {
        let limits = pair.limits();
        let mut tallies = [Tally::default(); 2];
        let mut requests = stream.requests(seed);
        let mut first = 0;
        loop {
            let chunk: Vec<Request> = requests.by_ref().take(CHUNK).collect();
            if chunk.is_empty() {
                break;
            }
            let counted_from = (stream.counted_from() as usize).saturating_sub(first);
            for ((side, tally), name) in pair.sides().iter_mut().zip(&mut tallies).zip(NAMES) {
                cache_aside::play(side.client(), &chunk, counted_from, tally)
                    .map_err(|why| format!("{name}: {why}"))?;
            }
            first += chunk.len();
        }
        let mut scores = tallies.map(|tally| Score {
            tally,
            held: Held::default(),
        });
        for ((side, score), name) in pair.sides().iter_mut().zip(&mut scores).zip(NAMES) {
            let pid = side.pid();
            score.held = Held::by(side.client(), pid, stream.universe(seed))
                .map_err(|why| format!("{name}: {why}"))?;
        }
        // The servers' memory and cores are free for the oracle.
        drop(pair);
        let simulated = match oracle {
            Ok(_) if stream.expires() => Err("it knows no time to live".to_owned()),
            Ok(oracle) => Ok(oracle.simulate(stream, seed, scores[1].held.found_bytes())?),
            Err(why) => Err(why.to_owned()),
        };
        Ok(Contest {
            stream: stream.clone(),
            limits,
            scores,
            simulated,
        })
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Percentage points by which drover's hit rate is above memcached's.
    pub fn lead(&self) -> f64 {
        self.scores[1].tally.percent() - self.scores[0].tally.percent()
    }

    /// Drover's hit rate, percent.
    pub fn drover_percent(&self) -> f64 {
        self.scores[1].tally.percent()
    }

    /// Hit rate of another policy, percent, if it was simulated.
    pub fn simulated_percent(&self, policy: &str) -> Option<f64> {
        let all = self.simulated.as_ref().ok()?;
        all.iter()
            .find(|other| other.name() == policy)
            .map(Simulated::percent)
    }

    /// What each server held at the end, in the order of [`NAMES`].
    pub fn held(&self) -> [Held; 2] {
        self.scores.map(|score| score.held)
    }

    /// All results as fields.
    pub fn json(&self) -> Value {
        let mut all = json!({
            "stream": self.stream.name(),
            "requests": self.stream.request_count(),
            "keys": self.stream.key_count(),
            "memory_mib": self.limits.memory_mib,
            "threads": self.limits.threads,
            "difference_points": self.lead(),
        });
        for (name, score) in NAMES.iter().zip(&self.scores) {
            let mut fields = score.held.json();
            fields["hit_percent"] = json!(score.tally.percent());
            fields["refused_sets"] = json!(score.tally.refused());
            all[name] = fields;
        }
        all["oracle"] = match &self.simulated {
            Ok(others) => others
                .iter()
                .map(|other| (other.name().to_owned(), json!(other.percent())))
                .collect(),
            Err(why) => json!({ "skipped": why }),
        };
        all
    }
}

impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = &self.stream;
        writeln!(
            f,
            "{}: {}, {} requests, {} keys; hit rates are of the second half",
            stream.name(),
            self.limits,
            stream.request_count(),
            stream.key_count()
        )?;
        writeln!(f, "{:<10}  {:>8}  {HEADINGS}", "", "hit rate")?;
        for (name, score) in NAMES.iter().zip(&self.scores) {
            writeln!(
                f,
                "{name:<10}  {:>6.2} %  {}",
                score.tally.percent(),
                score.held.row()
            )?;
            if score.tally.refused() > 0 {
                writeln!(f, "{name} refused to store {} items", score.tally.refused())?;
            }
        }
        writeln!(f, "difference  {:>+6.2} points", self.lead())?;
        match &self.simulated {
            Ok(others) => {
                let all: Vec<String> = others.iter().map(Simulated::to_string).collect();
                writeln!(
                    f,
                    "simulated with {} bytes: {}",
                    self.scores[1].held.found_bytes(),
                    all.join(", ")
                )
            }
            Err(why) => writeln!(f, "simulated: none: {why}"),
        }
    }
}
