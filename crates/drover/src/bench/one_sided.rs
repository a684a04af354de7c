//! One-sided systems under test: clients of all shards of a service.

use super::herd::{ClientSettings, client_arguments};
use crate::shards::System;
use crate::shards::client::{ShardClient, connect, system_at};
use drover_base::Ns;
use drover_bench::{Helper, KvTarget, System as Tested, TargetError};
use drover_kv_farm::client::FarmClient;
use drover_kv_pilaf::client::PilafClient;
use drover_mem::NativeCpu;
use drover_rt::control::{ControlAddr, ControlStream};
use drover_verbs::{Context, Device, Provider};
use std::marker::PhantomData;
use std::process::Command;
use std::rc::Rc;

/// How long a client may take to connect.
const CONNECT: Ns = Ns::from_s(10);

/// Clients of the service at one address.
pub struct OneSided<P: Provider, C> {
    system: System,
    addr: ControlAddr,
    settings: ClientSettings,
    device: P::Device,
    _client: PhantomData<fn() -> C>,
}

/// Pilaf's.
pub fn pilaf<P: Provider>(
    addr: ControlAddr,
    settings: ClientSettings,
    device: P::Device,
) -> OneSided<P, PilafClient<P>> {
    OneSided {
        system: System::Pilaf,
        addr,
        settings,
        device,
        _client: PhantomData,
    }
}

/// FaRM-KV's.
pub fn farm<P: Provider>(
    addr: ControlAddr,
    settings: ClientSettings,
    device: P::Device,
) -> OneSided<P, FarmClient<P>> {
    OneSided {
        system: System::Farm,
        addr,
        settings,
        device,
        _client: PhantomData,
    }
}

impl<P: Provider<Cpu = NativeCpu>, C: ShardClient<P>> Tested for OneSided<P, C> {
    type Target = KvTarget<P, C>;

    fn connect(&self, client_index: u32) -> Result<Self::Target, Box<TargetError>> {
        let words = |what: &dyn std::fmt::Display| {
            TargetError::new(format!(
                "client {client_index} cannot reach {}: {what}",
                self.addr
            ))
        };
        let ctx = Rc::new(self.device.context().map_err(|e| words(&e))?);
        let mut stream = ControlStream::connect(&self.addr, CONNECT).map_err(|e| words(&e))?;
        let (_, shards) = system_at(&mut stream, ctx.cpu(), CONNECT).map_err(|e| words(&e))?;
        let client = connect::<P, C>(&ctx, &self.addr, shards, self.settings.window, CONNECT)
            .map_err(|e| words(&e))?;
        let target = KvTarget::new(ctx, client).counting(C::reads);
        Ok(match self.settings.spin_us {
            None => target,
            Some(us) => target.sleeping_after(Ns::from_us(us)),
        })
    }

    fn process(&self, helper: &Helper) -> Option<Command> {
        let mut command = Command::new(&helper.program);
        command.args(&helper.arguments).arg("clients");
        command.args(client_arguments(self.system, &self.addr, self.settings));
        Some(command)
    }
}
