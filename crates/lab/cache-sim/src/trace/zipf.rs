//! [`ZipfSpec`]: requests whose keys are drawn by their popularity.

use super::line::{Line, Op};
use drover_base::{Rng, Zipf, mix};
use drover_mem::hex_digits;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A stream of GETs for keys of 16 bytes; the same numbers give the same stream.
#[derive(Clone, PartialEq, Debug)]
pub struct ZipfSpec {
    /// Exponent of the Zipf distribution, above 0.
    pub exponent: f64,
    /// Number of keys, at least 1.
    pub keys: u64,
    /// Number of requests.
    pub requests: u64,
    /// Bytes of each value; `None`: not given.
    pub value_bytes: Option<u64>,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for ZipfSpec {
    fn default() -> ZipfSpec {
        ZipfSpec {
            exponent: 0.99,
            keys: 1_000_000,
            requests: 3_000_000,
            value_bytes: None,
            seed: 1,
        }
    }
}

/// Why a specification is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("zipf:{text}: expected zipf:EXPONENT[,keys=N][,requests=N][,value=BYTES][,seed=N]; {why}")]
pub struct ZipfSpecError {
    text: String,
    why: String,
}

/// Largest exponent: with it, nearly all requests are for the first key.
const EXPONENT_MAX: f64 = 10.0;
/// Most keys.
const KEYS_MAX: u64 = 1 << 40;

/// What follows `zipf:` in the option: the exponent, then names with values.
impl FromStr for ZipfSpec {
    type Err = ZipfSpecError;

    fn from_str(text: &str) -> Result<ZipfSpec, ZipfSpecError> {
        let refuse = |why: &str| ZipfSpecError {
            text: text.to_string(),
            why: why.to_string(),
        };
        let mut parts = text.split(',');
        let exponent = parts.next().and_then(|part| part.trim().parse::<f64>().ok());
        let in_range = |exponent: &f64| *exponent > 0.0 && *exponent <= EXPONENT_MAX;
        let mut spec = ZipfSpec {
            exponent: exponent
                .filter(in_range)
                .ok_or_else(|| refuse("the exponent is above 0 and at most 10"))?,
            ..ZipfSpec::default()
        };
        for part in parts {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| refuse(&format!("`{part}` has no =")))?;
            let number = value.trim().parse::<u64>().ok();
            let number = number.ok_or_else(|| refuse(&format!("{name} is a whole number")))?;
            match name.trim() {
                "keys" if (1..=KEYS_MAX).contains(&number) => spec.keys = number,
                "keys" => return Err(refuse("there are from 1 to 2^40 keys")),
                "requests" => spec.requests = number,
                "value" => spec.value_bytes = Some(number),
                "seed" => spec.seed = number,
                _ => return Err(refuse(&format!("`{name}` is unknown"))),
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for ZipfSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ZipfSpec {
            exponent,
            keys,
            requests,
            seed,
            ..
        } = self;
        write!(f, "zipf:{exponent},keys={keys},requests={requests}")?;
        if let Some(bytes) = self.value_bytes {
            write!(f, ",value={bytes}")?;
        }
        write!(f, ",seed={seed}")
    }
}

/// Draws the requests of a [`ZipfSpec`].
pub(super) struct ZipfTrace {
    spec: ZipfSpec,
    zipf: Zipf,
    rng: Rng,
    drawn: u64,
}

impl ZipfTrace {
    pub(super) fn new(spec: &ZipfSpec) -> ZipfTrace {
        ZipfTrace {
            zipf: Zipf::new(spec.keys, spec.exponent),
            rng: Rng::new(spec.seed, 0, 0),
            drawn: 0,
            spec: spec.clone(),
        }
    }

    /// Number of requests drawn so far.
    pub(super) fn drawn(&self) -> u64 {
        self.drawn
    }

    /// The key of the next request; `None` at the end.
    pub(super) fn next_key(&mut self) -> Option<[u8; 16]> {
        if self.drawn == self.spec.requests {
            return None;
        }
        self.drawn += 1;
        let number = mix(self.zipf.draw(&mut self.rng) ^ mix(self.spec.seed));
        let mut key = [0; 16];
        for (bytes, word) in key.as_chunks_mut::<8>().0.iter_mut().zip(hex_digits(number)) {
            *bytes = word.to_le_bytes();
        }
        Some(key)
    }

    /// A GET for `key`.
    pub(super) fn line<'a>(&self, key: &'a [u8]) -> Line<'a> {
        Line {
            time_s: None,
            key: Cow::Borrowed(key),
            key_bytes: None,
            value_bytes: self.spec.value_bytes,
            ttl_s: None,
            op: Op::Get,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_read_and_shown() {
        let spec: ZipfSpec = "0.8,keys=10,requests=20,value=400,seed=7"
            .parse()
            .expect("a specification");
        assert_eq!((spec.keys, spec.requests, spec.value_bytes), (10, 20, Some(400)));
        assert_eq!(spec.to_string(), "zipf:0.8,keys=10,requests=20,value=400,seed=7");
        assert_eq!("0.99".parse(), Ok(ZipfSpec::default()));
    }

    #[test]
    fn refusals_say_why() {
        for (text, why) in [
            ("", "the exponent is above 0 and at most 10"),
            ("nan", "the exponent is above 0 and at most 10"),
            ("0", "the exponent is above 0 and at most 10"),
            ("1,keys=0", "there are from 1 to 2^40 keys"),
            ("1,keys", "`keys` has no ="),
            ("1,keys=x", "keys is a whole number"),
            ("1,speed=1", "`speed` is unknown"),
        ] {
            let error = text.parse::<ZipfSpec>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("zipf:{text}: expected zipf:EXPONENT[")),
                "{error}"
            );
            assert!(error.ends_with(why), "{error}");
        }
    }
}
