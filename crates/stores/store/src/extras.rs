//! Changes and PUTs with the item fields that memcached's commands need and the native protocol does not.
//!
//! An item has only those [fields](crate::item) that its content needs. A native PUT that replaces it drops the others.

use crate::item::{Access, Body, Extras, Fields, ItemRef, Terms, Value, version_of};
use drover_base::Condition;
use drover_mem::MaskedRef;

/// A change to an existing item that keeps its value: expiry, access, marks, CAS number. The default changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mark {
    /// Whether to record the time of access and that the item was fetched. Ignored for an item without extras, unless
    /// another field of this change adds extras.
    pub access: bool,
    /// New expiry in seconds since server start; 0 = never, `None` = unchanged.
    pub expire_s: Option<u32>,
    /// `Some(true)` sets the mark that the value is out of date, `Some(false)` clears it; `None` = unchanged.
    pub stale: Option<bool>,
    /// `Some(true)` sets the mark that a client has been told to fetch a new value, `Some(false)` clears it; `None` =
    /// unchanged.
    pub won: Option<bool>,
    /// Change of the CAS number.
    pub cas: NewCas,
}

impl Mark {
    /// Whether the change requires extras.
    pub(crate) fn needs_extras(&self) -> bool {
        self.stale == Some(true) || self.won == Some(true) || matches!(self.cas, NewCas::Exactly(_))
    }
}

/// Change of the CAS number by a [`Mark`]. A new number comes with a new version.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum NewCas {
    /// Keep the item's CAS number and version.
    #[default]
    Keep,
    /// Use the partition's next version as CAS number.
    Next,
    /// Use this CAS number.
    Exactly(u64),
}

/// Value, fields and condition of a PUT with extras, for [`Partition::put_extra`](crate::Partition::put_extra).
#[derive(Clone, Copy, Debug)]
pub struct ExtraPut<'a> {
    /// Pieces of the value, in order.
    pub value: &'a [&'a [u8]],
    /// How to combine the value with the key's old one, if it exists.
    pub join: Join,
    /// Time at which the item expires, in seconds since server start; 0 = never.
    pub expire_s: u32,
    /// The client's own 32 bits, stored with the value.
    pub flags: u32,
    /// Whether a key that exists keeps its flags and expiry, so that `flags` and `expire_s` are ignored; with
    /// [`Join::Replace`] it also keeps its last access and marks.
    pub keep: bool,
    /// Condition of the PUT; a version is a [`cas`](ItemRef::cas) number.
    pub condition: Condition,
    /// Whether [`Condition::IfVersion`] also holds if the key's CAS number is larger, so that the given one is older. Then
    /// the value is stored as stale, and the old expiry and the won mark are kept (a meta set that invalidates).
    pub or_older: bool,
    /// New CAS number of the item; `None` = the partition's next version.
    pub cas: Option<u64>,
    /// Whether to record the time of this PUT and of later accesses ([`Mark::access`]), which takes extras. If not, the
    /// item has [extras](crate::EXTRAS_BYTES) only if `cas` is given, or for marks and the last access that it keeps.
    pub track_access: bool,
    /// Version and extras of an item that is copied from another partition; `cas` and `track_access` are ignored then.
    pub copied: Option<CopiedFields>,
}

impl Default for ExtraPut<'_> {
    /// An empty value that never expires.
    fn default() -> Self {
        ExtraPut {
            value: &[],
            join: Join::Replace,
            expire_s: 0,
            flags: 0,
            keep: false,
            condition: Condition::Always,
            or_older: false,
            cas: None,
            track_access: false,
            copied: None,
        }
    }
}

/// What a copy of an item keeps besides key, value, expiry and flags, so that a client that has read the item can go on with its CAS
/// number. The partition that it comes to must not give such numbers again: see
/// [`raise_version`](crate::Partition::raise_version).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopiedFields {
    /// [Version](ItemRef::version) of the item.
    pub version: u32,
    /// Its extras, if it has any.
    pub extras: Option<CopiedExtras>,
}

/// The extras of an item, for a copy of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopiedExtras {
    /// CAS number.
    pub cas: u64,
    /// Time of the last access, in seconds since the start of the server that the copy comes to; 0: not recorded.
    pub accessed_s: u32,
    /// Whether the item was read since it was stored.
    pub fetched: bool,
    /// Whether the value is marked as out of date.
    pub stale: bool,
    /// Whether a client has been told to fetch a new value.
    pub won: bool,
}

impl CopiedFields {
    /// The fields of `item`; its time of access is as of its own server.
    pub fn of(item: &ItemRef<'_>) -> CopiedFields {
        let extras = item.has_extras().then(|| CopiedExtras {
            cas: item.cas(),
            accessed_s: item.accessed_s(),
            fetched: item.is_fetched(),
            stale: item.is_stale(),
            won: item.is_won(),
        });
        CopiedFields {
            version: item.version(),
            extras,
        }
    }

    fn plan(&self, terms: Terms) -> Plan {
        let extras = self.extras.map(|extras| Extras {
            access: Access::marked_as(extras.accessed_s, extras.fetched, extras.stale, extras.won),
            cas: extras.cas,
        });
        Plan {
            fields: Fields::new(terms, extras),
            version: version_of(u64::from(self.version.max(1))),
        }
    }
}

