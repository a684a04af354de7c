//! What verbs take over the devices of this process, as measured by the first connection over each.
//!
//! A connection looks here once, before it would measure, and never for a call.

use super::measure::Measured;
use drover_verbs::{Context, Provider};
use std::sync::{Mutex, PoisonError};

/// A device, and what else the times of verbs depend on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Over {
    fabric: &'static str,
    device: String,
    /// Longest payload of a result slot, bytes: no READ that is measured is longer.
    result_bytes: usize,
}

impl Over {
    /// Connections over `ctx` with such slots; `None` if the fabric does not say which device that is, so that each
    /// connection measures.
    pub(super) fn of<P: Provider>(ctx: &P::Context, result_bytes: usize) -> Option<Over> {
        Some(Over {
            fabric: P::NAME,
            device: ctx.device_name()?,
            result_bytes,
        })
    }
}

/// A process has few devices.
#[derive(Default)]
struct Known(Vec<(Over, Measured)>);

static KNOWN: Mutex<Known> = Mutex::new(Known(Vec::new()));

impl Known {
    fn find(&self, over: &Over) -> Option<Measured> {
        let found = self.0.iter().find(|(other, _)| other == over);
        found.map(|(_, measured)| *measured)
    }

    /// Keeps the first complete measurement.
    fn keep(&mut self, over: Over, measured: Measured) {
        if measured.is_known() && self.find(&over).is_none() {
            self.0.push((over, measured));
        }
    }
}

/// What was measured over the device before.
pub(super) fn recall(over: &Over) -> Option<Measured> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).find(over)
}

/// Lets later connections know.
pub(super) fn remember(over: Over, measured: Measured) {
    KNOWN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .keep(over, measured);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use drover_base::Ns;

    #[test]
    fn the_first_complete_measurement_of_a_device_is_kept() {
        let over = |device: &str, result_bytes| Over {
            fabric: "ibv",
            device: device.to_owned(),
            result_bytes,
        };
        let (first, second) = (Measured::all_take(Ns(100)), Measured::all_take(Ns(200)));
        let mut known = Known::default();
        known.keep(over("mlx5_0 port 1", 2048), Measured::default());
        assert_eq!(known.find(&over("mlx5_0 port 1", 2048)), None, "it knows nothing");
        known.keep(over("mlx5_0 port 1", 2048), first);
        known.keep(over("mlx5_0 port 1", 2048), second);
        known.keep(over("mlx5_1 port 1", 2048), second);
        assert_eq!(known.find(&over("mlx5_0 port 1", 2048)), Some(first));
        assert_eq!(known.find(&over("mlx5_1 port 1", 2048)), Some(second));
        assert_eq!(known.find(&over("mlx5_0 port 1", 1024)), None);
    }
}
