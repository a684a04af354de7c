//! [`VerbsByKind`]: the verbs and round trips of each kind of operation, counted where operations follow one after the other.

use crate::target::{Target, TargetError};
use crate::workload::{KeyText, Values};
use drover_kv::{Condition, Op, Outcome};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// Most keys that operations of each kind are executed on.
const KEYS: u32 = 1000;

/// Averages of operations that follow one after the other.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct VerbsPerOp {
    /// Verbs posted per operation.
    pub verbs: f64,
    /// Lists of them, each of which is a round trip.
    pub round_trips: f64,
}

/// What operations without conflict take, by their kinds. What a client asks for besides, such as memory for many items, is in
/// the averages.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct VerbsByKind {
    /// GETs of keys that have values.
    pub lookup: VerbsPerOp,
    /// PUTs of keys that have values.
    pub update: VerbsPerOp,
    /// PUTs of keys that have none.
    pub insert: VerbsPerOp,
    /// DELETEs of keys that have values.
    pub delete: VerbsPerOp,
    /// PUTs under the condition that there is no value, of keys that have none.
    pub add: VerbsPerOp,
    /// READs of other keys' items per lookup.
    pub collisions_per_lookup: f64,
}

impl VerbsByKind {
    /// Executes operations of each kind on up to 1000 of the `key_count` keys, which must have values and have new ones then.
    /// Nobody else may use these keys meanwhile. `None` if `target` does not count verbs.
    ///
    /// # Errors
    /// The target failed, or an operation ended in another way than it must.
    pub fn count<T: Target>(
        target: &mut T,
        keys: &mut KeyText,
        values: &mut Values,
        key_count: u32,
    ) -> Result<Option<VerbsByKind>, Box<TargetError>> {
        let count = key_count.min(KEYS);
        let mut collisions = 0.0;
        let mut each = |kind: Kind| {
            let Some(before) = target.verbs() else {
                return Ok(None);
            };
            for index in 0..u64::from(count) {
                let op = match kind {
                    Kind::Lookup => Op::Get { key: keys.key(index) },
                    Kind::Delete => Op::delete(keys.key(index)),
                    Kind::Put => Op::put(keys.key(index), values.value(index, u64::MAX)),
                    Kind::Add => Op::Put {
                        key: keys.key(index),
                        value: values.value(index, u64::MAX),
                        ttl_s: 0,
                        flags: 0,
                        condition: Condition::IfAbsent,
                        keep: false,
                    },
                };
                execute(target, &op)?;
            }
            let Some(spent) = target.verbs().map(|now| now.since(&before)) else {
                return Ok(None);
            };
            let of = |total: u64| total as f64 / f64::from(count.max(1));
            if kind == Kind::Lookup {
                collisions = of(spent.collisions);
            }
            Ok::<_, Box<TargetError>>(Some(VerbsPerOp {
                verbs: of(spent.posted),
                round_trips: of(spent.lists),
            }))
        };
        let mut all = [VerbsPerOp::default(); 6];
        let kinds = [
            Kind::Lookup,
            Kind::Put,
            Kind::Delete,
            Kind::Put,
            Kind::Delete,
            Kind::Add,
        ];
        for (counted, kind) in all.iter_mut().zip(kinds) {
            let Some(per_op) = each(kind)? else {
                return Ok(None);
            };
            *counted = per_op;
        }
        let [lookup, update, delete, insert, _, add] = all;
        Ok(Some(VerbsByKind {
            lookup,
            update,
            insert,
            delete,
            add,
            collisions_per_lookup: collisions,
        }))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Lookup,
    Put,
    Delete,
    Add,
}

/// Executes an operation that must succeed, and waits for its end.
fn execute<T: Target>(target: &mut T, op: &Op<'_>) -> Result<(), Box<TargetError>> {
    let words = |error: &dyn Display| TargetError::new(format!("counting verbs: {error}"));
    target.submit(op, 0).map_err(|error| words(&error))?;
    let mut ended = None;
    while ended.is_none() {
        target.poll(true, &mut |_, outcome: Outcome<'_>| {
            let good = matches!(outcome, Outcome::Value(_) | Outcome::Stored | Outcome::Deleted);
            ended = Some(match good {
                true => Ok(()),
                false => Err(words(&format!("{outcome:?}"))),
            });
        })?;
    }
    ended.unwrap_or(Ok(()))
}

impl Display for VerbsByKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("lookup", self.lookup),
            ("update", self.update),
            ("insert", self.insert),
            ("delete", self.delete),
            ("add", self.add),
        ];
        write!(f, "verbs and round trips of one operation at a time:")?;
        for (name, per_op) in kinds {
            write!(f, " {name} {:.2} and {:.2},", per_op.verbs, per_op.round_trips)?;
        }
        write!(
            f,
            " with {:.3} READs of other keys' items a lookup",
            self.collisions_per_lookup
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_kv::{OpKind, SubmitError, Token, Verbs};
    use std::collections::BTreeSet;

    /// A set of keys; an operation takes as many lists as its kind says, each of two verbs.
    #[derive(Default)]
    struct Toy {
        keys: BTreeSet<Vec<u8>>,
        ended: Option<(Token, bool, OpKind)>,
        verbs: Verbs,
    }

    impl Target for Toy {
        fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
            let key = op.key().to_vec();
            let (good, lists) = match op.kind() {
                OpKind::Get => (self.keys.contains(&key), 1),
                OpKind::Delete => (self.keys.remove(&key), 2),
                _ => (true, 3 + u64::from(self.keys.insert(key))),
            };
            self.verbs.lists += lists;
            self.verbs.posted += 2 * lists;
            self.ended = Some((token, good, op.kind()));
            Ok(())
        }

        fn poll(
            &mut self,
            _: bool,
            sink: &mut impl FnMut(Token, Outcome<'_>),
        ) -> Result<(), Box<TargetError>> {
            if let Some((token, good, kind)) = self.ended.take() {
                sink(
                    token,
                    match kind {
                        _ if !good => Outcome::NotFound,
                        OpKind::Get => Outcome::Value(b"value"),
                        OpKind::Delete => Outcome::Deleted,
                        _ => Outcome::Stored,
                    },
                );
            }
            Ok(())
        }

        fn verbs(&self) -> Option<Verbs> {
            Some(self.verbs)
        }
    }

    fn count(toy: &mut Toy) -> Result<Option<VerbsByKind>, Box<TargetError>> {
        let mut keys = KeyText::new(16, 40, 5).expect("a size");
        VerbsByKind::count(toy, &mut keys, &mut Values::new(32, 32), 40)
    }

    #[test]
    fn each_kind_is_counted_for_itself() {
        let mut toy = Toy::default();
        let mut keys = KeyText::new(16, 40, 5).expect("a size");
        for index in 0..40 {
            toy.keys.insert(keys.key(index).to_vec());
        }
        let counted = count(&mut toy).expect("no failure").expect("counts");
        let all = [
            (counted.lookup, 1.0),
            (counted.update, 3.0),
            (counted.insert, 4.0),
            (counted.delete, 2.0),
            (counted.add, 4.0),
        ];
        for (per_op, lists) in all {
            assert_eq!((per_op.verbs, per_op.round_trips), (2.0 * lists, lists));
        }
        assert_eq!(toy.keys.len(), 40, "all have values again");
        assert!(
            counted
                .to_string()
                .contains("insert 8.00 and 4.00, delete 4.00 and 2.00")
        );
    }

    #[test]
    fn a_missing_key_is_a_failure() {
        assert!(count(&mut Toy::default()).is_err_and(|error| error.what.contains("NotFound")));
    }
}
