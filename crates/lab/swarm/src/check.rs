//! Rules that every run must satisfy: checks of the record only, independent of the cluster.

use crate::record::{End, Entry, HOT_KEY, Record};
use crate::reply::{found, written};
use drover_base::Ns;
use drover_kv::Refusal;
use drover_sim::Ps;
use drover_testkit::history::{Call, Event};
use drover_testkit::linear::{Model, Strict};

/// A violation of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Name of the rule.
    pub rule: &'static str,
    /// What was observed.
    pub text: String,
}

impl Violation {
    /// Creates a violation of `rule` with the observation `text`.
    pub fn new(rule: &'static str, text: impl Into<String>) -> Violation {
        let text = text.into();
        Violation { rule, text }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}

/// Maximum number of sets of completed operations that the checker remembers per key; a history that needs more is not
/// checked.
const CONFIGURATIONS_MAX: usize = 1 << 17;
/// Tolerance after an operation's deadline, because clients check their timers only about every millisecond.
pub const DEADLINE_SLACK: Ns = Ns::from_ms(5);
/// Tolerance after an item's expiry: servers read the clock once per step.
const EXPIRY_SLACK: Ns = Ns::from_ms(1);

/// Result of [`check`].
#[derive(Debug, Default)]
pub struct Verdict {
    /// Violations found.
    pub violations: Vec<Violation>,
    /// Number of keys whose histories were checked for linearizability, with either result.
    pub judged: usize,
    /// Number of keys whose histories overlap too much to be checked for linearizability.
    pub unjudged: usize,
}

/// Facts about a run that its record does not contain.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// Whether faults were injected that may make operations end indeterminate or refused as unavailable.
    pub troubled: bool,
    /// Time, picoseconds, after which no operation that was indeterminate by then may take effect: every client has a
    /// session again, and nothing is in flight.
    pub settled_at: u64,
    /// Whether the server may refuse PUTs because its memory or table is full.
    pub may_be_full: bool,
    /// Length of values, bytes, above which the server may refuse them as too large.
    pub refused_above: u64,
    /// Maximum duration of an operation. [`DEADLINE_SLACK`] is allowed in addition, and the time in which the client's
    /// core is stopped.
    pub deadline: Ns,
    /// Whether an update may become indeterminate only at its deadline, because clients send it again over another session
    /// and no server loses what it knows.
    pub sends_again: bool,
    /// Longest time after its expiry at which an item may be read; [`EXPIRY_SLACK`] is allowed in addition.
    pub expiry_lag: Ns,
    /// Number of updates that the servers have executed or refused, if all of them have run from the beginning; `None`:
    /// nobody knows.
    pub executed: Option<u64>,
    /// Whether items may disappear without a DELETE: because they expire or are evicted, or a server crashes.
    pub forgets: bool,
    /// Whether the first client reads the hot key after each of its PUTs, most of which are of new keys, and may not miss it.
    pub hot_key: bool,
}

/// Checks the rules on the record of a run: results make sense, refusals have a reason, no expired item is read,
/// operations end within their deadline, no update is executed twice, the operations of every key are linearizable, and a
/// hot key is kept.
pub fn check(record: &Record, circumstances: Circumstances) -> Verdict {
    let mut verdict = Verdict::default();
    let nonsense = record.nonsense.iter();
    verdict
        .violations
        .extend(nonsense.map(|text| Violation::new("nonsense", text)));
    refusals(record, circumstances, &mut verdict.violations);
    expiry(record, circumstances.expiry_lag, &mut verdict.violations);
    ends(record, circumstances.deadline, &mut verdict.violations);
    if circumstances.sends_again {
        unknown(record, circumstances.deadline, &mut verdict.violations);
    }
    if let Some(executed) = circumstances.executed {
        once(record, executed, &mut verdict.violations);
    }
    if circumstances.hot_key {
        kept(record, &mut verdict.violations);
    }
    linearizability(record, circumstances, &mut verdict);
    verdict
}

/// Every key is a register, or a cached register where items may disappear; the operations of a client keep their
/// order.
fn linearizability(record: &Record, circumstances: Circumstances, verdict: &mut Verdict) {
    let strict = Strict {
        unknown_until: circumstances.settled_at,
        configurations_max: CONFIGURATIONS_MAX,
    };
    let model = match circumstances.forgets {
        true => Model::Cache,
        false => Model::Register,
    };
    for (key, events) in record.history().keys() {
        let answer = strict.is_linearizable(events, model);
        verdict.judged += usize::from(answer.is_some());
        match answer {
            Some(true) => {}
            None => verdict.unjudged += 1,
            Some(false) => {
                let head = format!("no order explains key {} as a {model:?}", key.escape_ascii());
                let lines: Vec<String> = shortest(events, model, &strict).iter().map(line).collect();
                let text = format!("{head}:\n{}", lines.join("\n"));
                verdict.violations.push(Violation::new("linearizable", text));
            }
        }
    }
}

