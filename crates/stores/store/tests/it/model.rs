//! Random operations against the simplest model, a `BTreeMap`. In cache mode a hit must be the model's value, and a key
//! that the model lacks must be a miss; in store mode both must agree on everything.

use crate::common::{ALL, FIFO, S3_FIFO, hash_at, options};
use drover_mem::NativeCpu;
use drover_store::{
    Condition, EXTRAS_BYTES, ExtraOutcome, ExtraPut, Hint, ItemRef, Join, Key, Mark, Mode, NewCas, Partition,
    PutOutcome, TERMS_BYTES, item_bytes,
};
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
    PutExtra {
        key: u8,
        len: usize,
        join: Join,
        keep: bool,
        condition: Wanted,
        cas: Option<u64>,
        /// Odd: accesses are recorded. The flags are this divided by 2, and 0 in half of all cases.
        flags: u32,
        ttl_s: u32,
    },
    Mark {
        key: u8,
        mark: Mark,
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

/// A condition without the number, which the model supplies.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Always,
    Absent,
    Present,
    /// The current CAS number plus this.
    Cas(i64),
    CasOrOlder(i64),
}

fn put_extra() -> impl Strategy<Value = Op> {
    let join = prop_oneof![3 => Just(Join::Replace), 1 => Just(Join::Append), 1 => Just(Join::Prepend)];
    let condition = prop_oneof![
        4 => Just(Wanted::Always),
        1 => Just(Wanted::Absent),
        1 => Just(Wanted::Present),
        2 => (-1i64..2).prop_map(Wanted::Cas),
        2 => (-1i64..2).prop_map(Wanted::CasOrOlder),
    ];
    let cas = prop::option::weighted(0.2, 1u64 << 40..1 << 60);
    let flags = prop_oneof![0u32..2, any::<u32>()];
    let rest = (cas, flags, prop_oneof![Just(0u32), 1u32..90]);
    (0u8..48, 0usize..100, join, any::<bool>(), condition, rest).prop_map(
        |(key, len, join, keep, condition, (cas, flags, ttl_s))| Op::PutExtra {
            key,
            len,
            join,
            keep,
            condition,
            cas,
            flags,
            ttl_s,
        },
    )
}

