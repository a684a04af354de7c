//! [`Member`]: a process that serves shards, as the registry and the map know it.

use drover_control::{DecodeError, Field, Reader, ShortText, Writer};
use std::fmt;
use std::sync::Arc;

/// Longest name of a member, bytes. *(our choice)*
pub const NAME_BYTES_MAX: usize = 40;
/// Most addresses that a member advertises. *(our choice)*
pub const ADDRESSES_MAX: usize = 4;
/// Longest sum of a member's addresses, bytes: with it the largest [`Map`](crate::Map) fits into a frame. *(our choice)*
pub const ADDRESS_BYTES_MAX: usize = 192;

/// What a member says of itself when it registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Advert {
    name: Arc<str>,
    weight: u32,
    addresses: Vec<String>,
}

/// Reasons why an [`Advert`] is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadAdvert {
    /// The name is empty, too long, or has other characters than letters, digits, `-`, `_` and `.`.
    #[error("{name:?} cannot be a member's name: 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' or '.'")]
    Name {
        /// The name.
        name: String,
    },
    /// The weight is 0. A member that shall have no shards is drained instead.
    #[error("the weight of member {name} is 0")]
    NoWeight {
        /// Name of the member.
        name: Arc<str>,
    },
    /// There is no address, or there are too many, or they are too long.
    #[error(
        "member {name} advertises {count} addresses of {bytes} bytes: 1 to {ADDRESSES_MAX}, together at most {ADDRESS_BYTES_MAX} bytes"
    )]
    Addresses {
        /// Name of the member.
        name: Arc<str>,
        /// Number of addresses.
        count: usize,
        /// Sum of their lengths.
        bytes: usize,
    },
}

impl Advert {
    /// A member called `name`, which takes shards in proportion to `weight` (any unit that all members share, such as MiB of
    /// memory) and which clients and other members reach at `addresses`.
    ///
    /// # Errors
    /// [`BadAdvert`] if a value is out of bounds.
    pub fn new(name: &str, weight: u32, addresses: Vec<String>) -> Result<Advert, BadAdvert> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(allowed) {
            let name = name.to_string();
            return Err(BadAdvert::Name { name });
        }
        let name: Arc<str> = name.into();
        if weight == 0 {
            return Err(BadAdvert::NoWeight { name });
        }
        let (count, bytes) = (addresses.len(), addresses.iter().map(String::len).sum());
        if count == 0 || count > ADDRESSES_MAX || bytes > ADDRESS_BYTES_MAX {
            return Err(BadAdvert::Addresses { name, count, bytes });
        }
        Ok(Advert {
            name,
            weight,
            addresses,
        })
    }

    /// Name, unique among the members that are there at a time.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Share of the shards, relative to the weights of the others. Not 0.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Where the member is reached, in its order of preference.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }
}

/// Encoded as name, weight (`u32`), number of addresses (`u8`), and the addresses; texts with a length of two bytes.
impl Field for Advert {
    fn encode(&self, to: &mut Writer) {
        ShortText::<NAME_BYTES_MAX>::encode(&self.name, to);
        to.u32(self.weight).u8(self.addresses.len() as u8);
        for address in &self.addresses {
            ShortText::<ADDRESS_BYTES_MAX>::encode(address, to);
        }
    }

    fn decode(from: &mut Reader<'_>, field: &'static str) -> Result<Advert, DecodeError> {
        let name = ShortText::<NAME_BYTES_MAX>::decode(from, "length of a member's name")?;
        let (weight, count) = (from.u32()?, from.u8()?);
        let address = |_| ShortText::<ADDRESS_BYTES_MAX>::decode(from, "length of a member's address");
        let addresses = (0..count).map(address).collect::<Result<_, _>>()?;
        let value = u64::from(count);
        Advert::new(&name, weight, addresses).map_err(|_| DecodeError::Value { field, value })
    }
}

/// One life of a member: a process that registers again after its lease has run out is another one, which owns nothing yet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberId {
    /// Name of the member.
    pub name: Arc<str>,
    /// Number that the registry gave to this registration; never given twice.
    pub incarnation: u64,
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.incarnation)
    }
}

/// A registered member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// What it said of itself.
    pub advert: Advert,
    /// Number of its registration.
    pub incarnation: u64,
}

impl Member {
    /// Identity of the member.
    pub fn id(&self) -> MemberId {
        MemberId {
            name: self.advert.name.clone(),
            incarnation: self.incarnation,
        }
    }

    /// Whether the member has this identity, without a copy.
    pub fn is(&self, id: &MemberId) -> bool {
        self.incarnation == id.incarnation && self.advert.name == id.name
    }
}

drover_control::fields!(Member { advert, incarnation });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adverts_out_of_bounds_are_refused() {
        let advert = |name: &str, weight, addresses: &[&str]| {
            let addresses = addresses.iter().map(|text| text.to_string()).collect();
            Advert::new(name, weight, addresses).map_err(|error| error.to_string())
        };
        assert!(advert("cache-1.rack_2", 1, &["tcp://10.0.0.1:1"]).is_ok());
        for (name, weight, addresses, text) in [
            ("", 1, &["a"][..], "cannot be a member's name"),
            ("a/b", 1, &["a"], "cannot be a member's name"),
            (&"x".repeat(41), 1, &["a"], "cannot be a member's name"),
            ("a", 0, &["a"], "the weight of member a is 0"),
            ("a", 1, &[], "advertises 0 addresses"),
            ("a", 1, &["a"; 5], "advertises 5 addresses"),
            ("a", 1, &[&"x".repeat(193)], "of 193 bytes"),
        ] {
            let error = advert(name, weight, addresses).expect_err("refused");
            assert!(error.contains(text), "{error}");
        }
    }
}
