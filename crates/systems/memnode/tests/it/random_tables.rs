//! Goal: whatever stands in a node's tables, clients neither panic nor hang nor post requests outside.

use crate::bed::{Bed, loopback};
use drover_base::{Ns, Rng};
use drover_memnode::recovery::{RecoveryOptions, Repair, recover};
use drover_memnode::{Addr, ClientId, MemoryError, Need, Nodes};
use drover_rt::TaskCx;
use drover_testkit::seeds::fresh_seed;
use drover_verbs::Provider;

struct Nothing;

impl<P: Provider> Repair<P> for Nothing {
    async fn repair(&self, _: &TaskCx<P>, _: &Nodes<P>, _: usize, _: &[ClientId]) -> Result<(), MemoryError> {
        Ok(())
    }

    async fn visit(
        &self,
        _: &TaskCx<P>,
        _: &Nodes<P>,
        _: usize,
        mark: &mut dyn FnMut(Addr, usize),
    ) -> Result<(), MemoryError> {
        mark(Addr::from_bits(u64::MAX), usize::MAX >> 1);
        Ok(())
    }
}

fn play(seed: u64) {
    let mut rng = Rng::new(seed, 0, 0);
    let bed = Bed::new(loopback(), 1);
    let (one, two) = (bed.process(), bed.process());
    let threads = [bed.thread(&one), bed.thread(&two)];
    for _ in 0..10 {
        bed.nodes[0].with(|served| {
            let state = served.node.host();
            let geometry = state.header().geometry;
            // The words of the header that clients change, or their lines, or the chunk table.
            let (from, to) = match rng.below(4) {
                0 => (64, 256),
                1 => (128, 144),
                2 => (geometry.client_line(1), geometry.client_line(1) + 512),
                _ => (
                    geometry.chunk_table(),
                    geometry.chunk_entry(geometry.chunk_count()),
                ),
            };
            for _ in 0..1 + rng.below(200) {
                let word = (from + rng.below((to - from) as u64) as usize) / 8 * 8;
                let value = match rng.below(3) {
                    0 => rng.below(300),
                    1 => rng.below(9) << 56 | rng.below(300) << 32 | rng.below(4) << 16,
                    _ => rng.next_u64(),
                };
                state
                    .region()
                    .store_u64(word, value, std::sync::atomic::Ordering::Relaxed);
            }
        });
        let outs = threads.each_ref().map(|thread| {
            thread.spawn(|cx, nodes, arena| async move {
                let mut blocks = Vec::new();
                for bytes in [8, 64, 16 << 10, 50_000, 16 << 10] {
                    let _pin = nodes.pin(0);
                    if let Ok(addr) = arena.alloc(&cx, 0, bytes, Need::Essential).await {
                        blocks.push((addr, bytes));
                    }
                }
                let _ = arena.version(&cx, 0).await;
                blocks
                    .iter()
                    .for_each(|&(addr, bytes)| arena.put_back(addr, bytes));
                let _ = arena.give_back(&cx, 0).await;
                let _ = nodes.client_line(&cx, 0, 3).await;
                let options = RecoveryOptions {
                    patience: Ns::from_ms(5),
                    always_sweep: true,
                };
                let _ = arena.keep_up(&cx, 0).await;
                let _ = recover(&cx, &arena, 0, &Nothing, options).await;
            })
        });
        let mut left = outs.len();
        bed.until("all operations end", || {
            left -= outs.iter().filter(|out| out.take().is_some()).count();
            left == 0
        });
    }
}

#[test]
fn random_tables_are_survived() {
    let first = fresh_seed();
    for seed in first..first + 40 {
        println!("seed {seed}");
        play(seed);
    }
}
