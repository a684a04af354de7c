//! Random operations against the plainest model, a `BTreeMap`. In cache mode a hit must be the model's value and
//! a key the model lacks must be a miss; in store mode the two must agree on everything.

mod common;

use common::{FIFO, hash_at, options};
use drover_mem::NativeCpu;
use drover_store::{Condition, Erew, Hint, Key, Mode, Partition, PutOutcome};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Put {
        key: u8,
        len: usize,
        ttl_s: u32,
    },
    PutIf {
        key: u8,
        len: usize,
        version_offset: u32,
    },
    Get {
        key: u8,
    },
    LookAhead {
        key: u8,
    },
    Delete {
        key: u8,
    },
    SetExpiry {
        key: u8,
        ttl_s: u32,
    },
    Wait {
        s: u32,
    },
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0u8..48;
    let long = if cfg!(miri) { 900..960 } else { 900usize..1400 };
    let len = prop_oneof![40 => 0usize..40, 20 => 0usize..300, if cfg!(miri) { 1 } else { 10 } => long];
    let ttl_s = prop_oneof![3 => Just(0u32), 1 => 1u32..20];
    prop_oneof![
        40 => (key.clone(), len.clone(), ttl_s.clone()).prop_map(|(key, len, ttl_s)| Op::Put { key, len, ttl_s }),
        5 => (key.clone(), len, 0u32..2).prop_map(|(key, len, version_offset)| Op::PutIf { key, len, version_offset }),
        30 => key.clone().prop_map(|key| Op::Get { key }),
        5 => key.clone().prop_map(|key| Op::LookAhead { key }),
        15 => key.clone().prop_map(|key| Op::Delete { key }),
        4 => (key, ttl_s).prop_map(|(key, ttl_s)| Op::SetExpiry { key, ttl_s }),
        4 => (1u32..5).prop_map(|s| Op::Wait { s }),
        1 => Just(Op::Clear),
    ]
}

#[derive(Clone, PartialEq, Debug)]
struct Stored {
    value: Vec<u8>,
    expire_s: u32,
    version: u32,
}

/// Key number `k`: few buckets, fewer tags, lengths from hash-only to long.
fn key_bytes(k: u8) -> Vec<u8> {
    vec![k; [0, 1, 8, 13, 16, 24, 100, 250][k as usize % 8]]
}

struct Run<const BITS: u32> {
    partition: Partition<Erew, BITS>,
    cpu: NativeCpu,
    model: BTreeMap<u8, Stored>,
    now_s: u32,
    lossless: bool,
    fill: u8,
    /// What the last look ahead said, of whatever key: used by every operation until the next.
    hint: Hint,
}

impl<const BITS: u32> Run<BITS> {
    fn new(mode: Mode) -> Self {
        let partition = Partition::create(&options(mode, 1 << 11, 4)).expect("memory");
        let lossless = mode == Mode::Store;
        Run {
            partition,
            cpu: NativeCpu::new(1),
            model: BTreeMap::new(),
            now_s: 1,
            lossless,
            fill: 0,
            hint: Hint::NONE,
        }
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let now_s = self.now_s;
        self.model.retain(|_, s| s.expire_s == 0 || s.expire_s > now_s);
        let expire = |ttl_s| if ttl_s == 0 { 0 } else { now_s + ttl_s };
        match *op {
            Op::Put { key, len, ttl_s } => self.put(key, len, expire(ttl_s), Condition::Always),
            Op::PutIf {
                key,
                len,
                version_offset,
            } => {
                let version = self.model.get(&key).map_or(7, |s| s.version + version_offset);
                self.put(key, len, 0, Condition::IfVersion(version))
            }
            Op::Get { key } => self.get(key),
            Op::LookAhead { key } => {
                let bytes = key_bytes(key);
                let key = self.key(key, &bytes);
                self.partition.prefetch_bucket(&self.cpu, key.hash, false);
                self.hint = self.partition.prefetch_item(&self.cpu, key.hash);
                Ok(())
            }
            Op::Delete { key } => {
                let bytes = key_bytes(key);
                let deleted = self.partition.delete(&self.cpu, self.key(key, &bytes), now_s);
                let present = self.model.remove(&key).is_some();
                prop_assert!(deleted == present || (present && !self.lossless));
                self.get(key)
            }
            Op::SetExpiry { key, ttl_s } => {
                let bytes = key_bytes(key);
                let set = self
                    .partition
                    .set_expiry(&self.cpu, self.key(key, &bytes), expire(ttl_s), now_s);
                prop_assert!(!set || self.model.contains_key(&key));
                prop_assert!(set || !self.lossless || !self.model.contains_key(&key));
                if let Some(stored) = self.model.get_mut(&key).filter(|_| set) {
                    stored.expire_s = expire(ttl_s);
                }
                Ok(())
            }
            Op::Wait { s } => {
                self.now_s += s;
                Ok(())
            }
            Op::Clear => {
                self.partition.clear();
                self.model.clear();
                Ok(())
            }
        }
    }

