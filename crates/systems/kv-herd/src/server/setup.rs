//! [`Setup`]: options and handles from which the workers and the acceptor of one server are made.

use super::mail::Event;
use super::options::ServerOptions;
use crate::control::PARTITIONS_MAX;
use crate::layout::{SlotMap, WINDOW_MAX};
use drover_base::{Cpu, HashSeed, Ns};
use drover_kv::StartError;
use drover_rt::{Mailbox, Mailer, unbounded_mailbox};
use drover_verbs::{Context, Device, Provider, Waker};

/// A server's options, checked, and what all its threads share.
pub(super) struct Setup<P: Provider, V> {
    pub(super) device: P::Device,
    pub(super) options: ServerOptions,
    /// Sends mail from workers to the acceptor.
    pub(super) events: Mailer<Event>,
    /// Wakes the acceptor's thread.
    pub(super) control: Waker,
    /// Time of the server's start, on the clock of the provider's cores.
    pub(super) started: Ns,
    pub(super) variant: V,
}

impl<P: Provider, V: Copy> Clone for Setup<P, V> {
    fn clone(&self) -> Setup<P, V> {
        Setup {
            device: self.device.clone(),
            options: self.options.clone(),
            events: self.events.clone(),
            control: self.control.clone(),
            ..*self
        }
    }
}

impl<P: Provider, V> Setup<P, V> {
    /// Checks `options` and returns the setup, with the acceptor's mailbox; mail to it wakes `control`.
    ///
    /// # Errors
    /// An option has an impossible value, the fabric lacks something that HERD needs, or it cannot be opened.
    pub(super) fn new(
        device: &P::Device,
        options: &ServerOptions,
        variant: V,
        control: Waker,
    ) -> Result<(Setup<P, V>, Mailbox<Event>), StartError> {
        check::<P>(device, options)?;
        let (events, mail) = unbounded_mailbox(control.clone());
        let mut options = options.clone();
        if options.identity.hash_seed.is_none() {
            let ctx = device.context()?;
            options.identity.hash_seed = Some(HashSeed::drawn(options.identity.hash, ctx.cpu()));
        }
        let setup = Setup {
            device: device.clone(),
            events,
            control,
            started: start_of::<P>(device, &options)?,
            options,
            variant,
        };
        Ok((setup, mail))
    }
}

/// Checks that the options are possible, and that the fabric has what HERD needs.
fn check<P: Provider>(device: &P::Device, options: &ServerOptions) -> Result<(), StartError> {
    let map = SlotMap {
        slot_bytes: options.clients.slot_bytes_max,
        window: options.clients.window_max,
        partition_count: options.partition_count,
    };
    let bad = |what, why| Err(StartError::Options { what, why });
    if !map.is_valid() || options.partition_count > PARTITIONS_MAX {
        return bad(
            "slots",
            "1 to 240 partitions, a window of a power of two up to 256, slots of a multiple of 64 bytes up to 1024",
        );
    }
    if options.clients.window_max > WINDOW_MAX || options.clients.count_max == 0 {
        return bad("clients", "at least one client");
    }
    if options.item_bytes_max > drover_store::VALUE_BYTES_MAX {
        return bad("item size", "longer than the store can hold");
    }
    if options.requests.served.is_some() && options.requests.hash_only {
        return bad(
            "hash-only requests",
            "impossible for a member of a service of several: items have no keys",
        );
    }
    let caps = device.caps();
    let lacks = |what| {
        Err(StartError::Fabric {
            system: "HERD",
            what,
            fabric: P::NAME,
        })
    };
    if !caps.supports.uc || !caps.supports.ud {
        return lacks("UC and UD queue pairs");
    }
    if caps.mtu_bytes < 128 {
        return lacks("messages of 128 bytes");
    }
    Ok(())
}

/// The time of the server's start. All workers count from this one, so their clocks agree however long each takes to
/// allocate its memory.
fn start_of<P: Provider>(device: &P::Device, options: &ServerOptions) -> Result<Ns, StartError> {
    match options.clock.started {
        Some(started) => Ok(started),
        None => Ok(device.context()?.cpu().refresh()),
    }
}
