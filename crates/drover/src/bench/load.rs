//! [`UnderTest`]: clients of any system on any fabric, as the load generator drives them, and processes of such
//! clients.

use crate::access::connector;
use drover_base::Ns;
use drover_bench::{Helper, KvTarget, System as Tested, TargetError, client_process};
use drover_client::{Fabric, Job};
use drover_control::{ControlAddr, ControlStream, Credentials, TlsConnector};
use drover_kv::{
    ConnectOptions, FetchObjective, ResultTransfer, ServiceClient, System, SystemJob, SystemTable,
    ask_service, connect, dials,
};
use drover_mem::NativeCpu;
use drover_rt::Idle;
use drover_verbs::{Context, Device, Provider};
use std::ffi::{OsStr, OsString};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::rc::Rc;
use std::sync::Arc;

/// Time limit for a client to connect.
const CONNECT: Ns = Ns::from_s(10);

/// Settings of the clients that a bench runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientSettings {
    /// Number of operations in flight that each client asks for, per shard.
    pub window: usize,
    /// Idle polling time before a client sleeps, microseconds; `None`: the adaptive default.
    pub spin_us: Option<u64>,
    /// How results come to clients, in systems that know several ways.
    pub transfer: ResultTransfer,
    /// What clients that READ results aim at.
    pub objective: FetchObjective,
}

impl ClientSettings {
    fn arguments(self) -> [String; 4] {
        let spin = self.spin_us.map_or(DEFAULT.to_owned(), |us| us.to_string());
        let names = [self.transfer.name(), self.objective.name()];
        let [transfer, objective] = names.map(str::to_owned);
        [self.window.to_string(), spin, transfer, objective]
    }

    fn from_arguments([window, spin, transfer, objective]: [&str; 4]) -> Option<ClientSettings> {
        Some(ClientSettings {
            window: window.parse().ok()?,
            spin_us: match spin {
                DEFAULT => None,
                us => Some(us.parse().ok()?),
            },
            transfer: transfer.parse().ok()?,
            objective: objective.parse().ok()?,
        })
    }
}

const DEFAULT: &str = "default";

/// Connects clients to a service of system `S` at one address, for the load generator. Owns none of them.
pub struct UnderTest<P: Provider, S> {
    addr: ControlAddr,
    settings: ClientSettings,
    device: P::Device,
    _system: PhantomData<S>,
}

impl<P: Provider, S> UnderTest<P, S> {
    /// Describes clients of the service at `addr`, reached through `device`; connects none yet.
    pub fn new(addr: ControlAddr, settings: ClientSettings, device: P::Device) -> UnderTest<P, S> {
        UnderTest {
            addr,
            settings,
            device,
            _system: PhantomData,
        }
    }
}

impl<P: Provider<Cpu = NativeCpu>, S: System> Tested for UnderTest<P, S> {
    type Target = KvTarget<P, S::Client<P>>;

    fn connect(&self, client_index: u32) -> Result<Self::Target, Box<TargetError>> {
        let words = |what: &dyn std::fmt::Display| {
            TargetError::new(format!(
                "client {client_index} cannot reach {}: {what}",
                self.addr
            ))
        };
        let ctx = Rc::new(self.device.context().map_err(|e| words(&e))?);
        let mut stream = ControlStream::connect(&self.addr, CONNECT).map_err(|e| words(&e))?;
        let info = ask_service(&mut stream, ctx.cpu(), CONNECT).map_err(|e| words(&e))?;
        let dials = dials(&S::FACTS, &self.addr, info.shard_count, Some(stream));
        let options = ConnectOptions {
            window: self.settings.window,
            transfer: self.settings.transfer,
            objective: self.settings.objective,
            ..ConnectOptions::default()
        };
        let client: S::Client<P> = connect::<P, _>(&ctx, dials, &options, CONNECT).map_err(|e| words(&e))?;
        let mut target = KvTarget::new(ctx, client).counting_calls(|client| client.calls());
        if <S::Client<P> as ServiceClient<P>>::COUNTS_VERBS {
            target = target.counting_verbs(|client| client.verbs());
        }
        if S::FACTS.table.is_some() {
            target = target.counting(|client| client.reads().unwrap_or_default());
        }
        Ok(match self.settings.spin_us {
            None => target,
            Some(us) => target.waiting_as(Idle::Adaptive {
                spin: Ns::from_us(us),
            }),
        })
    }

    fn counts_verbs(&self) -> bool {
        <S::Client<P> as ServiceClient<P>>::COUNTS_VERBS
    }

