//! Both ends in a simulated cluster: two machines of a profile, in virtual time.

use super::args::usage;
use super::{Args, Output, failure};
use crate::exit::Failure;
use drover_base::Ns;
use drover_perf::{End, Found, LOOK, PerfError, Plan, Row, join, players};
use drover_verbs::Device;
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{Sim, World, WorldOptions};

/// Virtual time after which a measurement is given up.
const LIMIT: Ns = Ns::from_s(3600);

/// Measures with both ends in a simulated cluster of the named profile. Every size gets a new cluster, so that results
/// do not depend on the other sizes.
///
/// # Errors
/// There is no such profile, or the measurement failed.
pub fn measure(args: &Args, profile: &str) -> Result<(), Failure> {
    let profile = Profile::named(profile).map_err(usage)?;
    let mut options = WorldOptions::new(profile);
    let look_ns = options.profile.parameters().cpu.slot_poll_ns;
    options.costs.push((LOOK.name.to_string(), look_ns));
    let caps = World::with_options(options.clone(), 1, args.seed)
        .device(0)
        .caps()
        .clone();
    let plan = args.plan(&caps)?;
    let fabric = format!(
        "sim:{}, seed {}: simulated time",
        options.profile.name(),
        args.seed
    );
    let mut output = Output::new(args, &plan, fabric, caps.mtu_bytes);
    for &bytes in &plan.sizes {
        let world = World::with_options(options.clone(), 2, args.seed);
        let found = one(&world, &plan, bytes as usize).map_err(failure)?;
        output.row(&Row::new(plan.op, bytes, &found, 0));
    }
    output.finish();
    Ok(())
}

fn one(world: &World, plan: &Plan, bytes: usize) -> Result<Found, PerfError> {
    let (here, there) = (world.device(0).context()?, world.device(1).context()?);
    let (mut a, mut b) = (End::<Sim>::new(&here, plan)?, End::<Sim>::new(&there, plan)?);
    join([(&here, &mut a), (&there, &mut b)])?;
    let ((client, measured), (server, failed)) = players(plan, [a, b], bytes);
    world.spawn(&here, Box::new(client));
    world.spawn(&there, Box::new(server));
    world.run_while(LIMIT, || !measured.is_done() && !failed.is_done());
    let result = measured.take().or_else(|| failed.take());
    result.unwrap_or(Err(PerfError::Silent { patience: LIMIT }))
}