/// The smallest history that is still wrong: calls up to the first return that cannot be explained, without those that
/// do not matter.
fn shortest(events: &[Event], model: Model, strict: &Strict) -> Vec<Event> {
    let wrong = |events: &[Event]| strict.is_linearizable(events, model) == Some(false);
    let mut left = events.to_vec();
    left.sort_by_key(|event| event.called_at);
    let mut returns: Vec<u64> = left.iter().filter_map(|event| event.returned_at).collect();
    returns.sort_unstable();
    // An operation that returns later cannot explain an earlier return, but its effect may be visible by then.
    let cut = |until: u64| -> Vec<Event> {
        let called = left.iter().filter(|event| event.called_at <= until);
        called
            .map(|event| match event.returned_at {
                Some(at) if at > until => Event {
                    returned_at: None,
                    ..*event
                },
                _ => *event,
            })
            .collect()
    };
    let first = returns.partition_point(|&until| !wrong(&cut(until)));
    if let Some(&until) = returns.get(first) {
        left = cut(until);
    }
    let mut at = 0;
    while at < left.len() {
        let mut without = left.clone();
        without.remove(at);
        // A GET of a value that no PUT stored would be a different violation.
        if wrong(&without) && explains_its_reads(&without) {
            left = without;
        } else {
            at += 1;
        }
    }
    left
}

/// Whether the history contains the write of every value that was found.
fn explains_its_reads(events: &[Event]) -> bool {
    events.iter().all(|event| match found(event.call) {
        Some(id) => events.iter().any(|put| written(put.call) == Some(id)),
        None => true,
    })
}

fn line(event: &Event) -> String {
    let returned = match event.returned_at {
        Some(at) => format!("{}", Ps(at)),
        None => "never".to_owned(),
    };
    format!(
        "  client {} {:?} from {} to {returned}",
        event.client,
        event.call,
        Ps(event.called_at)
    )
}

/// Checks that no operation is refused without a reason.
fn refusals(record: &Record, circumstances: Circumstances, found: &mut Vec<Violation>) {
    let Circumstances {
        troubled,
        may_be_full,
        refused_above,
        ..
    } = circumstances;
    for (token, entry) in record.entries.iter().enumerate() {
        let wrong = match entry.end {
            End::Refused(_, Refusal::Full | Refusal::TableFull) => !may_be_full,
            End::Refused(_, Refusal::TooLarge) => u64::from(entry.value_len) <= refused_above,
            End::Refused(_, Refusal::Unavailable) | End::Unknown(_) => !troubled,
            End::Refused(..) => true,
            End::Pending | End::Answered(_) | End::Orphaned => false,
        };
        if wrong {
            let text = format!("operation {token} was refused without a reason: {entry:?}");
            found.push(Violation::new("refused", text));
        }
    }
}

/// Checks that every operation ends within its deadline; time in which its client's core is stopped does not count.
fn ends(record: &Record, deadline: Ns, found: &mut Vec<Violation>) {
    let longest = Ps::from(deadline + DEADLINE_SLACK).0;
    for (token, entry) in record.entries.iter().enumerate() {
        let (End::Answered(at) | End::Unknown(at) | End::Refused(at, _)) = entry.end else {
            continue;
        };
        let took = at - entry.called_at;
        if took <= longest {
            continue;
        }
        let own = record.stalls.iter().filter(|stall| stall.client == entry.client);
        let stood: u64 = own
            .map(|stall| {
                let until = at.min(stall.from + stall.time);
                until.saturating_sub(entry.called_at.max(stall.from))
            })
            .sum();
        if took > longest + stood {
            let text = format!("operation {token} took {}: {entry:?}", Ps(took));
            found.push(Violation::new("ends", text));
        }
    }
}

/// Checks that no update becomes indeterminate before its deadline, which the client counts in whole nanoseconds.
fn unknown(record: &Record, deadline: Ns, found: &mut Vec<Violation>) {
    let deadline = Ps::from(deadline.since(Ns(1))).0;
    for (token, entry) in record.entries.iter().enumerate() {
        if matches!(entry.end, End::Unknown(at) if at < entry.called_at + deadline) {
            let text = format!("operation {token} was given up before its deadline: {entry:?}");
            found.push(Violation::new("unknown", text));
        }
    }
}

