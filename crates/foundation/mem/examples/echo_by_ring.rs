//! epoll against io_uring for a server of many connections: the same echo of 64-byte requests, one server core, one
//! load core, interleaved within the same seconds. Results: docs/decisions/0012.
//!
//! ```text
//! cargo run --release -p drover-mem --example echo_by_ring
//! ```
//! It is in this crate because a submission to a ring is `unsafe`: its buffers must not move until it completes.

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 50;
const REQUEST_BYTES: usize = 64;
const DEPTHS: [usize; 2] = [1, 32];
const BUFFER_BYTES: usize = 16 << 10;
const SAMPLES: usize = 15;
const SAMPLE: Duration = Duration::from_millis(200);

type Serve = fn(&[TcpStream], &AtomicBool);

fn main() {
    let ways: [(&str, Serve); 2] = [("epoll", by_epoll), ("io_uring", by_ring)];
    if let Err(error) = IoUring::new(8) {
        println!("this kernel does not let us use io_uring: {error}");
        return;
    }
    for depth in DEPTHS {
        let mut rates = [const { Vec::new() }; 2];
        for _ in 0..SAMPLES {
            for ((_, serve), rates) in ways.iter().zip(&mut rates) {
                rates.push(sample(*serve, depth));
            }
        }
        let mut ratios: Vec<f64> = rates[1]
            .iter()
            .zip(&rates[0])
            .map(|(ring, epoll)| ring / epoll)
            .collect();
        ratios.sort_by(f64::total_cmp);
        for ((name, _), rates) in ways.iter().zip(&mut rates) {
            rates.sort_by(f64::total_cmp);
            println!(
                "{CONNECTIONS}x{depth} {name:<9} {:>9.0} requests/s (median)",
                rates[SAMPLES / 2]
            );
        }
        println!(
            "{CONNECTIONS}x{depth} io_uring / epoll {:.2} ({:.2} to {:.2})",
            ratios[SAMPLES / 2],
            ratios[0],
            ratios[SAMPLES - 1]
        );
    }
}

/// Measures requests echoed per second.
#[allow(
    clippy::disallowed_methods,
    reason = "a benchmark of its own, which nothing depends on"
)]
fn sample(serve: Serve, depth: usize) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("its number");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        ours.push(TcpStream::connect(addr).expect("it listens"));
        theirs.push(listener.accept().expect("somebody connected").0);
    }
    for stream in ours.iter().chain(&theirs) {
        stream.set_nodelay(true).expect("a socket");
        stream.set_nonblocking(true).expect("a socket");
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            serve(&theirs, &stop);
        });
        pin(0);
        load(&ours, depth, Instant::now() + SAMPLE / 4);
        let start = Instant::now();
        let done = load(&ours, depth, start + SAMPLE);
        let rate = done as f64 / start.elapsed().as_secs_f64();
        // Relaxed: a late thread sees the end of the connections.
        stop.store(true, Ordering::Relaxed);
        ours.iter()
            .for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Both)));
        rate
    })
}

fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    let _ = rustix::thread::sched_setaffinity(None, &set); // with one core, both share it
}

fn watch(streams: &[TcpStream]) -> rustix::fd::OwnedFd {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("descriptors");
    for (nth, stream) in streams.iter().enumerate() {
        let data = epoll::EventData::new_u64(nth as u64);
        epoll::add(&set, stream, data, epoll::EventFlags::IN).expect("a socket");
    }
    set
}

/// Runs a closed loop until `end`; returns the number of requests echoed. None is outstanding on return.
#[allow(
    clippy::disallowed_methods,
    reason = "a benchmark of its own, which nothing depends on"
)]
fn load(streams: &[TcpStream], depth: usize, end: Instant) -> u64 {
    let set = watch(streams);
    let batch = vec![7; depth * REQUEST_BYTES];
    let mut missing = vec![0; streams.len()];
    let (mut buffer, mut events) = (vec![0; BUFFER_BYTES], Vec::with_capacity(64));
    let (mut busy, mut done, mut over) = (0, 0, false);
    for (stream, missing) in streams.iter().zip(&mut missing) {
        assert_eq!(send(stream, &batch, SendFlags::NOSIGNAL), Ok(batch.len()));
        *missing = batch.len();
        busy += 1;
    }
    while busy > 0 {
        over |= Instant::now() >= end;
        events.clear();
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), None).expect("a set");
        for event in &events {
            let data = event.data;
            let nth = data.u64() as usize;
            let (count, _) = recv(&streams[nth], &mut buffer[..], RecvFlags::empty()).expect("an echo");
            missing[nth] -= count;
            if missing[nth] > 0 {
                continue;
            }
            done += depth as u64;
            if over {
                busy -= 1;
                continue;
            }
            assert_eq!(send(&streams[nth], &batch, SendFlags::NOSIGNAL), Ok(batch.len()));
            missing[nth] = batch.len();
        }
    }
    done
}

/// Per iteration: one wait, then one read and one write for each ready connection.
fn by_epoll(streams: &[TcpStream], stop: &AtomicBool) {
    let set = watch(streams);
    let (mut buffer, mut events) = (vec![0; BUFFER_BYTES], Vec::with_capacity(64));
    loop {
        events.clear();
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), None).expect("a set");
        for event in &events {
            let data = event.data;
            let stream = &streams[data.u64() as usize];
            match recv(stream, &mut buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return,
                Ok((count, _)) => drop(send(stream, &buffer[..count], SendFlags::NOSIGNAL)),
                Err(Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
        // Relaxed: a hint.
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Keeps a read in flight on every connection; one call submits the writes of all data read, and the next reads.
fn by_ring(streams: &[TcpStream], stop: &AtomicBool) {
    let mut ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(256)
        .expect("a ring");
    let mut buffers = vec![vec![0u8; BUFFER_BYTES]; streams.len()];
    let read = |nth: usize, buffer: &mut [u8]| {
        opcode::Recv::new(
            types::Fd(streams[nth].as_raw_fd()),
            buffer.as_mut_ptr(),
            buffer.len() as u32,
        )
        .build()
        .user_data(nth as u64)
    };
    for (nth, buffer) in buffers.iter_mut().enumerate() {
        let entry = read(nth, buffer);
        // SAFETY: the buffer outlives the ring, which is dropped first, and is touched when its read is done.
        unsafe { ring.submission().push(&entry) }.expect("space for all");
    }
    let mut finished = Vec::with_capacity(256);
    loop {
        if ring.submit_and_wait(1).is_err() || stop.load(Ordering::Relaxed) {
            return drop(ring);
        }
        finished.extend(
            ring.completion()
                .map(|entry: cqueue::Entry| (entry.user_data(), entry.result())),
        );
        for (nth, result) in finished.drain(..) {
            if result <= 0 {
                return drop(ring);
            }
            let nth = nth as usize;
            let fd = types::Fd(streams[nth].as_raw_fd());
            // Only the read signals completion; it starts when the write is done.
            let write = opcode::Send::new(fd, buffers[nth].as_ptr(), result.cast_unsigned()).build();
            let write = write.flags(squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS);
            let both = [write, read(nth, &mut buffers[nth])];
            // SAFETY: as above; the write has finished with the buffer before the read begins.
            unsafe { ring.submission().push_multiple(&both) }.expect("two for each connection");
        }
    }
}
