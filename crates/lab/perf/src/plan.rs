//! [`Plan`]: a measurement, with perftest's letters and defaults, and the check that a fabric supports it.

use crate::PerfError;
use drover_base::Ns;
use drover_verbs::{Caps, QpKind};
use std::fmt;
use std::str::FromStr;

/// Verb to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// SEND, for which the other end posts RECVs.
    Send,
    /// RDMA WRITE without immediate data.
    Write,
    /// RDMA READ.
    Read,
    /// Compare-and-swap or fetch-and-add of 8 bytes: see [`Plan::atomic`].
    Atomic,
}

/// What a test measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// Time per SEND or WRITE (half a round trip), or per READ or atomic (from post to polled completion).
    Latency,
    /// Completed requests per second, and bandwidth, with many requests in flight.
    Rate,
}

/// A test: a verb and what is measured of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// Verb that is measured.
    pub verb: Verb,
    /// What is measured: latency or rate.
    pub metric: Metric,
}

/// Every test by name; perftest's name has the prefix `ib_`, and `_` for `-`.
const OPS: [(&str, Verb, Metric); 8] = [
    ("send-lat", Verb::Send, Metric::Latency),
    ("write-lat", Verb::Write, Metric::Latency),
    ("read-lat", Verb::Read, Metric::Latency),
    ("atomic-lat", Verb::Atomic, Metric::Latency),
    ("send-bw", Verb::Send, Metric::Rate),
    ("write-bw", Verb::Write, Metric::Rate),
    ("read-bw", Verb::Read, Metric::Rate),
    ("atomic-bw", Verb::Atomic, Metric::Rate),
];

impl Op {
    /// All eight tests: each verb with each metric.
    pub fn all() -> impl Iterator<Item = Op> {
        OPS.into_iter().map(|(_, verb, metric)| Op { verb, metric })
    }

    /// Name on the command line, such as `write-lat`.
    pub fn name(self) -> &'static str {
        let found = OPS
            .iter()
            .find(|(_, verb, metric)| (*verb, *metric) == (self.verb, self.metric));
        found.expect("every pair has a line").0
    }

    /// Code in messages: the index in the table.
    pub(crate) fn code(self) -> u8 {
        Op::all()
            .position(|op| op == self)
            .expect("every pair has a line") as u8
    }

    pub(crate) fn of_code(code: u8) -> Option<Op> {
        Op::all().nth(usize::from(code))
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Op {
    type Err = String;

    /// Parses `write-lat`, or perftest's `ib_write_lat`.
    fn from_str(text: &str) -> Result<Op, String> {
        let plain = text.strip_prefix("ib_").unwrap_or(text).replace('_', "-");
        Op::all().find(|op| op.name() == plain).ok_or_else(|| {
            let names: Vec<&str> = OPS.iter().map(|(name, ..)| *name).collect();
            format!("unknown test {text}; known tests: {}", names.join(", "))
        })
    }
}

/// Atomic operation that a test of [`Verb::Atomic`] posts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atomic {
    /// Fetch-and-add of 1.
    FetchAdd,
    /// Compare-and-swap that replaces 0 by 1: at most the first one swaps; the others cost as much.
    CompareSwap,
}

impl fmt::Display for Atomic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Atomic::FetchAdd => "FETCH_AND_ADD",
            Atomic::CompareSwap => "CMP_AND_SWAP",
        })
    }
}

/// Options of a measurement, which both ends must share. The client chooses them and sends them to the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Test to run: verb and metric.
    pub op: Op,
    /// Kind of queue pair: RC, UC or UD.
    pub kind: QpKind,
    /// Sizes of messages to measure, bytes, at least one. Each is measured alone and is one row of the table.
    pub sizes: Vec<u32>,
    /// Number of measured iterations per row, after the warm-up. An iteration is a round trip in a latency test, a
    /// completed request in a rate test. At least 1, even if `duration` replaces it.
    pub iterations: u64,
    /// Time for which each row is measured, after the warm-up; `None`: `iterations` decides.
    pub duration: Option<Ns>,
    /// Number of iterations at the start of each row that are not measured.
    pub warm_up: u64,
    /// Depth of the send queue at each end; in a rate test also the maximum number of requests in flight.
    pub tx_depth: u32,
    /// Depth of the receive queue at each end; in tests of SEND also the maximum number of RECVs posted.
    pub rx_depth: u32,
    /// SENDs and WRITEs of up to this many bytes are inline.
    pub inline_bytes: u32,
    /// One request in this many is signaled; more often if the send queue is short, see
    /// [`signal_every`](Plan::signal_every). Without effect in latency tests of READ and atomics, where every request
    /// is signaled.
    pub cq_mod: u32,
    /// Number of requests per post in a rate test: 1 to `tx_depth`.
    pub post_list: u32,
    /// Operation that tests of atomics post; unused by other tests.
    pub atomic: Atomic,
}