/// Checks that servers have executed no more updates than clients have called. An update that is executed again over what
/// somebody else has stored since is wrong in every history; one that is executed again at once shows only here.
fn once(record: &Record, executed: u64, found: &mut Vec<Violation>) {
    let is_update = |entry: &&Entry| !matches!(entry.call, Call::Get(_));
    let called = record.entries.iter().filter(is_update).count() as u64;
    if executed > called {
        let text = format!("{executed} updates were executed, but only {called} called");
        found.push(Violation::new("once", text));
    }
}

/// Checks that a cache keeps the hot key as long as it is read after every PUT: the operations up to the first that was not
/// answered, was called before the previous one had ended, or read another key, as the probe after the trouble does.
///
/// That is promised if items are of about one length, no longer than a 64th of the memory, and few others are put again and
/// none is read. Then the hot item has a use at least when it comes to the tail of a log, because others were put since it
/// entered. To keep it costs as many bytes of those that may be copied as the item has, and each PUT adds twice as many.
/// See `docs/eviction.md`.
fn kept(record: &Record, found: &mut Vec<Violation>) {
    let (mut last_end, mut is_stored) = (0, false);
    for (token, entry) in record.entries.iter().enumerate() {
        let End::Answered(at) = entry.end else { return };
        if entry.called_at < last_end {
            return;
        }
        last_end = at;
        match entry.call {
            Call::Put(_) => is_stored |= entry.key == HOT_KEY,
            Call::Get(None) if entry.key == HOT_KEY && is_stored => {
                let text =
                    format!("the key that is read after every PUT was evicted: operation {token}, {entry:?}");
                found.push(Violation::new("kept", text));
            }
            Call::Get(_) if entry.key != HOT_KEY => return,
            _ => {}
        }
    }
}

