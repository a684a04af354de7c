//! [`Ground`]: fabrics that beds of the conformance suite run on. The suite does not depend on fabrics, nor they on it.

use crate::kv_conformance::BedOptions;
use drover_base::Ns;
use drover_verbs::Provider;
use drover_verbs_suite::faulty::FaultOptions;

/// The device of a ground.
type Device<G> = <<G as Ground>::P as Provider>::Device;

/// A fabric that tests can open. Mostly implemented by the provider's own type; a provider that can be opened in
/// several ways has a separate type for each.
pub trait Ground: 'static {
    /// Provider of the fabric.
    type P: Provider;

    /// Deadline of the operations of clients that beds connect on this fabric, from submission.
    const DEADLINE: Ns = Ns::from_s(5);

    /// Opens a fabric and returns the server's device. Only grounds that wrap another one, such as
    /// [`WithFaults`](super::WithFaults), apply the faults of `options`.
    ///
    /// # Panics
    /// If it cannot be opened.
    fn open(options: &BedOptions) -> Device<Self>;

    /// Returns the device for clients; by default the server's `device`.
    fn for_clients(device: &Device<Self>, _: &BedOptions) -> Device<Self> {
        device.clone()
    }

    /// Lets the time `by` pass: advances a virtual clock, or sleeps if the clock is real.
    fn pass(device: &Device<Self>, by: Ns);
}

/// Sleeps for `by`: [`Ground::pass`] of fabrics with a real clock.
#[allow(
    clippy::disallowed_methods,
    reason = "time to live is counted in seconds of a real clock there"
)]
pub fn pass_really(by: Ns) {
    std::thread::sleep(by.to_duration());
}

/// Returns the faults and the seed of `options` as options of
/// [`FaultyDevice`](drover_verbs_suite::faulty::FaultyDevice), the wrapper that produces the faults.
pub fn faults(options: &BedOptions) -> FaultOptions {
    let asked = options.faults;
    FaultOptions {
        drop: asked.drop,
        duplicate: asked.duplicate,
        delay: asked.delay,
        reorder: asked.reorder,
        tear: asked.tear,
        rc_break: asked.breaks,
        ..FaultOptions::quiet(options.seed)
    }
}
