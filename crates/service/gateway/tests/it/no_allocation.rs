//! A GET allocates nothing, and neither do commands that read and write.

use crate::bed::{Bed, Client};
use drover_mem::CountingAlloc;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

#[test]
fn a_command_allocates_nothing() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    let mut told = Vec::with_capacity(1 << 16);
    let mut say = |bed: &mut Bed, said: &str| {
        client.push(said);
        loop {
            bed.advance(&mut client);
            if client.is_answered() {
                told.clear();
                client.take(&mut told);
                return;
            }
        }
    };
    let commands = [
        "set a 1 0 10\r\n0123456789\r\nset n 0 0 2\r\n10\r\n",
        "incr n 1\r\nappend a 0 0 1\r\nx\r\ntouch a 100\r\nms a 2 c\r\nhi\r\nma n v\r\n",
    ];
    for _ in 0..10 {
        commands.iter().for_each(|said| say(&mut bed, said));
        say(&mut bed, "get a\r\n");
    }
    let before = ALLOC.count();
    for _ in 0..100 {
        commands.iter().for_each(|said| say(&mut bed, said));
    }
    let updates = ALLOC.count() - before;
    let before = ALLOC.count();
    for _ in 0..100 {
        say(&mut bed, "get a\r\n");
        say(&mut bed, "mg a v f c\r\n");
    }
    let gets = ALLOC.count() - before;
    assert_eq!((updates, gets), (0, 0));
}
