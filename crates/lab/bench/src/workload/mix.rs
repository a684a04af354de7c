//! [`Mix`]: shares of the kinds of operation, under YCSB's names.

use serde::{Deserialize, Serialize};

/// Shares of PUTs, read-modify-writes and inserts in all operations, each from 0 to 1; the rest are GETs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Mix {
    /// Name as requested, in lower case: a YCSB letter, or for example `put=0.2`.
    pub name: String,
    /// Share, 0 to 1, of PUTs of existing keys in all operations.
    pub put_share: f64,
    /// Share, 0 to 1, of read-modify-writes: a GET, then a PUT of the same key, counted as one operation.
    pub modify_share: f64,
    /// Share, 0 to 1, of PUTs of new keys in all operations.
    pub insert_share: f64,
}

/// Reason why a mix cannot be run.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MixError {
    /// The mix (YCSB's e) needs a capability that none of the systems offers. It is never replaced by another mix.
    #[error("mix {mix} needs {capability}: not supported by this system; a, b, c, d, f and put=SHARE are")]
    NotSupported {
        /// Name of the mix.
        mix: String,
        /// Name of the missing capability.
        capability: &'static str,
    },
    /// No mix has this name.
    #[error("unknown mix '{name}': a, b, c, d, f (YCSB) or put=SHARE with SHARE between 0 and 1")]
    Unknown {
        /// Name as typed.
        name: String,
    },
}

impl Mix {
    /// A mix of PUTs of existing keys and GETs: `put_share` of the operations are PUTs, from 0 to 1 (not checked).
    pub fn puts(put_share: f64) -> Mix {
        Mix {
            name: format!("put={put_share}"),
            put_share,
            modify_share: 0.0,
            insert_share: 0.0,
        }
    }

    /// Parses the letter of a YCSB core workload, in either case (a 50 % GETs and 50 % PUTs, b 95 % and 5 %, c GETs
    /// only, d 95 % GETs and 5 % inserts, f 50 % GETs and 50 % read-modify-writes), or `put=SHARE`. The mix does not
    /// include the letter's key distribution, such as d's latest keys: see [`Popularity`](super::Popularity).
    ///
    /// # Errors
    /// e (scans) is [`MixError::NotSupported`]; other names are unknown.
    pub fn parse(name: &str) -> Result<Mix, MixError> {
        let lower = name.to_ascii_lowercase();
        let shares = match lower.as_str() {
            "a" => (0.5, 0.0, 0.0),
            "b" => (0.05, 0.0, 0.0),
            "c" => (0.0, 0.0, 0.0),
            "d" => (0.0, 0.0, 0.05),
            "f" => (0.0, 0.5, 0.0),
            "e" => {
                return Err(MixError::NotSupported {
                    mix: lower,
                    capability: "scan (ordered range reads)",
                });
            }
            other => {
                let share = other.strip_prefix("put=").and_then(|s| s.parse::<f64>().ok());
                match share.filter(|s| (0.0..=1.0).contains(s)) {
                    Some(share) => (share, 0.0, 0.0),
                    None => {
                        return Err(MixError::Unknown {
                            name: name.to_owned(),
                        });
                    }
                }
            }
        };
        let (put_share, modify_share, insert_share) = shares;
        Ok(Mix {
            name: lower,
            put_share,
            modify_share,
            insert_share,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_are_a_named_capability() {
        let error = Mix::parse("E").expect_err("no scans");
        assert!(error.to_string().contains("scan"), "{error}");
        assert!(
            error.to_string().contains("not supported by this system"),
            "{error}"
        );
    }

    #[test]
    fn letters_and_shares() {
        assert_eq!(Mix::parse("B").map(|m| m.put_share), Ok(0.05));
        assert_eq!(Mix::parse("put=1").map(|m| m.put_share), Ok(1.0));
        for bad in ["", "g", "put=", "put=2", "put=nan", "put=-0.1"] {
            assert!(matches!(Mix::parse(bad), Err(MixError::Unknown { .. })), "{bad}");
        }
    }
}
