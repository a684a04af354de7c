//! [`Setup`]: what the workers and the acceptor of one server are made from.

use super::inbox::{Event, Inbox};
use super::options::ServerOptions;
use crate::control::PARTITIONS_MAX;
use crate::layout::{SlotMap, WINDOW_MAX};
use drover_base::{Cpu, Ns};
use drover_kv::StartError;
use drover_verbs::{Context, Device, Provider};
use std::sync::Arc;

/// Options that fit the fabric, and what all threads of a server share.
pub(super) struct Setup<P: Provider, V> {
    pub(super) device: P::Device,
    pub(super) options: ServerOptions,
    /// From workers to the acceptor.
    pub(super) events: Arc<Inbox<Event>>,
    pub(super) started: Ns,
    pub(super) variant: V,
}

impl<P: Provider, V: Copy> Clone for Setup<P, V> {
    fn clone(&self) -> Setup<P, V> {
        Setup {
            device: self.device.clone(),
            options: self.options.clone(),
            events: self.events.clone(),
            ..*self
        }
    }
}

impl<P: Provider, V> Setup<P, V> {
    /// Errors: options that cannot be, or not on this fabric.
    pub(super) fn new(
        device: &P::Device,
        options: &ServerOptions,
        variant: V,
    ) -> Result<Setup<P, V>, StartError> {
        check::<P>(device, options)?;
        Ok(Setup {
            device: device.clone(),
            options: options.clone(),
            events: Inbox::new(),
            started: start_of::<P>(device, options)?,
            variant,
        })
    }
}

/// Options and fabric fit HERD and each other.
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
    let caps = device.caps();
    let lacks = |what| {
        Err(StartError::Fabric {
            system: "HERD",
            what,
            fabric: P::NAME,
        })
    };
    if !caps.uc || !caps.ud {
        return lacks("UC and UD queue pairs");
    }
    if caps.mtu_bytes < 128 {
        return lacks("messages of 128 bytes");
    }
    Ok(())
}

/// The start of the server. Workers take what time they need to lay out their memory; their clocks still agree with
/// each other and with the wall clock.
fn start_of<P: Provider>(device: &P::Device, options: &ServerOptions) -> Result<Ns, StartError> {
    match options.clock.started {
        Some(started) => Ok(started),
        None => Ok(device.context()?.cpu().refresh()),
    }
}