    fn process(&self, helper: &Helper) -> Option<Command> {
        let mut command = Command::new(&helper.program);
        command.args(&helper.arguments).arg("clients");
        command.args(client_arguments(S::FACTS.name, &self.addr, self.settings));
        command.args(tls_arguments(&self.addr));
        // Arguments are everybody's to read.
        if let Some(credentials) = self.addr.credentials() {
            let text = [credentials.user(), b":", credentials.secret()].concat();
            command.env(AUTH, OsStr::from_bytes(&text));
        }
        Some(command)
    }
}

/// Arguments for [`clients`].
fn client_arguments(system: &str, addr: &ControlAddr, settings: ClientSettings) -> [String; 6] {
    let [window, spin, transfer, objective] = settings.arguments();
    [
        system.to_string(),
        addr.to_string(),
        window,
        spin,
        transfer,
        objective,
    ]
}

/// The last arguments for [`clients`]: none without TLS, else CA, name, and files of certificate and key; empty ones are
/// not there.
fn tls_arguments(addr: &ControlAddr) -> Vec<OsString> {
    let Some(tls) = addr.tls() else { return Vec::new() };
    let options = tls.options();
    let (certificate, key) = options.certificate.clone().unwrap_or_default();
    let name = options.name.clone().unwrap_or_default();
    vec![
        options.ca.clone().into(),
        name.into(),
        certificate.into(),
        key.into(),
    ]
}

/// The TLS of [`tls_arguments`]; an error is text.
fn tls(words: &[OsString]) -> Result<Option<Arc<TlsConnector>>, String> {
    let [ca, name, certificate, key] = words else {
        return Ok(None);
    };
    let name = name.to_str().filter(|name| !name.is_empty()).map(str::to_owned);
    let certificate = (!key.is_empty()).then(|| (certificate.into(), key.into()));
    connector(Some(Path::new(ca)), name, certificate).map_err(|failure| failure.text)
}

/// Environment variable of a client process with the user that it connects as.
const AUTH: &str = "DROVER_BENCH_AUTH";

fn credentials() -> Option<Arc<Credentials>> {
    let text = std::env::var_os(AUTH)?;
    Credentials::parse(text.as_bytes()).ok().map(Arc::new)
}

/// Main function of a client process of a bench; its arguments come from the bench.
pub fn clients<T: SystemTable>(arguments: Vec<OsString>) -> ExitCode {
    let (words, tls_words) = arguments.split_at(arguments.len().min(6));
    let tls = match tls(tls_words) {
        Ok(tls) => tls,
        Err(error) => {
            eprintln!("drover bench, client process: {error}");
            return ExitCode::FAILURE;
        }
    };
    let words: Option<Vec<String>> = words.iter().map(|w| w.clone().into_string().ok()).collect();
    let clients = words.and_then(|words| match &words[..] {
        [system, addr, window, spin, transfer, objective] => Some(Clients {
            system: T::named(system)?,
            addr: addr
                .parse::<ControlAddr>()
                .ok()?
                .with_credentials(credentials())
                .with_tls(tls),
            settings: ClientSettings::from_arguments([window, spin, transfer, objective])?,
        }),
        _ => None,
    });
    let Some(clients) = clients else {
        eprintln!("this command is started by bench itself");
        return ExitCode::FAILURE;
    };
    match Fabric::towards(&clients.addr) {
        Ok(fabric) => fabric.run(clients),
        Err(failure) => {
            eprintln!("drover bench, client process: {failure}");
            ExitCode::FAILURE
        }
    }
}

struct Clients<T> {
    system: T,
    addr: ControlAddr,
    settings: ClientSettings,
}

impl<T: SystemTable> Job for Clients<T> {
    type Answer = ExitCode;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> ExitCode {
        self.system.run(ClientsOn::<P, T> {
            device: device.clone(),
            clients: self,
        })
    }
}

struct ClientsOn<P: Provider, T> {
    device: P::Device,
    clients: Clients<T>,
}

impl<P: Provider<Cpu = NativeCpu>, T: SystemTable> SystemJob for ClientsOn<P, T> {
    type Answer = ExitCode;

    fn run<S: System>(self) -> ExitCode {
        let Clients { addr, settings, .. } = self.clients;
        client_process(&UnderTest::<P, S>::new(addr, settings, self.device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_the_command_line() {
        for spin_us in [None, Some(0), Some(50)] {
            for (transfer, objective) in ResultTransfer::ALL
                .into_iter()
                .zip(FetchObjective::ALL.into_iter().cycle())
            {
                let settings = ClientSettings {
                    window: 7,
                    spin_us,
                    transfer,
                    objective,
                };
                let words = settings.arguments();
                let read = ClientSettings::from_arguments(words.each_ref().map(String::as_str));
                assert_eq!(read, Some(settings));
            }
        }
        assert_eq!(
            ClientSettings::from_arguments(["7", "often", "auto", "exact"]),
            None
        );
    }
}
