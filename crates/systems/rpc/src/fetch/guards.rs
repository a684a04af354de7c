//! [`Guards`]: what keeps calls right. Everything is on; tests turn one off to show that it is needed.

use std::fmt::Debug;
use std::hash::Hash;

/// What two ends of a connection check and keep apart. Services use [`Guarded`].
pub trait Guards: Copy + Default + Debug + Eq + Hash + 'static {
    /// A result is believed only if it has the sequence number of the call.
    const SEQUENCE: bool = true;
    /// A request or result is believed only if its checksum is right.
    const SUM: bool = true;
    /// A request that was taken is zeroed, so that nothing of it passes for the next one.
    const ZERO: bool = true;
    /// Pushed results have memory of their own at the client.
    const OWN_AREA: bool = true;
    /// The server looks again at the modes of results that nobody has fetched as far as it knows.
    const RECHECK: bool = true;
    /// A result is visible before its mode is looked at again.
    const FENCE: bool = true;
}

/// All guards are on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Guarded;

impl Guards for Guarded {}
