//! The path of a GET and of a PUT through a worker, down to the fabric's rings, allocates nothing.

use drover_mem::CountingAlloc;

#[path = "../../examples/worker_instructions.rs"]
#[allow(dead_code, reason = "its main is for the command line")]
mod meter;

#[global_allocator]
pub static ALLOC: CountingAlloc = CountingAlloc::new();

#[test]
fn requests_allocate_nothing() {
    for (put, paper) in [(false, false), (true, false), (false, true), (true, true)] {
        let ask = meter::Ask { put, paper };
        let allocations = meter::run(ask, 4096, &|| ALLOC.count()).expect("a run");
        assert_eq!(allocations, 0, "put: {put}, paper: {paper}");
    }
    let ask = meter::Ask {
        put: false,
        paper: false,
    };
    let allocations = meter::run(ask, 64, &|| {
        drop(std::hint::black_box(Box::new(0)));
        ALLOC.count()
    });
    assert!(allocations.expect("a run") > 0, "one that allocates is noticed");
}