/// Default inline limit of latency tests, bytes. As perftest's for WRITE.
const INLINE_LATENCY: usize = 220;
/// Maximum message size, bytes: an end takes four times as much memory *(our choice)*.
const SIZE_MAX: usize = 64 << 20;
/// Exponents of all sizes: powers of two from 2 B. As perftest's `-a`.
const ALL_SHIFTS: std::ops::RangeInclusive<u32> = 1..=23;

impl Plan {
    /// Plan for `op` with perftest's defaults, over RC and with one message size. Depths and inline limit are lowered
    /// to what `caps` allow; the size is not, so [`check`](Plan::check) may fail.
    pub fn new(op: Op, caps: &Caps) -> Plan {
        let latency = op.metric == Metric::Latency;
        let size = match op.verb {
            Verb::Atomic => 8,
            _ if latency => 2,
            _ => 65_536,
        };
        Plan {
            op,
            kind: QpKind::Rc,
            sizes: vec![size],
            iterations: if latency || op.verb == Verb::Read {
                1000
            } else {
                5000
            },
            duration: None,
            warm_up: 100,
            tx_depth: 128.min(caps.send_depth_max) as u32,
            rx_depth: 512.min(caps.recv_depth_max) as u32,
            inline_bytes: if latency {
                INLINE_LATENCY.min(caps.inline_bytes_max) as u32
            } else {
                0
            },
            cq_mod: 100,
            post_list: 1,
            atomic: Atomic::FetchAdd,
        }
    }

    /// Sizes that perftest's option `-a` measures: the powers of two from 2 B to 8 MiB that `caps` allow for this verb
    /// and kind of queue pair; for atomics only 8 B. The plan's own [`sizes`](Plan::sizes) stay as they are.
    pub fn all_sizes(&self, caps: &Caps) -> Vec<u32> {
        let allowed = self.shortest()..=self.longest(caps);
        let all = ALL_SHIFTS.map(|shift| 1u32 << shift);
        all.filter(|size| allowed.contains(&(*size as usize))).collect()
    }

    /// Minimum message size of this verb.
    fn shortest(&self) -> usize {
        if self.op.verb == Verb::Atomic { 8 } else { 1 }
    }

    /// Maximum message size of this verb and kind of queue pair.
    fn longest(&self, caps: &Caps) -> usize {
        match (self.op.verb, self.kind) {
            (Verb::Atomic, _) => 8,
            (_, QpKind::Ud) => caps.mtu_bytes,
            (Verb::Send, _) => caps.send_bytes_max,
            _ => caps.message_bytes_max,
        }
        .min(SIZE_MAX)
    }

