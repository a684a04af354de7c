//! [`Imports`]: regions and address handles of a peer, released together.

use drover_verbs::{Context, Export, ImportError, Provider, RemoteRegion, UdDest};
use std::rc::Rc;

/// Regions and address handles imported from one peer. Dropping it releases them all, mappings included. In a struct it
/// must be declared after the queue pairs that use them, so that no request is in flight by then.
pub struct Imports<P: Provider> {
    ctx: Rc<P::Context>,
    regions: Vec<RemoteRegion>,
    dests: Vec<UdDest>,
}

impl<P: Provider> Imports<P> {
    /// Creates an empty collection for imports into `ctx`.
    pub fn new(ctx: &Rc<P::Context>) -> Imports<P> {
        Imports {
            ctx: ctx.clone(),
            regions: Vec::new(),
            dests: Vec::new(),
        }
    }

    /// Imports a region until this struct is dropped, see [`Context::import_region`].
    ///
    /// # Errors
    /// Those of [`Context::import_region`].
    pub fn region(&mut self, export: &Export) -> Result<RemoteRegion, ImportError> {
        let region = self.ctx.import_region(export)?;
        self.regions.push(region);
        Ok(region)
    }

    /// Creates an address handle that lives until this struct is dropped, see [`Context::create_ah`].
    ///
    /// # Errors
    /// Those of [`Context::create_ah`].
    pub fn dest(&mut self, export: &Export) -> Result<UdDest, ImportError> {
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