    fn key<'k>(&self, key: u8, bytes: &'k [u8]) -> Key<'k> {
        Key {
            hash: hash_at(u64::from(key), u16::from(key % 3), u64::from(key) << 40),
            bytes,
        }
    }

    fn put(&mut self, k: u8, len: usize, expire_s: u32, condition: Condition) -> Result<(), TestCaseError> {
        let bytes = key_bytes(k);
        self.fill = self.fill.wrapping_add(1);
        let value = vec![self.fill; len];
        let key = self.key(k, &bytes);
        let outcome = match condition {
            Condition::Always => self
                .partition
                .put_hinted(&self.cpu, key, &value, expire_s, self.now_s, self.hint),
            _ => self
                .partition
                .put_if(&self.cpu, key, &value, expire_s, self.now_s, condition),
        };
        let before = self.model.get(&k).map(|s| s.version);
        match outcome {
            PutOutcome::Stored { version } => {
                if let Condition::IfVersion(wanted) = condition {
                    prop_assert_eq!(before, Some(wanted));
                }
                self.model.insert(
                    k,
                    Stored {
                        value,
                        expire_s,
                        version,
                    },
                );
            }
            PutOutcome::Full => prop_assert!(self.lossless),
            PutOutcome::TooLarge => prop_assert!(false, "nothing here is too large"),
            PutOutcome::Present { version } => prop_assert_eq!(before, Some(version)),
            PutOutcome::Absent => prop_assert!(before.is_none() || !self.lossless),
        }
        let newest = matches!(outcome, PutOutcome::Stored { .. }).then(|| self.model[&k].clone());
        if newest.is_some() {
            prop_assert_eq!(
                self.look_up(k),
                newest,
                "what was just stored is there in either mode"
            );
        }
        self.get(k)
    }

    fn look_up(&mut self, k: u8) -> Option<Stored> {
        let bytes = key_bytes(k);
        let key = self.key(k, &bytes);
        let item = self.partition.get_hinted(&self.cpu, key, self.now_s, self.hint)?;
        assert_eq!(item.to_key(), bytes);
        Some(Stored {
            value: item.to_value(),
            expire_s: item.expire_s(),
            version: item.version(),
        })
    }

    fn get(&mut self, k: u8) -> Result<(), TestCaseError> {
        let got = self.look_up(k);
        let want = self.model.get(&k);
        if got.is_some() || self.lossless {
            prop_assert_eq!(got.as_ref(), want);
        }
        Ok(())
    }

    /// All items by scan: what is there is the model's, in store mode all of it.
    fn check_scan(&self) -> Result<(), TestCaseError> {
        let mut cursor = Some(0);
        let mut seen = 0;
        let mut wrong = None;
        while let Some(at) = cursor {
            cursor = self.partition.scan(at, self.now_s, |item| {
                let k = (item.hash().high >> 40) as u8;
                let stored = Stored {
                    value: item.to_value(),
                    expire_s: item.expire_s(),
                    version: item.version(),
                };
                seen += 1;
                if self.model.get(&k) != Some(&stored) {
                    wrong = Some(k);
                }
            });
        }
        prop_assert_eq!(wrong, None);
        prop_assert!(
            !self.lossless
                || seen
                    == self
                        .model
                        .values()
                        .filter(|s| s.expire_s == 0 || s.expire_s > self.now_s)
                        .count()
        );
        Ok(())
    }

    fn check_books(&self) -> Result<(), TestCaseError> {
        let stats = self.partition.stats();
        prop_assert!(stats.bytes <= stats.bytes_max);
        prop_assert!(!self.lossless || stats.items >= self.model.len() as u64);
        let mut visible = 0;
        (0..4).for_each(|b| _ = self.partition.scan(b, self.now_s, |_| visible += 1));
        prop_assert!(
            visible <= stats.items,
            "{} items visible, {} on the books",
            visible,
            stats.items
        );
        Ok(())
    }
}

fn run<const BITS: u32>(mode: Mode, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut run = Run::<BITS>::new(mode);
    for op in ops {
        run.apply(op)?;
    }
    run.check_scan()?;
    run.check_books()
}

const OPS: usize = if cfg!(miri) { 30 } else { 400 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 128 }))]

    #[test]
    fn cache_mode_hits_are_the_models_values(ops in prop::collection::vec(op(), 1..OPS)) {
        run::<48>(FIFO, &ops)?;
    }

    #[test]
    fn cache_mode_with_narrow_offsets(ops in prop::collection::vec(op(), 1..OPS)) {
        run::<13>(FIFO, &ops)?;
    }

    #[test]
    fn cache_mode_that_renews_what_is_read(ops in prop::collection::vec(op(), 1..OPS)) {
        run::<13>(Mode::Cache { move_to_head: 0.3 }, &ops)?;
    }

    #[test]
    fn store_mode_agrees_on_everything(ops in prop::collection::vec(op(), 1..OPS)) {
        run::<48>(Mode::Store, &ops)?;
    }
}

#[test]
fn the_model_catches_a_forgotten_delete() {
    let mut r = Run::<48>::new(FIFO);
    r.apply(&Op::Put {
        key: 1,
        len: 5,
        ttl_s: 0,
    })
    .expect("sound");
    r.model.remove(&1);
    assert!(
        r.apply(&Op::Get { key: 1 }).is_err(),
        "a hit that the model lacks"
    );
    let mut r = Run::<48>::new(Mode::Store);
    r.apply(&Op::Put {
        key: 1,
        len: 5,
        ttl_s: 0,
    })
    .expect("sound");
    r.model.get_mut(&1).expect("stored").value[4] ^= 1;
    assert!(r.apply(&Op::Get { key: 1 }).is_err(), "another value");
    assert!(r.check_scan().is_err());
}
