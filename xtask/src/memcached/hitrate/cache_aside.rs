//! Plays requests as a cache's user sends them: a get, and a set after a miss.

use super::client::Client;
use super::stream::Request;

/// Most gets of one command.
pub const WINDOW: usize = 100;

/// The requests that counted, and those of them that were answered from the cache.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    requests: u64,
    hits: u64,
    refused: u64,
}

impl Tally {
    /// Share of requests answered from the cache, percent.
    pub fn percent(&self) -> f64 {
        100.0 * self.hits as f64 / self.requests.max(1) as f64
    }

    /// Number of items that the server refused to store, of all requests.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

/// Plays `requests`, of which those from `counted_from` on count. No key occurs twice among the requests that are sent
/// together, so the server handles the requests of each key in order.
///
/// # Errors
/// The connection fails, or the server answers wrongly.
pub fn play(
    client: &mut Client,
    requests: &[Request],
    counted_from: usize,
    tally: &mut Tally,
) -> Result<(), String> {
    let (mut found, mut missed) = (Vec::with_capacity(WINDOW), Vec::with_capacity(WINDOW));
    let mut first = 0;
    while first < requests.len() {
        let window = &requests[first..first + distinct(&requests[first..])];
        client.get(window, &mut found)?;
        missed.clear();
        for (index, (request, found)) in (first..).zip(window.iter().zip(&found)) {
            if index >= counted_from {
                tally.requests += 1;
                tally.hits += u64::from(*found);
            }
            if !found {
                missed.push(*request);
            }
        }
        tally.refused += client.set(&missed)?;
        first += window.len();
    }
    Ok(())
}

/// Number of requests before the first repeated key, at most a window.
fn distinct(requests: &[Request]) -> usize {
    let most = requests.len().min(WINDOW);
    let is_repeated = |index: &usize| {
        let key = requests[*index].key;
        requests[..*index].iter().any(|request| request.key == key)
    };
    (1..most).find(is_repeated).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(keys: &[u64]) -> Vec<Request> {
        let request = |key: &u64| Request {
            key: *key,
            value_bytes: 1,
            ttl_s: 0,
        };
        keys.iter().map(request).collect()
    }

    #[test]
    fn a_window_ends_before_a_repeated_key() {
        assert_eq!(distinct(&requests(&[1, 2, 3, 2, 4])), 3);
        assert_eq!(distinct(&requests(&[1, 1])), 1);
        assert_eq!(distinct(&requests(&[1])), 1);
        let many: Vec<u64> = (0..300).collect();
        assert_eq!(distinct(&requests(&many)), WINDOW);
    }
}
