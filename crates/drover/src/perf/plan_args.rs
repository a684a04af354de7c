//! What is measured, in perftest's letters. Options that are not given have defaults, which depend on the test.

use drover_base::Ns;
use drover_perf::{Atomic, Op, Plan};
use drover_verbs::{Caps, QpKind};

/// Arguments about the measurement, which both ends must agree on.
#[derive(clap::Args, Clone, Debug)]
pub struct PlanArgs {
    /// Kind of queue pair: RC, UC or UD
    #[arg(short, long, value_name = "KIND", value_parser = kind)]
    connection: Option<QpKind>,
    /// Bytes per message [default: 2 for latency, 65536 for rate, 8 for atomics]
    #[arg(short, long, value_name = "BYTES")]
    size: Option<u32>,
    /// All sizes from 2 B to 8 MiB that the fabric supports
    #[arg(short, long, conflicts_with = "size")]
    all: bool,
    /// Iterations [default: 1000; 5000 for the rate of SEND, WRITE and atomics]
    #[arg(short = 'n', long, value_name = "COUNT")]
    iters: Option<u64>,
    /// Measure for this many seconds instead
    #[arg(short = 'D', long, value_name = "SECONDS", conflicts_with = "iters")]
    duration: Option<u32>,
    /// Warm-up iterations [default: 100]
    #[arg(long, value_name = "COUNT")]
    warm_up: Option<u64>,
    /// Outstanding requests [default: 128]
    #[arg(short, long, value_name = "COUNT")]
    tx_depth: Option<u32>,
    /// RECVs posted [default: 512]
    #[arg(short, long, value_name = "COUNT")]
    rx_depth: Option<u32>,
    /// Send messages of up to this many bytes inline [default: 220 for latency, 0 for rate]
    #[arg(short = 'I', long = "inline_size", value_name = "BYTES")]
    inline_size: Option<u32>,
    /// Signal one request in this many [default: 100]
    #[arg(short = 'Q', long, value_name = "COUNT")]
    cq_mod: Option<u32>,
    /// Requests per post [default: 1]
    #[arg(short = 'l', long = "post_list", value_name = "COUNT")]
    post_list: Option<u32>,
    /// Atomic operation: FETCH_AND_ADD or CMP_AND_SWAP
    #[arg(short = 'A', long = "atomic_type", value_name = "TYPE", value_parser = atomic)]
    atomic: Option<Atomic>,
}

impl PlanArgs {
    /// The measurement of test `op` on a fabric with `caps`; options that are not given have the test's defaults. Not
    /// checked against `caps`.
    pub fn plan(&self, op: Op, caps: &Caps) -> Plan {
        let mut plan = Plan::new(op, caps);
        set(&mut plan.kind, self.connection);
        set(&mut plan.sizes, self.size.map(|size| vec![size]));
        if self.all {
            plan.sizes = plan.all_sizes(caps);
        }
        set(&mut plan.iterations, self.iters);
        plan.duration = self.duration.map(|seconds| Ns::from_s(seconds.into()));
        set(&mut plan.warm_up, self.warm_up);
        set(&mut plan.tx_depth, self.tx_depth);
        set(&mut plan.rx_depth, self.rx_depth);
        set(&mut plan.inline_bytes, self.inline_size);
        set(&mut plan.cq_mod, self.cq_mod);
        set(&mut plan.post_list, self.post_list);
        set(&mut plan.atomic, self.atomic);
        plan
    }

    /// Names of the options that were given; `--all` counts as `--size`. `has_test`: whether a test was given; if not,
    /// `--all` is left out, because the sizes that it means depend on the test.
    pub fn given(&self, has_test: bool) -> impl Iterator<Item = &'static str> {
        let settings = [
            ("--connection", self.connection.is_some()),
            ("--size", self.size.is_some() || self.all && has_test),
            ("--iters", self.iters.is_some()),
            ("--duration", self.duration.is_some()),
            ("--warm-up", self.warm_up.is_some()),
            ("--tx-depth", self.tx_depth.is_some()),
            ("--rx-depth", self.rx_depth.is_some()),
            ("--inline_size", self.inline_size.is_some()),
            ("--cq-mod", self.cq_mod.is_some()),
            ("--post_list", self.post_list.is_some()),
            ("--atomic", self.atomic.is_some()),
        ];
        settings
            .into_iter()
            .filter(|(_, given)| *given)
            .map(|(name, _)| name)
    }
}

fn set<T>(to: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *to = given;
    }
}

fn kind(text: &str) -> Result<QpKind, String> {
    match text {
        "RC" | "rc" => Ok(QpKind::Rc),
        "UC" | "uc" => Ok(QpKind::Uc),
        "UD" | "ud" => Ok(QpKind::Ud),
        _ => Err("RC, UC or UD".to_string()),
    }
}

fn atomic(text: &str) -> Result<Atomic, String> {
    let all = [Atomic::FetchAdd, Atomic::CompareSwap];
    let found = all.into_iter().find(|atomic| atomic.to_string() == text);
    found.ok_or_else(|| "FETCH_AND_ADD or CMP_AND_SWAP".to_string())
}
