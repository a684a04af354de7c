//! `drover bench --address etcd://...`: clients of a service of several members.

use super::args::usage;
use super::{Args, plan, publish, settings};
use crate::exit::{self, Failure};
use drover_bench::{Progress, System as Tested, Target, TargetError, session};
use drover_client::{Calls, Connected, Ns, Options, Pipeline, ServiceUrl};
use drover_kv::{Op, Outcome, SubmitError, SystemTable, Token};

/// Time limit for a client to learn the members.
const CONNECT: Ns = Ns::from_s(10);

/// Longest sleep of a client in a poll: open-loop load goes on meanwhile.
const SLEEP_MAX: Ns = Ns::from_ms(1);

/// Measures the service at `text`.
pub fn bench<T: SystemTable>(args: &Args, text: &str) -> Result<(), Failure> {
    let url: ServiceUrl = text.parse().map_err(usage)?;
    let mut spanning = T::ALL
        .iter()
        .copied()
        .filter(|system| system.facts().cluster.is_ok());
    let no_system = || usage("no system of this program has services of several members");
    let system = spanning.next().ok_or_else(no_system)?;
    match args.system::<T>()? {
        Some(asked) if asked != system => {
            return Err(usage(format!(
                "--system {asked}: services of several members are of {system}"
            )));
        }
        _ => {}
    }
    let mut plan = plan(
        args,
        system,
        args.workload.value_bytes()?,
        args.keys(Some(system)),
    )?;
    plan.fabric = "members".to_owned();
    let tested = Members {
        url,
        options: Options {
            connect_timeout: CONNECT,
            window: settings(args).window,
            credentials: args.access.auth.read()?,
            tls: args.access.tls.read()?,
            ..Options::default()
        },
    };
    let progress = Progress::new(!args.output.quiet);
    let measured = session::run(&tested, &plan, &progress);
    drop(progress);
    let (report, latency) = measured.map_err(|error| Failure::new(exit::UNAVAILABLE, error))?;
    publish(args, &report, &latency)
}

/// A service, as the load generator connects to it.
struct Members {
    url: ServiceUrl,
    options: Options,
}

impl Tested for Members {
    type Target = MembersTarget;

    fn connect(&self, client_index: u32) -> Result<MembersTarget, Box<TargetError>> {
        let connected = Connected::to_service(&self.url, &self.options);
        let connected =
            connected.map_err(|error| TargetError::new(format!("client {client_index}: {error}")))?;
        Ok(MembersTarget(connected.into()))
    }
}

struct MembersTarget(Pipeline);

impl Target for MembersTarget {
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        self.0.submit(op, token)
    }

    fn poll(
        &mut self,
        _draining: bool,
        sink: &mut impl FnMut(Token, Outcome<'_>),
    ) -> Result<(), Box<TargetError>> {
        self.0
            .wait_for(SLEEP_MAX, &mut |done| sink(done.token, done.outcome));
        Ok(())
    }

    fn calls(&mut self) -> Option<Calls> {
        self.0.calls()
    }
}
