//! What the threads of a domain share: counted by the stub, in a process of its own.

use drover_mem::{PageWish, Region};
use drover_testkit::alone::alone;
use drover_verbs::{
    Access, Context, Device, Domain, DomainOptions, DoorbellReport, DoorbellSource, Doorbells, MemoryRegion,
    QpKind, QpOptions,
};
use drover_verbs_ibv::ffi::Library;
use drover_verbs_ibv::{Ibv, IbvDevice, IbvDomain, IbvOptions};
use drover_verbs_ibv_stub::{self as stub, Counts};
use std::sync::{Arc, Barrier};

const THREADS: usize = 4;
const REGIONS: usize = 3;

fn domain(library: Arc<Library>, options: &DomainOptions) -> IbvDomain {
    let mut ibv = IbvOptions::default();
    ibv.library = Some(library);
    let device = IbvDevice::open(ibv).expect("a device");
    device.domain(options).expect("a domain")
}

/// Opens a context with a queue pair in each of several threads, each of which uses every region, and calls `look` while
/// all are open.
fn with_threads<T>(domain: &IbvDomain, regions: &[Region], look: impl FnOnce() -> T) -> T {
    let shared: Vec<_> = regions
        .iter()
        .map(|region| domain.register(region, Access::ALL).expect("registered"))
        .collect();
    let (ready, done) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let ctx = domain.context().expect("a context");
                let mrs: Vec<_> = shared.iter().map(|mr| ctx.adopt(mr).expect("adopted")).collect();
                let cq = ctx.create_cq(8).expect("a queue");
                let options = QpOptions::<Ibv>::new(QpKind::Rc, &cq, ctx.caps());
                let qp = ctx.create_qp(&options).expect("a queue pair");
                ready.wait();
                done.wait();
                drop((qp, mrs));
            });
        }
        ready.wait();
        let seen = look();
        done.wait();
        seen
    })
}

fn regions() -> Vec<Region> {
    (0..REGIONS)
        .map(|_| Region::private(4096, PageWish::Small).expect("memory"))
        .collect()
}

#[test]
fn threads_share_device_protection_domain_and_registrations() {
    alone(
        "domains::threads_share_device_protection_domain_and_registrations",
        || {
            let options = DomainOptions::with(Doorbells::PerContext);
            let domain = domain(stub::library(), &options);
            let (counts, report) = with_threads(&domain, &regions(), || (stub::counts(), domain.doorbells()));
            let expected = Counts {
                devices: 1,
                protection_domains: 1,
                thread_domains: THREADS,
                parent_domains: THREADS,
                registrations: REGIONS,
                device_memories: 0,
            };
            assert_eq!(counts, expected);
            let expected = DoorbellReport {
                doorbells: Doorbells::PerContext,
                users: vec![1; THREADS],
                source: DoorbellSource::Granted,
            };
            assert_eq!(report, expected);
            drop(domain);
            assert_eq!((stub::counts(), stub::objects_alive()), (Counts::NONE, 0));
        },
    );
}

#[test]
fn contexts_without_a_domain_open_a_device_each() {
    alone("domains::contexts_without_a_domain_open_a_device_each", || {
        let mut options = IbvOptions::default();
        options.library = Some(stub::library());
        let device = IbvDevice::open(options).expect("a device");
        let contexts = [(); THREADS].map(|()| device.context().expect("a context"));
        let expected = Counts {
            devices: THREADS,
            protection_domains: THREADS,
            ..Counts::NONE
        };
        assert_eq!(stub::counts(), expected);
        drop(contexts);
        assert_eq!(stub::counts(), Counts::NONE);
    });
}

#[test]
fn a_driver_without_thread_domains_assigns_registers_itself() {
    alone(
        "domains::a_driver_without_thread_domains_assigns_registers_itself",
        || {
            for library in [stub::plain_library(), stub::old_library()] {
                let domain = domain(library, &DomainOptions::with(Doorbells::PerContext));
                let (counts, report) =
                    with_threads(&domain, &regions(), || (stub::counts(), domain.doorbells()));
                assert_eq!((counts.thread_domains, counts.parent_domains), (0, 0));
                assert_eq!((counts.devices, counts.registrations), (1, REGIONS));
                let expected = DoorbellReport {
                    doorbells: Doorbells::Driver,
                    users: Vec::new(),
                    source: DoorbellSource::Unknown,
                };
                assert_eq!(report, expected);
            }
        },
    );
}

#[test]
fn more_contexts_than_registers_share_and_the_report_says_so() {
    alone(
        "domains::more_contexts_than_registers_share_and_the_report_says_so",
        || {
            let mut options = DomainOptions::with(Doorbells::PerContext);
            options.registers = Some(THREADS - 2);
            let domain = domain(stub::library(), &options);
            let report = with_threads(&domain, &[], || domain.doorbells());
            assert_eq!(report.users, [1, 1, 2]);
            assert!(report.is_shared());
        },
    );
}

#[test]
fn a_registration_lives_as_long_as_its_last_handle() {
    alone("domains::a_registration_lives_as_long_as_its_last_handle", || {
        let domain = domain(stub::library(), &DomainOptions::default());
        let ctx = domain.context().expect("a context");
        let memory = ctx.alloc(4096, PageWish::Small).expect("memory");
        let shared = domain.register(&memory, Access::ALL).expect("registered");
        let mr = ctx.adopt(&shared).expect("adopted");
        drop((shared, ctx, domain));
        assert_eq!(stub::counts().registrations, 1);
        assert_eq!(mr.region().len(), 4096);
        drop(mr);
        assert_eq!(stub::counts(), Counts::NONE);
    });
}

/// A server makes one for each of its clients.
#[test]
fn an_isolated_context_has_a_domain_and_no_descriptors_of_its_own() {
    alone(
        "domains::an_isolated_context_has_a_domain_and_no_descriptors_of_its_own",
        || {
            let ctx = domain(stub::library(), &DomainOptions::default())
                .context()
                .expect("a context");
            let fds = || std::fs::read_dir("/proc/self/fd").expect("proc").count();
            let before = (fds(), stub::counts().protection_domains);
            let own = ctx.isolated().expect("a domain").expect("a context");
            assert_eq!(
                (fds(), stub::counts().protection_domains),
                (before.0, before.1 + 1)
            );
            drop(own);
            assert_eq!((fds(), stub::counts().protection_domains), before);
        },
    );
}
