//! [`ServiceSettings`]: what all members of a service have in common, chosen once, by whichever member comes first.

use drover_base::HashSeed;
use drover_control::{DecodeError, Field, Reader, Writer};
use std::fmt;

/// Version of the encoding.
const VERSION: u16 = 2;
/// Version without [`ServiceSettings::replicas`], which is 1.
const WITHOUT_REPLICAS: u16 = 1;
/// Length of the secret.
pub const SECRET_BYTES: usize = 32;
/// Most members that can have an item.
pub const REPLICAS_MAX: u8 = 2;

/// Settings of a service, kept by its registry. They never change while the service has items: the shard of a key depends on them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ServiceSettings {
    /// Hash of keys, of which shard and core of a key are parts. The same at all members and native clients.
    pub hash_seed: HashSeed,
    /// What members prove to each other that they know. Any program that can read the registry knows it.
    pub secret: [u8; SECRET_BYTES],
    /// Members that have each item: 1, or 2, so that an acknowledged update outlives one member.
    pub replicas: u8,
}

/// Neither secret is printed.
impl fmt::Debug for ServiceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceSettings")
            .field("hash_seed", &self.hash_seed)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

/// Encoded as version (`u16`), hash seed and the 32 bytes of the secret; in version 2 the number of replicas (`u8`) follows. One replica is
/// written as version 1, which earlier programs know.
impl Field for ServiceSettings {
    fn encode(&self, to: &mut Writer) {
        let has_replicas = self.replicas != 1;
        to.u16(if has_replicas { VERSION } else { WITHOUT_REPLICAS });
        self.hash_seed.encode(to);
        to.raw(&self.secret);
        if has_replicas {
            to.u8(self.replicas);
        }
    }

    fn decode(from: &mut Reader<'_>, _: &'static str) -> Result<ServiceSettings, DecodeError> {
        let version = from.u16()?;
        if !(WITHOUT_REPLICAS..=VERSION).contains(&version) {
            let (field, value) = ("version of a service's settings", version.into());
            return Err(DecodeError::Value { field, value });
        }
        let hash_seed = HashSeed::decode(from, "hash seed")?;
        let mut secret = [0; SECRET_BYTES];
        for byte in &mut secret {
            *byte = from.u8()?;
        }
        let replicas = if version == VERSION { from.u8()? } else { 1 };
        if version == VERSION && replicas != REPLICAS_MAX {
            let (field, value) = ("number of replicas", replicas.into());
            return Err(DecodeError::Value { field, value });
        }
        Ok(ServiceSettings {
            hash_seed,
            secret,
            replicas,
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

    fn settings(replicas: u8) -> ServiceSettings {
        ServiceSettings {
            hash_seed: HashSeed::of(HashKind::Aes, 0xdead, 0xbeef),
            secret: [7; SECRET_BYTES],
            replicas,
        }
    }

    #[test]
    fn settings_come_back_and_other_bytes_do_not() {
        for replicas in 1..=REPLICAS_MAX {
            let settings = settings(replicas);
            let mut bytes = settings.to_bytes();
            assert_eq!(
                bytes[0], replicas,
                "one replica is written as before there were more"
            );
            assert_eq!(ServiceSettings::from_bytes(&bytes), Ok(settings));
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
        let mut bytes = settings(2).to_bytes();
        *bytes.last_mut().expect("a number of replicas") = 3;
        assert!(ServiceSettings::from_bytes(&bytes).is_err());
    }

    #[test]
    fn no_secret_is_printed() {
        let text = format!("{:?}", settings(2));
        assert!(!text.contains("secret") && !text.contains('7'), "{text}");
    }
}
