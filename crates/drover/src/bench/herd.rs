//! HERD as a system under test, on whatever fabric an address means; and the processes that bench starts, of any system:
//! its server, its clients.

use super::one_sided::{farm, pilaf};
use crate::fabric::{Fabric, Job};
use crate::shards::{FarmShard, Shard, ShardPlan, Shards, System};
use drover_base::Ns;
use drover_bench::{Helper, KvTarget, System as Tested, Table, TableKind, TargetError, client_process, pin};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_kv_herd::server::{Server, ServerOptions};
use drover_mem::NativeCpu;
use drover_rt::control::{ControlAddr, ControlListener};
use drover_store::{Mode, PartitionOptions};
use drover_verbs::{Device, Provider};
use drover_verbs_shm::ShmDevice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::rc::Rc;
use std::sync::Arc;

/// How long a client may take to connect.
const CONNECT: Ns = Ns::from_s(10);

/// Clients of the server at one address.
pub struct Herd<P: Provider> {
    /// Where the server is.
    pub addr: ControlAddr,
    /// How its clients go about it.
    pub settings: ClientSettings,
    /// What leads there.
    pub device: P::Device,
}

/// How clients ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientSettings {
    /// Slots per client and partition.
    pub window: usize,
    /// They poll so long in vain before they sleep, microseconds; `None`: for ever.
    pub spin_us: Option<u64>,
}

impl ClientSettings {
    fn arguments(self) -> [String; 2] {
        let spin = self.spin_us.map_or(FOR_EVER.to_owned(), |us| us.to_string());
        [self.window.to_string(), spin]
    }

    fn from_arguments(window: &str, spin: &str) -> Option<ClientSettings> {
        Some(ClientSettings {
            window: window.parse().ok()?,
            spin_us: match spin {
                FOR_EVER => None,
                us => Some(us.parse().ok()?),
            },
        })
    }
}

const FOR_EVER: &str = "for-ever";

impl<P: Provider<Cpu = NativeCpu>> Tested for Herd<P> {
    type Target = KvTarget<P, HerdClient<P>>;

    fn connect(&self, client_index: u32) -> Result<Self::Target, Box<TargetError>> {
        let words = |what: &dyn std::fmt::Display| {
            TargetError::new(format!(
                "client {client_index} cannot reach {}: {what}",
                self.addr
            ))
        };
        let ctx = Rc::new(self.device.context().map_err(|e| words(&e))?);
        let options = ClientOptions {
            window: self.settings.window.next_power_of_two(),
            ..ClientOptions::default()
        };
        let dial = Dial::to(self.addr.clone());
        let client =
            HerdClient::connect_blocking(ctx.clone(), dial, options, CONNECT).map_err(|e| words(&e))?;
        let target = KvTarget::new(ctx, client);
        Ok(match self.settings.spin_us {
            None => target,
            Some(us) => target.sleeping_after(Ns::from_us(us)),
        })
    }

    fn process(&self, helper: &Helper) -> Option<Command> {
        let mut command = Command::new(&helper.program);
        command.args(&helper.arguments).arg("clients");
        command.args(client_arguments(System::Herd, &self.addr, self.settings));
        Some(command)
    }
}

/// What [`clients`] is told.
pub fn client_arguments(system: System, addr: &ControlAddr, settings: ClientSettings) -> [String; 4] {
    let [window, spin] = settings.arguments();
    [system.to_string(), addr.to_string(), window, spin]
}