/// How the value of a PUT is combined with the key's old value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Join {
    /// Replace the old value, if any.
    Replace,
    /// Append the new value to the old one, if any.
    Append,
    /// Prepend the new value to the old one, if any.
    Prepend,
}

/// Result of a PUT with extras.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtraOutcome {
    /// The value is stored.
    Stored {
        /// New CAS number.
        cas: u64,
    },
    /// As [`PutOutcome::Full`](crate::PutOutcome::Full).
    Full,
    /// As [`PutOutcome::TooLarge`](crate::PutOutcome::TooLarge); also if only the joined value is too long.
    TooLarge,
    /// The key exists, and the condition required it to be absent or to have a CAS number that it does not have.
    Present {
        /// Current CAS number.
        cas: u64,
    },
    /// The key does not exist, and the condition required it to.
    Absent,
}

/// What a PUT writes, other than the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) fields: Fields,
    pub(crate) version: u32,
}

impl Plan {
    /// The item's CAS number.
    pub(crate) fn cas(&self) -> u64 {
        let extras = self.fields.extras();
        extras.map_or(u64::from(self.version), |extras| extras.cas)
    }
}

impl ExtraPut<'_> {
    /// The smallest fields to write when `own` is the key's live item and `next` the partition's next version; or the
    /// refusal. Copies the value to be joined to `old`.
    pub(crate) fn plan(
        &self,
        own: Option<ItemRef<'_>>,
        now_s: u32,
        next: u64,
        old: &mut Vec<u8>,
    ) -> Result<Plan, ExtraOutcome> {
        old.clear();
        let late = self.check(own.map(|item| item.cas()))?;
        let mut terms = Terms {
            expire_s: self.expire_s,
            flags: self.flags,
        };
        let mut access = match self.track_access {
            true => Access::new(now_s),
            false => Access::default(),
        };
        if let Some(own) = own {
            if self.join != Join::Replace {
                own.read_value(old);
            }
            if late {
                access = access.stale(own.is_won());
                terms.expire_s = own.expire_s();
            }
            if self.keep {
                terms = own.fields().terms();
            }
            if self.keep && self.join == Join::Replace {
                access = own.access();
            }
        }
        if let Some(copied) = &self.copied {
            return Ok(copied.plan(terms));
        }
        let has_extras = self.track_access || self.cas.is_some() || access != Access::default();
        let extras = has_extras.then_some(Extras {
            access,
            cas: self.cas.unwrap_or(next),
        });
        Ok(Plan {
            fields: Fields::new(terms, extras),
            version: version_of(next),
        })
    }

    /// Checks the condition for a key that is `present` with a CAS number, or absent; `true` if the PUT is late (its
    /// value is stale).
    fn check(&self, present: Option<u64>) -> Result<bool, ExtraOutcome> {
        if self.condition.holds(present) {
            return Ok(false);
        }
        match (present, self.condition) {
            (None, _) => Err(ExtraOutcome::Absent),
            (Some(cas), Condition::IfVersion(wanted)) if self.or_older && wanted < cas => Ok(true),
            (Some(cas), _) => Err(ExtraOutcome::Present { cas }),
        }
    }

    /// The item content; `old` is the value to be joined.
    pub(crate) fn body<'b>(&'b self, plan: &Plan, old: &'b [u8]) -> Body<Joined<'b>> {
        let (before, after): (&[u8], &[u8]) = match self.join {
            Join::Replace => (&[], &[]),
            Join::Append => (old, &[]),
            Join::Prepend => (&[], old),
        };
        Body {
            version: plan.version,
            fields: plan.fields,
            value: Joined {
                before,
                value: self.value,
                after,
            },
        }
    }
}

/// A value in pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined<'a> {
    before: &'a [u8],
    value: &'a [&'a [u8]],
    after: &'a [u8],
}

impl Value for Joined<'_> {
    fn value_len(&self) -> usize {
        let value: usize = self.value.iter().map(|piece| piece.len()).sum();
        self.before.len() + value + self.after.len()
    }

    fn write(&self, place: MaskedRef<'_>, at: usize) {
        let mut end = at;
        let ends = [self.before, self.after];
        for piece in ends[..1].iter().chain(self.value).chain(&ends[1..]) {
            place.copy_in(end, piece);
            end += piece.len();
        }
        place.copy_in(end, &[0; 8][..end.wrapping_neg() & 7]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_say_who_is_there() {
        let present = Err(ExtraOutcome::Present { cas: 7 });
        let absent = Err(ExtraOutcome::Absent);
        let check = |condition, or_older, present| {
            let put = ExtraPut {
                condition,
                or_older,
                ..Default::default()
            };
            put.check(present)
        };
        for (condition, or_older, to_none, to_seven) in [
            (Condition::Always, false, Ok(false), Ok(false)),
            (Condition::IfAbsent, false, Ok(false), present),
            (Condition::IfPresent, false, absent, Ok(false)),
            (Condition::IfVersion(7), false, absent, Ok(false)),
            (Condition::IfVersion(6), false, absent, present),
            (Condition::IfVersion(8), false, absent, present),
            (Condition::IfVersion(7), true, absent, Ok(false)),
            (Condition::IfVersion(6), true, absent, Ok(true)),
            (Condition::IfVersion(8), true, absent, present),
        ] {
            assert_eq!(
                (
                    check(condition, or_older, None),
                    check(condition, or_older, Some(7))
                ),
                (to_none, to_seven),
                "{condition:?}, {or_older}"
            );
        }
    }
}