    /// The largest of the plan's sizes, bytes; 0 if it has none.
    pub fn size_max(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0) as usize
    }

    /// Number N such that one request in N is signaled: [`cq_mod`](Plan::cq_mod), but at most `tx_depth` in a rate test
    /// or half of it in a latency test, so that unsignaled requests cannot fill the send queue, and at least 1. Latency
    /// tests of READ and atomics ignore it.
    pub fn signal_every(&self) -> u64 {
        let most = match self.op.metric {
            Metric::Latency => self.tx_depth / 2,
            Metric::Rate => self.tx_depth,
        };
        u64::from(self.cq_mod.min(most).max(1))
    }

    /// Checks that all numbers are in range and that a fabric with `caps` supports the plan.
    ///
    /// # Errors
    /// [`PerfError::Plan`] with the first bad option and its supported values.
    pub fn check(&self, caps: &Caps) -> Result<(), PerfError> {
        self.check_kind(caps)
            .and_then(|()| self.check_numbers(caps))
            .map_err(PerfError::Plan)
    }

    fn check_kind(&self, caps: &Caps) -> Result<(), String> {
        let Plan { op, kind, .. } = self;
        let name = kind_name(*kind);
        let carried = match op.verb {
            Verb::Send => &["RC", "UC", "UD"][..],
            Verb::Write => &["RC", "UC"],
            Verb::Read | Verb::Atomic => &["RC"],
        };
        if !carried.contains(&name) {
            let kinds = carried.join(" or ");
            return Err(format!("{op} over {name} does not exist, only over {kinds} (-c)"));
        }
        if !caps.has(*kind) {
            return Err(format!("this fabric has no {name} queue pairs (-c)"));
        }
        if op.verb == Verb::Atomic && !caps.supports.atomics.are_offered() {
            return Err("this fabric has no atomics".to_string());
        }
        Ok(())
    }

    fn check_numbers(&self, caps: &Caps) -> Result<(), String> {
        let longest = self.longest(caps) as u64;
        let least = self.shortest() as u64;
        let within = |what: &str, value: u64, least: u64, most: u64| match value {
            value if value < least || value > most => Err(format!(
                "{what} {value}: this fabric takes {least} to {most} for {}",
                self.op
            )),
            _ => Ok(()),
        };
        if self.sizes.is_empty() {
            return Err(format!("this fabric supports no size for {}", self.op));
        }
        for &size in &self.sizes {
            within("--size", u64::from(size), least, longest)?;
        }
        within("--iters", self.iterations, 1, 1 << 40)?;
        within(
            "--tx-depth",
            self.tx_depth.into(),
            1,
            caps.send_depth_max.min(1 << 16) as u64,
        )?;
        within(
            "--rx-depth",
            self.rx_depth.into(),
            1,
            caps.recv_depth_max.min(1 << 16) as u64,
        )?;
        within(
            "--inline_size",
            self.inline_bytes.into(),
            0,
            caps.inline_bytes_max as u64,
        )?;
        within("--cq-mod", self.cq_mod.into(), 1, 1 << 20)?;
        within("--post_list", self.post_list.into(), 1, self.tx_depth.into())
    }

    /// All settings as pairs of an option's name and its value as text, for reports and for comparison between the
    /// ends. Several sizes are shown as `2 to` the last one, and the duration in whole seconds.
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let sizes: Vec<String> = self.sizes.iter().map(u32::to_string).collect();
        let sizes = match &sizes[..] {
            [.., last] if sizes.len() > 1 => format!("2 to {last}"),
            _ => sizes.concat(),
        };
        let duration = self
            .duration
            .map_or("none".to_string(), |time| format!("{} s", time.as_s()));
        vec![
            ("test", self.op.to_string()),
            ("--connection", kind_name(self.kind).to_string()),
            ("--size", sizes),
            ("--iters", self.iterations.to_string()),
            ("--duration", duration),
            ("--warm-up", self.warm_up.to_string()),
            ("--tx-depth", self.tx_depth.to_string()),
            ("--rx-depth", self.rx_depth.to_string()),
            ("--inline_size", self.inline_bytes.to_string()),
            ("--cq-mod", self.cq_mod.to_string()),
            ("--post_list", self.post_list.to_string()),
            ("--atomic", self.atomic.to_string()),
        ]
    }
}

/// RC, UC or UD.
pub(crate) fn kind_name(kind: QpKind) -> &'static str {
    match kind {
        QpKind::Rc => "RC",
        QpKind::Uc => "UC",
        QpKind::Ud => "UD",
    }
}

/// Settings that a server requires in its client's plan; the client chooses all others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Given {
    names: Vec<&'static str>,
    plan: Option<Plan>,
}

impl Given {
    /// Requires nothing: the client chooses all settings.
    pub fn nothing() -> Given {
        Given::default()
    }

    /// Requires each setting in `names` to be as in `plan`, compared by name and text in [`Plan::shown`]. Names that do
    /// not occur there are ignored.
    pub fn of(names: Vec<&'static str>, plan: Plan) -> Given {
        let plan = Some(plan);
        Given { names, plan }
    }

