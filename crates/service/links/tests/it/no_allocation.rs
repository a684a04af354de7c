//! A message and its reply allocate nothing once the link has seen as many at once.

use crate::bed::{Bed, pending};
use drover_mem::CountingAlloc;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

#[test]
fn a_message_allocates_nothing() {
    let mut bed = Bed::new(2);
    bed.link(0, 1);
    let route = bed.node(0).links.route(1, 0);
    bed.events(0).is_quiet = true;
    bed.events(1).is_quiet = true;
    let (short, value) = ([b'k'; 60], [b'v'; 2_000]);
    let ask = |bed: &mut Bed, rounds: u64| {
        for _ in 0..rounds {
            let before = bed.events(0).replies;
            for number in 0..100 {
                let links = &mut bed.node(0).links;
                links
                    .send(route, pending(number), &[&short, b"end"])
                    .expect("space");
                links
                    .send(route, pending(number), &[&short, &value])
                    .expect("space");
            }
            while bed.events(0).replies < before + 200 {
                bed.round();
            }
        }
    };
    ask(&mut bed, 200);
    let before = ALLOC.count();
    ask(&mut bed, 200);
    assert_eq!(ALLOC.count() - before, 0);
}
