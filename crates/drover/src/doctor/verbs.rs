//! What the verbs of each device offer, for people who choose a system or a card: one finding per capability.

use super::Finding;
use super::machine::Machine;
use drover_verbs::{Atomics, Caps, Device};
use drover_verbs_ibv::survey::Details;
use drover_verbs_shm::ShmDevice;

/// The capabilities of shared memory, and of the first port of each RDMA device that can be opened.
pub fn offers(machine: &Machine) -> Vec<Finding> {
    let shm = ShmDevice::default();
    let mut findings = capabilities("shm", shm.caps(), "none: a post is a copy");
    findings.push(fencing_of_shm(machine));
    let devices = machine
        .survey()
        .map(|survey| &survey.devices[..])
        .unwrap_or_default();
    for device in devices {
        if let Ok(Details {
            ports,
            thread_domains,
            ..
        }) = &device.details
            && let Some(port) = ports.first()
        {
            let doorbells = match thread_domains {
                true => "one for each thread that asks (thread domains)",
                false => "as the driver assigns them: it has no thread domains",
            };
            findings.extend(capabilities(&device.name, &port.caps, doorbells));
            findings.push(Finding::good(
                format!("{} fencing", device.name),
                "by the queue pair's error state",
            ));
        }
    }
    findings
}

fn capabilities(fabric: &str, caps: &Caps, doorbells: &str) -> Vec<Finding> {
    let line = |what, found: String| Finding::good(format!("{fabric} {what}"), found);
    let masked = match caps.supports.masked_atomics {
        true => "of any bits (masked)",
        false => "of whole words only",
    };
    let scope = match caps.supports.atomics {
        Atomics::None => "none".to_string(),
        Atomics::Card => {
            format!("CAS {masked} and FAA, atomic towards requests to the card, not towards cores")
        }
        Atomics::Host => format!("CAS {masked} and FAA, atomic towards everything"),
    };
    let read = match caps.reads.see_earlier {
        true => "sees what was posted before it",
        false => "may overtake what was posted before it",
    };
    let shared = match caps.supports.shared_queues {
        true => "threads can share a queue pair",
        false => "none",
    };
    let memory = match caps.supports.device_memory_bytes {
        0 => "none".to_string(),
        bytes => format!("{} KiB", bytes >> 10),
    };
    vec![
        line("atomics", scope),
        line(
            "READs",
            format!("{} B seen whole; a READ {read}", caps.reads.unit_bytes),
        ),
        line("doorbells", doorbells.to_string()),
        line("shared queues", shared.to_string()),
        line("card memory", memory),
    ]
}

/// How a peer is shut out over shared memory, and at what price.
fn fencing_of_shm(machine: &Machine) -> Finding {
    let what = "shm fencing";
    match machine.barriers_refused {
        false => Finding::good(
            what,
            "by a barrier of the kernel (membarrier): posts pay two stores",
        ),
        true => Finding::fair(
            what,
            "posts are fenced: the kernel refuses membarrier, so every post has a full fence, and sleeps are short",
            "allow the system call membarrier, in the container's or the service's filter of system calls",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_verbs_ibv::Survey;
    use drover_verbs_ibv_stub as stub;

    fn text(machine: &Machine) -> String {
        offers(machine).iter().map(Finding::to_string).collect()
    }

    const SHM: &str = "\
ok    shm atomics            CAS of any bits (masked) and FAA, atomic towards everything
ok    shm READs              8 B seen whole; a READ sees what was posted before it
ok    shm doorbells          none: a post is a copy
ok    shm shared queues      none
ok    shm card memory        none
";
    const BARRIER: &str = "\
ok    shm fencing            by a barrier of the kernel (membarrier): posts pay two stores
";

    #[test]
    fn a_bare_machine() {
        assert_eq!(text(&Machine::empty()), format!("{SHM}{BARRIER}"));
    }

    #[test]
    fn a_machine_whose_kernel_refuses_barriers() {
        let mut machine = Machine::empty();
        machine.barriers_refused = true;
        let fenced = "\
note  shm fencing            posts are fenced: the kernel refuses membarrier, so every post has a full fence, and sleeps are short
                             -> allow the system call membarrier, in the container's or the service's filter of system calls
";
        assert_eq!(text(&machine), format!("{SHM}{fenced}"));
    }

    #[test]
    fn a_machine_with_a_card() {
        let survey = Survey::take(Some(stub::library())).expect("a survey");
        let card = "\
ok    stub0 atomics          CAS of whole words only and FAA, atomic towards requests to the card, not towards cores
ok    stub0 READs            8 B seen whole; a READ sees what was posted before it
ok    stub0 doorbells        one for each thread that asks (thread domains)
ok    stub0 shared queues    threads can share a queue pair
ok    stub0 card memory      256 KiB
ok    stub0 fencing          by the queue pair's error state
";
        assert_eq!(
            text(&Machine::empty().with(survey)),
            format!("{SHM}{BARRIER}{card}")
        );
    }

    /// As the guest's software RoCE, whose text `cargo xtask guest --only drover-doctor` compares.
    #[test]
    fn a_machine_whose_driver_has_nothing_of_that() {
        let survey = Survey::take(Some(stub::plain_library())).expect("a survey");
        let card = text(&Machine::empty().with(survey));
        assert!(
            card.contains("stub0 doorbells        as the driver assigns them: it has no thread domains"),
            "{card}"
        );
        assert!(card.contains("stub0 card memory      none"), "{card}");
    }
}
