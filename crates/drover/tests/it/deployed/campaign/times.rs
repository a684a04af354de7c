//! [`Times`]: how long it took until all keys were served again.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Times by what had happened.
#[derive(Default)]
pub struct Times(BTreeMap<&'static str, Vec<Duration>>);

impl Times {
    pub fn add(&mut self, what: &'static str, time: Duration) {
        self.0.entry(what).or_default().push(time);
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, times) in &self.0 {
            let mut times = times.clone();
            times.sort();
            let (count, median) = (times.len(), times[times.len() / 2]);
            let (least, most) = (times[0], times[count - 1]);
            writeln!(
                f,
                "{what}: {count} times, all keys served after {least:.2?} to {most:.2?}, median {median:.2?}"
            )?;
        }
        Ok(())
    }
}
