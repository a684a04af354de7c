//! [`Ground`]: fabrics that the suite of key-value systems is played on. The suite knows no fabric, and fabrics know no suite.

use crate::kv_conformance::BedOptions;
use drover_base::Ns;
use drover_verbs::Provider;
use drover_verbs_suite::faulty::FaultOptions;

/// The device of a ground.
type Device<G> = <<G as Ground>::P as Provider>::Device;

/// A fabric that tests can open. Most are named by their provider; a provider that is opened in more than one way has a type for each.
pub trait Ground: 'static {
    /// Its provider.
    type P: Provider;

    /// What an operation of a client may take.
    const DEADLINE: Ns = Ns::from_s(5);

    /// A fresh fabric with the faults of `options`.
    fn open(options: &BedOptions) -> Device<Self>;

    /// Where clients are, if not on the server's device.
    fn for_clients(device: &Device<Self>, _: &BedOptions) -> Device<Self> {
        device.clone()
    }

    /// Lets `by` pass: on virtual clocks at once.
    fn pass(device: &Device<Self>, by: Ns);
}

/// [`Ground::pass`] where the clock is real.
#[allow(
    clippy::disallowed_methods,
    reason = "time to live is counted in seconds of a real clock there"
)]
pub fn pass_really(by: Ns) {
    std::thread::sleep(by.to_duration());
}

/// What the bed is asked for, in the words of the wrapper.
pub fn faults(options: &BedOptions) -> FaultOptions {
    let asked = options.faults;
    FaultOptions {
        drop: asked.drop,
        duplicate: asked.duplicate,
        delay: asked.delay,
        reorder: asked.reorder,
        tear: asked.tear,
        ..FaultOptions::quiet(options.seed)
    }
}