fn mark() -> impl Strategy<Value = Op> {
    let cas = prop_oneof![
        4 => Just(NewCas::Keep),
        1 => Just(NewCas::Next),
        1 => (1u64 << 40..1 << 60).prop_map(NewCas::Exactly),
    ];
    let wish = || prop::option::weighted(0.2, any::<bool>());
    let expire_s = prop::option::weighted(0.2, prop_oneof![4 => 30u32..60, 1 => Just(0)]);
    (0u8..48, any::<bool>(), expire_s, wish(), wish(), cas).prop_map(
        |(key, access, expire_s, stale, won, cas)| Op::Mark {
            key,
            mark: Mark {
                access,
                expire_s,
                stale,
                won,
                cas,
            },
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0u8..48;
    let long = if cfg!(miri) { 900..960 } else { 900usize..1400 };
    let len = prop_oneof![40 => 0usize..40, 20 => 0usize..300, if cfg!(miri) { 1 } else { 10 } => long];
    let ttl_s = prop_oneof![3 => Just(0u32), 1 => 1u32..20];
    prop_oneof![
        40 => (key.clone(), len.clone(), ttl_s.clone()).prop_map(|(key, len, ttl_s)| Op::Put { key, len, ttl_s }),
        5 => (key.clone(), len, 0u32..2).prop_map(|(key, len, version_offset)| Op::PutIf { key, len, version_offset }),
        20 => put_extra(),
        20 => mark(),
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
    cas: u64,
    flags: u32,
    extras: Option<Extras>,
}

#[derive(Clone, Default, PartialEq, Debug)]
struct Extras {
    accessed_s: u32,
    fetched: bool,
    stale: bool,
    won: bool,
}

impl Stored {
    fn native(value: Vec<u8>, expire_s: u32, version: u32) -> Stored {
        let cas = u64::from(version);
        Stored {
            value,
            expire_s,
            version,
            cas,
            flags: 0,
            extras: None,
        }
    }

    /// What the item says; panics if it does not have the size of its kind.
    fn seen(item: ItemRef<'_>) -> Stored {
        let extras = Extras {
            accessed_s: item.accessed_s(),
            fetched: item.is_fetched(),
            stale: item.is_stale(),
            won: item.is_won(),
        };
        assert!(item.has_extras() || extras == Extras::default());
        let fields_bytes = item.bytes() - item_bytes(item.key_len(), item.value_len());
        let has_terms = item.expire_s() != 0 || item.flags() != 0;
        match (item.has_extras(), fields_bytes) {
            (true, bytes) => assert_eq!(bytes, TERMS_BYTES + EXTRAS_BYTES),
            (false, bytes) => assert!(bytes == TERMS_BYTES || (bytes == 0 && !has_terms)),
        }
        Stored {
            value: item.to_value(),
            expire_s: item.expire_s(),
            version: item.version(),
            cas: item.cas(),
            flags: item.flags(),
            extras: item.has_extras().then_some(extras),
        }
    }

    /// Applies `mark`; the new version is not known beforehand.
    fn mark(&mut self, mark: &Mark, now_s: u32) {
        let cas = match mark.cas {
            NewCas::Keep => self.cas,
            NewCas::Next => 0,
            NewCas::Exactly(cas) => cas,
        };
        self.cas = cas;
        self.expire_s = mark.expire_s.unwrap_or(self.expire_s);
        let must =
            mark.stale == Some(true) || mark.won == Some(true) || matches!(mark.cas, NewCas::Exactly(_));
        if must && self.extras.is_none() {
            self.extras = Some(Extras::default());
        }
        if let Some(extras) = &mut self.extras {
            if mark.access {
                (extras.accessed_s, extras.fetched) = (now_s, true);
            }
            extras.stale = mark.stale.unwrap_or(extras.stale);
            extras.won = mark.won.unwrap_or(extras.won);
        }
    }
}

/// Key number `k`: few buckets, fewer tags, lengths from hash-only to long.
fn key_bytes(k: u8) -> Vec<u8> {
    vec![k; [0, 1, 8, 13, 16, 24, 100, 250][k as usize % 8]]
}

/// Sizes of the partition: few buckets, and less space than the keys need. Neither is a power of two.
const LOG_BYTES: usize = 64 * 37;
const BUCKETS: u64 = 5;

struct Run {
    partition: Partition,
    cpu: NativeCpu,
    model: BTreeMap<u8, Stored>,
    now_s: u32,
    lossless: bool,
    /// Whether items are in a heap, whose tags count as their bytes.
    is_heap: bool,
    fill: u8,
    /// Result of the last prefetch, of any key: used by every operation until the next.
    hint: Hint,
}

impl Run {
    fn new(mode: Mode) -> Self {
        let partition = Partition::create(&options(mode, LOG_BYTES, BUCKETS as usize)).expect("memory");
        let lossless = mode == Mode::Store;
        Run {
            partition,
            cpu: NativeCpu::new(1),
            model: BTreeMap::new(),
            now_s: 1,
            lossless,
            is_heap: lossless || mode == Mode::Lru,
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
                let version = self
                    .model
                    .get(&key)
                    .map_or(7, |s| s.cas + u64::from(version_offset));
                self.put(key, len, 0, Condition::IfVersion(version))
            }
            Op::PutExtra {
                key,
                len,
                join,
                keep,
                condition,
                cas,
                flags,
                ttl_s,
            } => {
                let present = self.model.get(&key).map_or(7, |s| s.cas);
                let near = |by: i64| present.wrapping_add_signed(by);
                let (condition, or_older) = match condition {
                    Wanted::Always => (Condition::Always, false),
                    Wanted::Absent => (Condition::IfAbsent, false),
                    Wanted::Present => (Condition::IfPresent, false),
                    Wanted::Cas(by) => (Condition::IfVersion(near(by)), false),
                    Wanted::CasOrOlder(by) => (Condition::IfVersion(near(by)), true),
                };
                let given = vec![self.next_fill(); len];
                let put = ExtraPut {
                    value: &[&given[..len / 3], &[], &given[len / 3..]],
                    join,
                    expire_s: expire(ttl_s),
                    flags: flags / 2,
                    keep,
                    condition,
                    or_older,
                    cas,
                    track_access: flags % 2 == 1,
                    copied: None,
                };
                self.put_extra(key, &put)
            }
            Op::Mark { key, mark } => self.mark(key, mark),
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

    fn next_fill(&mut self) -> u8 {
        self.fill = self.fill.wrapping_add(1);
        self.fill
    }

    fn put(&mut self, k: u8, len: usize, expire_s: u32, condition: Condition) -> Result<(), TestCaseError> {
        let bytes = key_bytes(k);
        let value = vec![self.next_fill(); len];
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
                    prop_assert_eq!(self.model.get(&k).map(|s| s.cas), Some(wanted));
                }
                self.model.insert(k, Stored::native(value, expire_s, version));
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

    fn put_extra(&mut self, k: u8, put: &ExtraPut<'_>) -> Result<(), TestCaseError> {
        let (bytes, given, now_s) = (key_bytes(k), put.value.concat(), self.now_s);
        let (join, keep, condition) = (put.join, put.keep, put.condition);
        // A cache may have evicted the key: then the model removes it, too.
        if self.look_up(k).is_none() {
            prop_assert!(!self.lossless || !self.model.contains_key(&k));
            self.model.remove(&k);
        }
        let before = self.model.get(&k).cloned();
        let outcome = self
            .partition
            .put_extra(&self.cpu, self.key(k, &bytes), put, now_s);
        let late = match (condition, &before) {
            (Condition::IfVersion(want), Some(s)) if put.or_older => want < s.cas,
            _ => false,
        };
        let allowed = match (condition, &before) {
            (Condition::Always, _) => true,
            (Condition::IfAbsent, s) => s.is_none(),
            (_, None) => false,
            (Condition::IfPresent, Some(_)) => true,
            (Condition::IfVersion(want), Some(s)) if put.or_older => want <= s.cas,
            (Condition::IfVersion(want), Some(s)) => want == s.cas,
        };
        let cas_now = match outcome {
            ExtraOutcome::Stored { cas } => {
                prop_assert!(allowed);
                cas
            }
            ExtraOutcome::Full => {
                prop_assert!(self.lossless && allowed);
                return self.get(k);
            }
            ExtraOutcome::TooLarge => {
                let old_len = before.map_or(0, |s| s.value.len());
                prop_assert!(join != Join::Replace && old_len + given.len() > 1300);
                return self.get(k);
            }
            ExtraOutcome::Present { cas } => {
                prop_assert!(!allowed);
                prop_assert_eq!(before.map(|s| s.cas), Some(cas));
                return self.get(k);
            }
            ExtraOutcome::Absent => {
                prop_assert!(!allowed && before.is_none());
                return self.get(k);
            }
        };
        prop_assert!(put.cas.is_none_or(|cas| cas == cas_now));
        let old = before.unwrap_or_else(|| Stored::native(Vec::new(), put.expire_s, 0));
        let was = old.extras.clone().unwrap_or_default();
        let kept = keep && old.version != 0;
        let mut extras = Extras {
            accessed_s: if put.track_access { now_s } else { 0 },
            ..Default::default()
        };
        if late {
            (extras.stale, extras.won) = (true, was.won);
        }
        if kept && join == Join::Replace {
            extras = was;
        }
        let needed = put.track_access || put.cas.is_some() || extras != Extras::default();
        let want = Stored {
            value: match join {
                Join::Replace => given,
                Join::Append => [old.value, given].concat(),
                Join::Prepend => [given, old.value].concat(),
            },
            expire_s: if late || kept { old.expire_s } else { put.expire_s },
            version: 0,
            cas: cas_now,
            flags: if kept { old.flags } else { put.flags },
            extras: needed.then_some(extras),
        };
        self.adopt(k, want, Some(old.version))
    }

    /// The model adopts the stored item if it equals `want` except for the version, which must not be `old`.
    fn adopt(&mut self, k: u8, mut want: Stored, old: Option<u32>) -> Result<(), TestCaseError> {
        // An item that expires now must not be found.
        if want.expire_s != 0 && want.expire_s <= self.now_s {
            self.model.insert(k, want);
            self.model
                .retain(|_, s| s.expire_s == 0 || s.expire_s > self.now_s);
            return self.get(k);
        }
        let seen = self.look_up(k);
        prop_assert!(seen.is_some(), "what was just stored is there in either mode");
        let version = seen.as_ref().map_or(0, |s| s.version);
        prop_assert_ne!(Some(version), old);
        want.version = version;
        prop_assert_eq!(seen.as_ref(), Some(&want));
        self.model.insert(k, want);
        Ok(())
    }

    fn mark(&mut self, k: u8, mark: Mark) -> Result<(), TestCaseError> {
        let bytes = key_bytes(k);
        let (key, now_s, hint) = (self.key(k, &bytes), self.now_s, self.hint);
        let before = self.look_up(k);
        let mut shown = None;
        let decide = |item: ItemRef<'_>| {
            shown = Some(Stored::seen(item));
            mark
        };
        let after = if mark.access {
            self.partition.get_and_mark(&self.cpu, key, now_s, hint, decide)
        } else {
            self.partition.mark(&self.cpu, key, now_s, decide)
        };
        let after = after.map(Stored::seen);
        prop_assert_eq!(&shown, &before);
        let Some(mut want) = before else {
            prop_assert_eq!(after, None);
            return self.get(k);
        };
        prop_assert_eq!(Some(&want), self.model.get(&k));
        let after = after.expect("it was there");
        let old = want.version;
        let unable = after.extras.is_none();
        want.mark(&mark, now_s);
        if want.extras.is_some() && unable {
            prop_assert!(self.lossless, "no space for extras");
            return self.get(k);
        }
        if mark.cas == NewCas::Next {
            want.cas = after.cas;
        }
        want.version = after.version;
        prop_assert_eq!(&after, &want);
        prop_assert_eq!(mark.cas == NewCas::Keep, old == want.version);
        self.adopt(k, want, None)
    }

    fn look_up(&mut self, k: u8) -> Option<Stored> {
        let bytes = key_bytes(k);
        let key = self.key(k, &bytes);
        let item = self.partition.get_hinted(&self.cpu, key, self.now_s, self.hint)?;
        assert_eq!(item.to_key(), bytes);
        Some(Stored::seen(item))
    }

    fn get(&mut self, k: u8) -> Result<(), TestCaseError> {
        let got = self.look_up(k);
        let want = self.model.get(&k);
        if got.is_some() || self.lossless {
            prop_assert_eq!(got.as_ref(), want);
        }
        Ok(())
    }

    /// Checks all items by scan: each is in the model, and in store mode none is missing.
    fn check_scan(&self) -> Result<(), TestCaseError> {
        let mut seen = 0;
        let mut wrong = None;
        self.partition.scan(ALL, self.now_s, |item| {
            // Without a key, the hash is the key.
            let by_hash = item.hash_key().map(|hash| (hash.high >> 40) as u8);
            let k = by_hash.unwrap_or_else(|| item.to_key()[0]);
            let stored = Stored::seen(item);
            seen += 1;
            if self.model.get(&k) != Some(&stored) {
                wrong = Some(k);
            }
        });
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
        let (mut items, mut bytes) = (0, 0);
        // Time 0: expired items are still counted until somebody finds them.
        self.partition.scan(ALL, 0, |item| {
            items += 1;
            bytes += item.bytes() as u64;
        });
        prop_assert_eq!(items, stats.items);
        prop_assert!(bytes == stats.bytes || self.is_heap);
        let gone = stats.evicted() + stats.expired + stats.reclaimed + stats.deletes + stats.cleared;
        prop_assert_eq!(stats.inserts, stats.items + gone);
        Ok(())
    }
}

fn run(mode: Mode, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut run = Run::new(mode);
    for op in ops {
        run.apply(op)?;
        run.check_books()?;
    }
    run.check_scan()?;
    run.check_books()
}

const OPS: usize = if cfg!(miri) { 30 } else { 400 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 128 }))]

    #[test]
    fn cache_mode_hits_are_the_models_values(ops in prop::collection::vec(op(), 1..OPS)) {
        run(FIFO, &ops)?;
    }

    #[test]
    fn s3_fifo_hits_are_the_models_values(ops in prop::collection::vec(op(), 1..OPS)) {
        run(S3_FIFO, &ops)?;
    }

    #[test]
    fn lru_hits_are_the_models_values(ops in prop::collection::vec(op(), 1..OPS)) {
        run(Mode::Lru, &ops)?;
    }

    #[test]
    fn store_mode_agrees_on_everything(ops in prop::collection::vec(op(), 1..OPS)) {
        run(Mode::Store, &ops)?;
    }
}

#[test]
fn the_model_catches_a_forgotten_delete() {
    let mut r = Run::new(FIFO);
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
    let mut r = Run::new(Mode::Store);
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

#[test]
fn the_model_catches_a_forgotten_mark() {
    let mut r = Run::new(FIFO);
    let put = ExtraPut {
        value: &[b"value"],
        track_access: true,
        ..Default::default()
    };
    r.put_extra(1, &put).expect("sound");
    let mark = Mark {
        access: true,
        ..Default::default()
    };
    r.mark(1, mark).expect("sound");
    let extras = r
        .model
        .get_mut(&1)
        .and_then(|s| s.extras.as_mut())
        .expect("extras");
    extras.fetched = false;
    assert!(r.apply(&Op::Get { key: 1 }).is_err(), "a mark the model lacks");
    assert!(r.check_scan().is_err());
}