    /// Checks that the client's plan matches.
    pub(crate) fn check(&self, theirs: &Plan) -> Result<(), String> {
        let Some(ours) = &self.plan else {
            return Ok(());
        };
        for ((name, ours), (_, theirs)) in ours.shown().into_iter().zip(theirs.shown()) {
            if self.names.contains(&name) && ours != theirs {
                return Err(format!(
                    "the server was started with {name} {ours}, the client asks for {name} {theirs}; give both the same, \
                     or the server none"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps() -> Caps {
        let mut caps = Caps::none();
        (
            caps.supports.rc,
            caps.supports.uc,
            caps.supports.ud,
            caps.supports.atomics,
        ) = (true, true, true, drover_verbs::Atomics::Card);
        (caps.inline_bytes_max, caps.mtu_bytes) = (512, 1024);
        (caps.message_bytes_max, caps.send_bytes_max) = (8 << 20, 1 << 20);
        (caps.send_depth_max, caps.recv_depth_max) = (4096, 4096);
        caps
    }

    fn plan(name: &str) -> Plan {
        Plan::new(name.parse().expect("a test"), &caps())
    }

    #[test]
    fn names_are_ours_or_perftests() {
        for op in Op::all() {
            assert_eq!(op.name().parse(), Ok(op));
            assert_eq!(format!("ib_{}", op.name().replace('-', "_")).parse(), Ok(op));
            assert_eq!(Op::of_code(op.code()), Some(op));
        }
        let error = "write".parse::<Op>().expect_err("no such test");
        assert!(
            error.starts_with("unknown test write; known tests: send-lat, write-lat, "),
            "{error}"
        );
        assert_eq!(Op::of_code(8), None);
    }

    #[test]
    fn defaults_are_perftests() {
        let lat = plan("write-lat");
        assert_eq!(
            (&lat.sizes[..], lat.iterations, lat.inline_bytes),
            (&[2][..], 1000, 220)
        );
        let bw = plan("write-bw");
        assert_eq!(
            (&bw.sizes[..], bw.iterations, bw.tx_depth, bw.cq_mod),
            (&[65_536][..], 5000, 128, 100)
        );
        assert_eq!((bw.inline_bytes, bw.signal_every()), (0, 100));
        assert_eq!(plan("read-bw").iterations, 1000);
        for op in Op::all() {
            Plan::new(op, &caps())
                .check(&caps())
                .expect("defaults are possible");
        }
    }

    #[test]
    fn all_sizes_end_where_the_verb_does() {
        assert_eq!(plan("write-bw").all_sizes(&caps()).last(), Some(&(8 << 20)));
        assert_eq!(plan("send-bw").all_sizes(&caps()).last(), Some(&(1 << 20)));
        let mut datagrams = plan("send-lat");
        datagrams.kind = QpKind::Ud;
        assert_eq!(
            datagrams.all_sizes(&caps()),
            [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
        );
        assert_eq!(plan("atomic-lat").all_sizes(&caps()), [8]);
    }

    #[test]
    fn what_cannot_be_says_what_could() {
        let refusal = |name: &str, change: &dyn Fn(&mut Plan)| {
            let mut plan = plan(name);
            change(&mut plan);
            plan.check(&caps()).expect_err("cannot be").to_string()
        };
        assert_eq!(
            refusal("read-lat", &|plan| plan.kind = QpKind::Uc),
            "read-lat over UC does not exist, only over RC (-c)"
        );
        assert_eq!(
            refusal("write-bw", &|plan| plan.kind = QpKind::Ud),
            "write-bw over UD does not exist, only over RC or UC (-c)"
        );
        assert_eq!(
            refusal("atomic-lat", &|plan| plan.sizes = vec![4]),
            "--size 4: this fabric takes 8 to 8 for atomic-lat"
        );
        assert_eq!(
            refusal("write-lat", &|plan| plan.inline_bytes = 513),
            "--inline_size 513: this fabric takes 0 to 512 for write-lat"
        );
        assert_eq!(
            refusal("send-bw", &|plan| plan.post_list = 129),
            "--post_list 129: this fabric takes 1 to 128 for send-bw"
        );
        let none = Caps::none();
        let error = plan("write-lat")
            .check(&none)
            .expect_err("nothing there")
            .to_string();
        assert_eq!(error, "this fabric has no RC queue pairs (-c)");
    }

    #[test]
    fn ends_that_differ_are_told_in_what() {
        let ours = plan("write-lat");
        let given = Given::of(vec!["test", "--size"], ours.clone());
        let mut theirs = ours.clone();
        theirs.iterations = 7;
        assert_eq!(
            given.check(&theirs),
            Ok(()),
            "what was not given is the client's to say"
        );
        theirs.sizes = vec![64];
        assert_eq!(
            given.check(&theirs).expect_err("differs"),
            "the server was started with --size 2, the client asks for --size 64; give both the same, or the server none"
        );
        assert_eq!(Given::nothing().check(&theirs), Ok(()));
    }
}
