//! Keys of a service in etcd, and what is in the value of a member.

use drover_cluster::{Advert, Member};
use drover_control::{DecodeError, Field, Reader, Writer};

/// Keys of one service.
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    /// Keys of a service of this name; `None`, if it cannot be one.
    pub(crate) fn of(service: &str) -> Option<Keys> {
        is_name(service).then(|| Keys {
            prefix: format!("drover/{service}/"),
        })
    }

    /// Begin of all keys of the service.
    pub(crate) fn all(&self) -> &str {
        &self.prefix
    }

    /// Begin of the keys of all members.
    pub(crate) fn members(&self) -> String {
        format!("{}members/", self.prefix)
    }

    pub(crate) fn member(&self, name: &str) -> String {
        format!("{}members/{name}", self.prefix)
    }

    pub(crate) fn epoch(&self) -> String {
        format!("{}epoch", self.prefix)
    }

    pub(crate) fn map(&self) -> String {
        format!("{}map", self.prefix)
    }

    pub(crate) fn settings(&self) -> String {
        format!("{}settings", self.prefix)
    }
}

/// Whether a service can have this name.
pub(crate) fn is_name(service: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=40).contains(&service.len()) && service.chars().all(allowed)
}

/// The value of a member's key.
pub(crate) fn encode_member(advert: &Advert, instance: u64) -> Vec<u8> {
    let mut to = Writer::new();
    advert.encode(&mut to);
    to.u64(instance);
    to.into_parts().0
}

/// The member that a key with this create revision and value means, and its instance.
pub(crate) fn decode_member(create_revision: i64, value: &[u8]) -> Result<(Member, u64), DecodeError> {
    let mut from = Reader::new(value, &[]);
    let (advert, instance) = (Advert::decode(&mut from, "member")?, from.u64()?);
    from.finish()?;
    let incarnation = create_revision as u64;
    let member = Member { advert, incarnation };
    Ok((member, instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back_and_other_bytes_do_not() {
        let advert = Advert::new("a", 3, vec!["tcp://a:1".to_string()]).expect("a sound advert");
        let bytes = encode_member(&advert, 7);
        let (member, instance) = decode_member(9, &bytes).expect("a member");
        assert_eq!((&member.advert, member.incarnation, instance), (&advert, 9, 7));
        for len in 0..bytes.len() {
            assert!(decode_member(9, &bytes[..len]).is_err());
        }
    }

    #[test]
    fn names_that_are_no_part_of_a_key_are_refused() {
        assert_eq!(
            Keys::of("cache").expect("a name").member("a"),
            "drover/cache/members/a"
        );
        for name in ["", "a/b", "ä", &"x".repeat(41)] {
            assert!(Keys::of(name).is_none());
        }
    }
}