/// Checks that no GET returns an expired item.
fn expiry(record: &Record, lag: Ns, found: &mut Vec<Violation>) {
    for get in &record.entries {
        let (Call::Get(Some(id)), End::Answered(_)) = (get.call, get.end) else {
            continue;
        };
        let Some(&Entry {
            ttl_s: ttl_s @ 1..,
            end: End::Answered(stored_at),
            ..
        }) = record.entries.get(id as usize)
        else {
            continue;
        };
        let life = Ps::from(Ns::from_s(u64::from(ttl_s)) + EXPIRY_SLACK + lag);
        if get.called_at > stored_at + life.0 {
            let text = format!(
                "a value stored by {} for {ttl_s} s was read by {get:?}",
                Ps(stored_at)
            );
            found.push(Violation::new("expired", text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Stall;

    const DEADLINE: Ns = Ns::from_ms(100);

    fn circumstances(troubled: bool) -> Circumstances {
        Circumstances {
            troubled,
            settled_at: 100 * SECOND,
            may_be_full: false,
            refused_above: u64::MAX,
            deadline: DEADLINE,
            sends_again: false,
            expiry_lag: Ns::ZERO,
            executed: None,
            forgets: false,
            hot_key: false,
        }
    }

    fn entry(call: Call, called_at: u64, end: End) -> Entry {
        Entry {
            client: 0,
            key: 1,
            call,
            value_len: 8,
            ttl_s: 1,
            called_at,
            end,
        }
    }

    fn rules(entries: &[Entry], troubled: bool) -> Vec<&'static str> {
        let record = Record {
            entries: entries.to_vec(),
            ..Record::default()
        };
        let verdict = check(&record, circumstances(troubled));
        verdict
            .violations
            .iter()
            .map(|violation| violation.rule)
            .collect()
    }

    const SECOND: u64 = 1_000_000_000_000;

    #[test]
    fn an_operation_ends_in_time_in_which_its_client_runs() {
        let late = Ps::from(DEADLINE + DEADLINE_SLACK).0 + 2;
        let mut record = Record {
            entries: vec![entry(Call::Get(None), 1, End::Answered(late + 1))],
            ..Record::default()
        };
        let rules = |record: &Record| {
            let mut found = Vec::new();
            ends(record, DEADLINE, &mut found);
            found.len()
        };
        assert_eq!(rules(&record), 1);
        let stall = |client| Stall {
            client,
            from: 5,
            time: 10,
        };
        record.stalls.push(stall(1));
        assert_eq!(rules(&record), 1, "another client stood still");
        record.stalls.push(stall(0));
        assert_eq!(rules(&record), 0);
    }

    #[test]
    fn a_hot_key_is_missed_only_if_it_was_not_read_in_between() {
        let call = |key, call, called_at, end| Entry {
            key,
            ..entry(call, called_at, end)
        };
        let put = |key, at| call(key, Call::Put(0), at, End::Answered(at + 1));
        let miss = |at| call(HOT_KEY, Call::Get(None), at, End::Answered(at + 1));
        let found = |entries: &[Entry]| {
            let record = Record {
                entries: entries.to_vec(),
                ..Record::default()
            };
            let mut found = Vec::new();
            kept(&record, &mut found);
            found.len()
        };
        assert_eq!(found(&[miss(1), put(HOT_KEY, 3), put(7, 5)]), 0);
        assert_eq!(found(&[put(HOT_KEY, 1), miss(3), put(7, 5), miss(7)]), 2);
        let unknown = call(7, Call::Put(1), 3, End::Unknown(4));
        assert_eq!(found(&[put(HOT_KEY, 1), unknown, miss(5)]), 0);
        assert_eq!(
            found(&[put(HOT_KEY, 1), put(7, 5), miss(5)]),
            0,
            "at the same time"
        );
        let probe = call(7, Call::Get(None), 3, End::Answered(4));
        assert_eq!(found(&[put(HOT_KEY, 1), probe, put(8, 5), miss(7)]), 0);
    }

    #[test]
    fn what_expired_may_not_be_read() {
        let put = entry(Call::Put(0), 1, End::Answered(10));
        let get = |called_at| entry(Call::Get(Some(0)), called_at, End::Answered(called_at + 1));
        assert!(rules(&[put, get(SECOND)], true).is_empty());
        assert_eq!(rules(&[put, get(SECOND + SECOND / 100)], true), ["expired"]);
    }

    #[test]
    fn failures_need_a_reason() {
        let failed = entry(Call::Get(None), 1, End::Refused(2, Refusal::Unavailable));
        assert!(rules(&[failed], true).is_empty());
        assert_eq!(rules(&[failed], false), ["refused"]);
        let nonsense = entry(Call::Put(0), 1, End::Refused(2, Refusal::BadRequest));
        assert_eq!(rules(&[nonsense], true), ["refused"]);
    }

    #[test]
    fn an_update_that_can_be_sent_again_is_not_given_up() {
        let record = |at| Record {
            entries: vec![entry(Call::Put(0), 1, End::Unknown(at))],
            ..Record::default()
        };
        let rules = |at, sends_again| {
            let circumstances = Circumstances {
                sends_again,
                ..circumstances(true)
            };
            check(&record(at), circumstances).violations.len()
        };
        let deadline = 1 + Ps::from(DEADLINE.since(Ns(1))).0;
        assert_eq!([rules(deadline - 1, true), rules(deadline - 1, false)], [1, 0]);
        assert_eq!(rules(deadline, true), 0);
    }

    #[test]
    fn an_update_is_not_executed_more_often_than_it_is_called() {
        let record = Record {
            entries: vec![
                entry(Call::Put(0), 1, End::Answered(2)),
                entry(Call::Delete(Some(true)), 3, End::Answered(4)),
                entry(Call::Get(None), 5, End::Answered(6)),
            ],
            ..Record::default()
        };
        let rules = |executed| {
            let circumstances = Circumstances {
                executed,
                ..circumstances(true)
            };
            check(&record, circumstances).violations.len()
        };
        assert_eq!([None, Some(1), Some(2), Some(3)].map(rules), [0, 0, 0, 1]);
    }

    #[test]
    fn a_stale_read_is_told_in_as_few_lines_as_it_takes() {
        let mut entries = vec![
            entry(Call::Put(0), 1, End::Answered(2)),
            entry(Call::Put(1), 3, End::Answered(4)),
            entry(Call::Get(Some(0)), 5, End::Answered(6)),
        ];
        entries.extend((0..20).map(|n| entry(Call::Get(Some(1)), 10 + n, End::Answered(11 + n))));
        let record = Record {
            entries,
            ..Record::default()
        };
        let verdict = check(&record, circumstances(true));
        assert_eq!(verdict.violations.len(), 1);
        assert_eq!(
            verdict.violations[0].text.lines().count(),
            4,
            "{}",
            verdict.violations[0]
        );
    }
}
