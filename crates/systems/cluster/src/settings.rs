//! [`ServiceSettings`]: what all members of a service have in common, chosen once, by whichever member comes first.

use drover_base::HashSeed;
use drover_control::{DecodeError, Field, Reader, Writer};
use std::fmt;

/// Version of the encoding.
const VERSION: u16 = 2;
/// Version that has neither replicas nor a lease.
const VERSION_WITHOUT_REPLICAS: u16 = 1;
/// Most members that have an item of a service. *(our choice)*
pub const REPLICAS_MAX: u8 = 2;
/// Length of the secret.
pub const SECRET_BYTES: usize = 32;

/// Settings of a service, kept by its registry. They never change while the service has items: the shard of a key depends on them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ServiceSettings {
    /// Hash of keys, of which shard and core of a key are parts. The same at all members and native clients.
    pub hash_seed: HashSeed,
    /// What members prove to each other that they know. Any program that can read the registry knows it.
    pub secret: [u8; SECRET_BYTES],
    /// Members that have an item: 1, or 2 if each shard has a copy at another member than its owner.
    pub replicas: u8,
    /// Seconds of every member's lease; `None`: the service is older than this setting, and each member has its own.
    pub lease_s: Option<u16>,
}

/// Neither secret is printed.
impl fmt::Debug for ServiceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceSettings")
            .field("hash_seed", &self.hash_seed)
            .field("replicas", &self.replicas)
            .field("lease_s", &self.lease_s)
            .finish_non_exhaustive()
    }
}

/// Encoded as version (`u16`), hash seed, the 32 bytes of the secret, replicas (`u8`) and the seconds of the lease (`u16`, 0: none). Version 1
/// ends with the secret.
impl Field for ServiceSettings {
    fn encode(&self, to: &mut Writer) {
        to.u16(VERSION);
        self.hash_seed.encode(to);
        to.raw(&self.secret);
        to.u8(self.replicas).u16(self.lease_s.unwrap_or(0));
    }

    fn decode(from: &mut Reader<'_>, _: &'static str) -> Result<ServiceSettings, DecodeError> {
        let version = from.u16()?;
        if version != VERSION && version != VERSION_WITHOUT_REPLICAS {
            let (field, value) = ("version of a service's settings", version.into());
            return Err(DecodeError::Value { field, value });
        }
        let hash_seed = HashSeed::decode(from, "hash seed")?;
        let mut secret = [0; SECRET_BYTES];
        for byte in &mut secret {
            *byte = from.u8()?;
        }
        let (replicas, lease_s) = match version {
            VERSION_WITHOUT_REPLICAS => (1, 0),
            _ => (from.u8()?, from.u16()?),
        };
        if !(1..=REPLICAS_MAX).contains(&replicas) {
            let (field, value) = ("replicas of a service", replicas.into());
            return Err(DecodeError::Value { field, value });
        }
        Ok(ServiceSettings {
            hash_seed,
            secret,
            replicas,
            lease_s: Some(lease_s).filter(|seconds| *seconds > 0),
        })
    }
}

impl ServiceSettings {
    /// The bytes that a registry keeps.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer::new();
        self.encode(&mut to);
        to.into_parts().0
    }

    /// The settings that `bytes` say.
    ///
    /// # Errors
    /// [`DecodeError`] for any bytes that [`to_bytes`](ServiceSettings::to_bytes) does not make.
    pub fn from_bytes(bytes: &[u8]) -> Result<ServiceSettings, DecodeError> {
        let mut from = Reader::new(bytes, &[]);
        let settings = ServiceSettings::decode(&mut from, "settings")?;
        from.finish()?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::HashKind;

    fn settings() -> ServiceSettings {
        ServiceSettings {
            hash_seed: HashSeed::of(HashKind::Aes, 0xdead, 0xbeef),
            secret: [7; SECRET_BYTES],
            replicas: 2,
            lease_s: Some(6),
        }
    }

    #[test]
    fn settings_come_back_and_other_bytes_do_not() {
        let mut bytes = settings().to_bytes();
        assert_eq!(ServiceSettings::from_bytes(&bytes), Ok(settings()));
        for len in 0..bytes.len() {
            assert!(ServiceSettings::from_bytes(&bytes[..len]).is_err());
        }
        bytes.push(0);
        assert!(ServiceSettings::from_bytes(&bytes).is_err(), "a byte too many");
        bytes.pop();
        bytes[0] = 3;
        let error = ServiceSettings::from_bytes(&bytes).expect_err("another version");
        assert!(error.to_string().contains("version"), "{error}");
    }

    #[test]
    fn older_settings_have_one_copy_and_no_common_lease() {
        let mut bytes = settings().to_bytes();
        bytes.truncate(bytes.len() - 3);
        bytes[0] = 1;
        let older = ServiceSettings {
            replicas: 1,
            lease_s: None,
            ..settings()
        };
        assert_eq!(ServiceSettings::from_bytes(&bytes), Ok(older));
    }

    #[test]
    fn a_number_of_replicas_that_no_service_has_is_refused() {
        for replicas in [0, REPLICAS_MAX + 1] {
            let bad = ServiceSettings {
                replicas,
                ..settings()
            };
            let error = ServiceSettings::from_bytes(&bad.to_bytes()).expect_err("refused");
            assert!(error.to_string().contains("replicas"), "{error}");
        }
    }

    #[test]
    fn no_secret_is_printed() {
        let text = format!("{:?}", settings());
        assert!(!text.contains("secret") && !text.contains('7'), "{text}");
    }
}
