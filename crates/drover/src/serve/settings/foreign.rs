//! Flags of memcached about what drover does not have. They are taken, so that memcached's command line starts drover, too, and the
//! log says of each that it has no effect, and why.

use super::offered::Feature::Memcached;
use super::{flags, optional, value};
use crate::exit::{self, Failure};

flags! {
    /// Arguments that have no effect.
    #[command(next_help_heading = "Taken for memcached's sake")]
    struct ForeignArgs;
    /// Settings that have no effect.
    struct ForeignSettings();

    /// No effect: items take the memory that they need, so there are no slab classes
    #[arg(long = "slab-growth-factor", short = 'f', value_name = "FACTOR")]
    slab_growth_factor: f64 as Option<f64> = optional().needs(Memcached).check(
        |factor| factor.is_none_or(|factor| factor > 1.0),
        |_| "--slab-growth-factor (-f): more than 1".to_string(),
    );

    /// No effect, for the same reason
    #[arg(long = "slab-min-size", short = 'n', value_name = "BYTES")]
    slab_min_size: u32 as Option<u32> = optional().needs(Memcached).check(
        |bytes| *bytes != Some(0),
        |_| "--slab-min-size (-n): at least 1".to_string(),
    );

    /// Refused: SASL is a part of the binary protocol; -Y asks for passwords
    #[switch(long = "enable-sasl", short = 'S')]
    enable_sasl: bool = value(false).needs(Memcached);
}

impl ForeignSettings {
    /// # Errors
    /// SASL is wanted: a server that ignored that would let everybody in.
    pub(super) fn refuse_sasl(&self) -> Result<(), Failure> {
        if !self.enable_sasl.value {
            return Ok(());
        }
        let text = "-S is refused: SASL is a part of memcached's binary protocol, which drover does not speak; -Y FILE \
                    asks clients of the text protocol for passwords";
        Err(Failure::new(exit::USAGE, text))
    }

    /// The given flags that have no effect, each with the reason.
    pub fn without_effect(&self) -> impl Iterator<Item = String> {
        let no_slabs = "items take the memory that they need, there are no slab classes";
        let factor = self.slab_growth_factor.value;
        let bytes = self.slab_min_size.value;
        let said = [
            factor.map(|factor| format!("-f {factor}: no effect, {no_slabs}")),
            bytes.map(|bytes| format!("-n {bytes}: no effect, {no_slabs}")),
        ];
        said.into_iter().flatten()
    }
}
