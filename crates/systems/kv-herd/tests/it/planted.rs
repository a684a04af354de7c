//! [`Planted`]: a server that makes one mistake, or none, and speaks the paper's format, too.

use drover_kv_herd::server::{Mistake, Variant};
use drover_store::Exclusive;

/// The mistake.
#[derive(Clone, Copy, Debug)]
pub struct Planted(pub Option<Mistake>);

impl Variant for Planted {
    type Sharing = Exclusive;

    fn makes(self, mistake: Mistake) -> bool {
        self.0 == Some(mistake)
    }

    fn paper_format(self) -> bool {
        true
    }
}
