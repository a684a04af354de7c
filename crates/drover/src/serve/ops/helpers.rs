//! Helper threads of the server: the admin port's and the watchdog's.

use super::notify::Notify;
use super::{Ops, watchdog};
use crate::admin::{Source, Stopper};
use crate::exit::{self, Failure};
use std::io::PipeWriter;
use std::thread::{Builder, Scope};

/// Keeps the helper threads (admin port, watchdog) running. Dropping this tells them to end, without waiting, and
/// notifies the service manager that the service stops.
pub struct Helpers<'a> {
    notify: &'a Notify,
    _stop: (Option<Stopper>, Option<PipeWriter>),
}

impl Ops {
    /// Starts helper threads in `scope` that query `source`, and notifies the service manager that the service is
    /// ready, with `status` as its description.
    ///
    /// # Errors
    /// A thread or a pipe cannot be made.
    pub fn start<'s, 'e>(
        &'e mut self,
        scope: &'s Scope<'s, 'e>,
        source: &'e dyn Source,
        status: &str,
    ) -> Result<Helpers<'e>, Failure> {
        let failed = |error| Failure::new(exit::OS_ERROR, format!("a thread for operations: {error}"));
        let mut stopper = None;
        if let Some((admin, stops_it)) = self.admin.take() {
            stopper = Some(stops_it);
            let thread = Builder::new().name("drover-admin".into());
            thread
                .spawn_scoped(scope, move || admin.run(source))
                .map_err(failed)?;
        }
        let notify = &self.notify;
        let mut stop_watchdog = None;
        if let Some(period) = notify.watchdog() {
            let (stop, held) = std::io::pipe().map_err(failed)?;
            stop_watchdog = Some(held);
            let thread = Builder::new().name("drover-watchdog".into());
            thread
                .spawn_scoped(scope, move || watchdog::run(notify, period, source, &stop))
                .map_err(failed)?;
        }
        notify.ready(status);
        Ok(Helpers {
            notify,
            _stop: (stopper, stop_watchdog),
        })
    }
}

impl Drop for Helpers<'_> {
    fn drop(&mut self) {
        self.notify.stopping();
    }
}
