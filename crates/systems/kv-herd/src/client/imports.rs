//! [`Imports`]: what we have imported from a server, given back when the session that used it is over.

use drover_verbs::{Context, Export, ImportError, Provider, RemoteRegion, UdDest};
use std::rc::Rc;

/// Regions and address handles of one peer. Dropped, it makes the context forget them all, mappings included:
/// it belongs behind the queue pairs that use them, so that nothing is under way any more.
pub(super) struct Imports<P: Provider> {
    ctx: Rc<P::Context>,
    regions: Vec<RemoteRegion>,
    dests: Vec<UdDest>,
}

impl<P: Provider> Imports<P> {
    pub(super) fn new(ctx: &Rc<P::Context>) -> Imports<P> {
        Imports {
            ctx: ctx.clone(),
            regions: Vec::new(),
            dests: Vec::new(),
        }
    }

    /// Imports a region; see [`Context::import_region`].
    pub(super) fn region(&mut self, export: &Export) -> Result<RemoteRegion, ImportError> {
        let region = self.ctx.import_region(export)?;
        self.regions.push(region);
        Ok(region)
    }

    /// Makes an address handle; see [`Context::create_ah`].
    pub(super) fn dest(&mut self, export: &Export) -> Result<UdDest, ImportError> {
        let dest = self.ctx.create_ah(export)?;
        self.dests.push(dest);
        Ok(dest)
    }
}

impl<P: Provider> Drop for Imports<P> {
    fn drop(&mut self) {
        self.regions
            .iter()
            .for_each(|region| self.ctx.forget_region(region));
        self.dests.iter().for_each(|dest| self.ctx.destroy_ah(dest));
    }
}