/// A client process's side.
pub fn clients(arguments: Vec<OsString>) -> ExitCode {
    let words: Option<Vec<String>> = arguments.into_iter().map(|w| w.into_string().ok()).collect();
    let clients = words.and_then(|words| match &words[..] {
        [system, addr, window, spin] => Some(Clients {
            system: System::named(system)?,
            addr: addr.parse().ok()?,
            settings: ClientSettings::from_arguments(window, spin)?,
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
            eprintln!("drover bench, client process: {}", failure.text);
            ExitCode::FAILURE
        }
    }
}

struct Clients {
    system: System,
    addr: ControlAddr,
    settings: ClientSettings,
}

impl Job for Clients {
    type Answer = ExitCode;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> ExitCode {
        let device = device.clone();
        let (addr, settings) = (self.addr, self.settings);
        match self.system {
            System::Herd => client_process(&Herd::<P> {
                addr,
                settings,
                device,
            }),
            System::Pilaf => client_process(&pilaf::<P>(addr, settings, device)),
            System::Farm => client_process(&farm::<P>(addr, settings, device)),
        }
    }
}

/// Sizes of the server that a bench starts.
#[derive(Clone, Debug)]
pub struct ServerPlan {
    /// What it speaks.
    pub system: System,
    /// One worker on each.
    pub cores: Vec<usize>,
    /// Items in all.
    pub item_count: u64,
    /// Bytes of an item in the log.
    pub item_bytes: usize,
    /// Slots per client and worker.
    pub window: usize,
    /// Longest value.
    pub value_bytes_max: usize,
}

impl ServerPlan {
    /// A worker's store, for twice the items there are: MICA's index forgets items when its buckets are unevenly
    /// full (0.7 % at half load), and the rivals forget none.
    pub fn partition(&self) -> PartitionOptions {
        let share = self.item_count.div_ceil(self.cores.len() as u64) as usize;
        let mode = Mode::Cache { move_to_head: 1.0 };
        PartitionOptions::for_items(mode, share * 2, self.item_bytes)
    }

    /// Bytes of index and of log that requests touch, all workers together.
    pub fn footprint(&self) -> [u64; 2] {
        if self.system != System::Herd {
            return self.shards().footprint().map(|bytes| bytes as u64);
        }
        let index = self.partition().bucket_count * drover_mem::LINE_BYTES * self.cores.len();
        [index as u64, self.item_count * self.item_bytes as u64]
    }

    /// The shards of a one-sided system for so many items.
    pub fn shards(&self) -> ShardPlan {
        let table = self.system.table(self.value_bytes_max);
        ShardPlan::of_items(table, self.item_count, self.item_bytes, self.cores.len())
    }

    /// The table that `key_count` keys fill, if clients read it.
    pub fn table(&self, key_count: u32) -> Option<Table> {
        let kind = match self.system {
            System::Herd => return None,
            System::Pilaf => TableKind::Cuckoo,
            System::Farm => TableKind::Hopscotch,
        };
        let plan = self.shards();
        let places = plan.entry_count * plan.shard_count;
        Some(Table {
            kind,
            load: f64::from(key_count) / places as f64,
        })
    }

    fn arguments(&self, addr: &ControlAddr) -> Vec<String> {
        let cores = self
            .cores
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(",");
        let numbers = [
            self.item_count as usize,
            self.item_bytes,
            self.window,
            self.value_bytes_max,
        ];
        let mut all = vec![self.system.to_string(), addr.to_string(), cores];
        all.extend(numbers.map(|n| n.to_string()));
        all
    }

    fn from_arguments(arguments: &[String]) -> Option<(ControlAddr, ServerPlan)> {
        let [system, addr, cores, numbers @ ..] = arguments else {
            return None;
        };
        let numbers = numbers
            .iter()
            .map(|n| n.parse().ok())
            .collect::<Option<Vec<usize>>>()?;
        let [item_count, item_bytes, window, value_bytes_max] = numbers[..] else {
            return None;
        };
        let plan = ServerPlan {
            system: System::named(system)?,
            cores: cores.split(',').map(|c| c.parse().ok()).collect::<Option<_>>()?,
            item_count: item_count as u64,
            item_bytes,
            window,
            value_bytes_max,
        };
        Some((addr.parse().ok()?, plan))
    }
}

/// A server process of ours. Asked to stop when dropped, killed by its id if it does not; it does not outlive us
/// in any case.
pub struct ServerProcess {
    child: Child,
    /// Where it listens.
    pub addr: ControlAddr,
}

impl ServerProcess {
    /// Starts it at `addr`, whose port may be 0, and waits until it listens. The calling thread must outlive it.
    pub fn start(helper: &Helper, plan: &ServerPlan, addr: &ControlAddr) -> io::Result<ServerProcess> {
        let mut command = Command::new(&helper.program);
        command
            .args(&helper.arguments)
            .arg("serve")
            .args(plan.arguments(addr));
        // The end of its standard input, with us however we end, tells it to stop and to remove its socket.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pin::pinned(&plan.cores, || command.spawn())??;
        let out = child.stdout.take().expect("standard output is piped");
        let mut process = ServerProcess {
            child,
            addr: addr.clone(),
        };
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?; // it ends with the process, if not before
        process.addr = line
            .trim_end()
            .parse()
            .map_err(|_| io::Error::other("the server process ended before it served"))?;
        Ok(process)
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its end, if it has ended already.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("the server process ended: {status}"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if !ends_within(&self.child, STOP) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// How long a server may take to stop.
const STOP: Timespec = Timespec {
    tv_sec: 3,
    tv_nsec: 0,
};

fn ends_within(child: &Child, time: Timespec) -> bool {
    let pid = rustix::process::Pid::from_child(child);
    let Ok(process) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else {
        return false;
    };
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    poll(&mut ended, Some(&time)).is_ok_and(|count| count > 0)
}

/// The server process's side: serves until its standard input ends.
pub fn serve(arguments: Vec<OsString>) -> ExitCode {
    let words: Option<Vec<String>> = arguments.into_iter().map(|w| w.into_string().ok()).collect();
    let Some((addr, plan)) = words.and_then(|w| ServerPlan::from_arguments(&w)) else {
        eprintln!("this command is started by bench itself");
        return ExitCode::FAILURE;
    };
    // Ctrl-C at the terminal reaches us too, but it is meant for the bench that we end with.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::default());
    let served = Fabric::serving(&addr, ShmDevice::default())
        .map_err(|failure| failure.text.into())
        .and_then(|fabric| fabric.run(Serve { addr, plan }));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drover bench, server process: {error}");
            ExitCode::FAILURE
        }
    }
}

type Served = Result<(), Box<dyn std::error::Error>>;

struct Serve {
    addr: ControlAddr,
    plan: ServerPlan,
}

impl Job for Serve {
    type Answer = Served;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Self::Answer {
        let listener = ControlListener::bind(&self.addr)?;
        match self.plan.system {
            System::Herd => serve_herd::<P>(device, listener, self.plan),
            System::Pilaf => {
                serve_shards::<P, drover_kv_pilaf::server::Server<P>>(device, listener, self.plan)
            }
            System::Farm => serve_shards::<P, FarmShard<P>>(device, listener, self.plan),
        }
    }
}

fn serve_herd<P: Provider>(device: &P::Device, listener: ControlListener, plan: ServerPlan) -> Served {
    let addr = listener.addr().to_string();
    let options = ServerOptions {
        partition_count: plan.cores.len(),
        partition: plan.partition(),
        item_bytes_max: plan.value_bytes_max.max(1 << 10),
        window_max: plan.window.next_power_of_two(),
        ..ServerOptions::default()
    };
    let server = Server::<P>::start(device, Some(listener), &options, pin_to(plan.cores))?;
    until_told(&addr)?;
    server.stop();
    Ok(())
}

fn serve_shards<P: Provider<Cpu = NativeCpu>, S: Shard<P> + 'static>(
    device: &P::Device,
    listener: ControlListener,
    plan: ServerPlan,
) -> Served {
    let addr = listener.addr().to_string();
    let (system, shards) = (plan.system, plan.shards());
    let shards = Shards::start::<P, S>(device, system, &shards, vec![listener], pin_to(plan.cores))?;
    until_told(&addr)?;
    shards.stop();
    Ok(())
}

/// Says where it listens, and serves until its standard input ends.
fn until_told(addr: &str) -> io::Result<()> {
    println!("{addr}");
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}

fn pin_to(cores: Vec<usize>) -> impl Fn(usize) + Send + Sync + 'static {
    move |index| {
        if let Err(error) = drover_rt::cores::pin(cores[index]) {
            eprintln!("drover bench: worker {index} cannot be pinned: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_the_command_line() {
        let plan = ServerPlan {
            system: System::Herd,
            cores: vec![1, 3],
            item_count: 1000,
            item_bytes: 72,
            window: 16,
            value_bytes_max: 32,
        };
        let addr: ControlAddr = "shm:x".parse().expect("an address");
        let (there, back) = ServerPlan::from_arguments(&plan.arguments(&addr)).expect("arguments");
        assert_eq!((there, format!("{back:?}")), (addr, format!("{plan:?}")));
        assert!(ServerPlan::from_arguments(&["shm:x".to_owned()]).is_none());
    }

    #[test]
    fn a_manner_survives_the_command_line() {
        for spin_us in [None, Some(0), Some(50)] {
            let settings = ClientSettings { window: 7, spin_us };
            let [window, spin] = settings.arguments();
            assert_eq!(ClientSettings::from_arguments(&window, &spin), Some(settings));
        }
        assert_eq!(ClientSettings::from_arguments("7", "often"), None);
    }

    #[test]
    fn the_index_has_space_to_spare() {
        let plan = ServerPlan {
            system: System::Herd,
            cores: vec![1],
            item_count: 1_000_000,
            item_bytes: 72,
            window: 16,
            value_bytes_max: 32,
        };
        let options = plan.partition();
        assert!(options.bucket_count * 8 >= 4_000_000, "{options:?}");
        assert!(options.log_bytes >= 1_000_000 * 72, "{options:?}");
    }
}
