//! The suite of `tests/c`, compiled by the system's compiler with AddressSanitizer, against each system over shared memory,
//! and against a service that etcd names; and the header, for C++.

mod member;

use drover_control::ControlListener;
use drover_kv::{Capacity, Service, Sizes, SystemJob};
use drover_systems::System;
use drover_verbs_shm::{Shm, ShmDevice};
use member::Member;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Sizes of the servers.
const SIZES: Sizes = Sizes {
    shard_count: 2,
    capacity: Capacity::Memory { bytes: 8 << 20 },
    value_bytes_max: 64 << 10,
    window: 16,
};

/// A small server of one system at its own Unix socket.
struct Start<'a>(&'a str);

impl SystemJob for Start<'_> {
    type Answer = Box<dyn Service>;

    fn run<S: drover_kv::System>(self) -> Box<dyn Service> {
        let plan = S::plan(&SIZES).expect("enough memory");
        let listener = ControlListener::bind(&self.0.parse().expect("an address")).expect("a free address");
        S::start::<Shm>(&ShmDevice::default(), &plan, vec![listener], Box::new(|_| {})).expect("a service")
    }
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A folder with the library, under the names that an installation gives it.
fn installed(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let test = std::env::current_exe().expect("a path");
    let library = test.with_file_name("libdrover_c.so");
    assert!(library.exists(), "{} is built with the test", library.display());
    for name in ["libdrover.so", "libdrover.so.0"] {
        symlink(&library, folder.join(name)).expect("a new folder");
    }
    folder
}

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("a program that is installed");
    let said = [&output.stdout[..], &output.stderr].concat();
    println!("{}", String::from_utf8_lossy(&said));
    assert!(output.status.success(), "{command:?}: {}", output.status);
    output
}

#[test]
fn the_suite_holds_without_a_leak() {
    let folder = installed("c-suite");
    let program = folder.join("suite");
    run(Command::new("cc")
        .args([
            "-std=c11",
            "-D_POSIX_C_SOURCE=200809L",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-g",
            "-pthread",
        ])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o"])
        .arg(&program)
        .arg(source("tests/c/suite.c"))
        .arg("-I")
        .arg(source("include"))
        .arg("-L")
        .arg(&folder)
        .args(["-ldrover", &format!("-Wl,-rpath,{}", folder.display())]));
    for system in System::ALL {
        let addr = format!("unix:{}", folder.join(format!("{system}.sock")).display());
        let service = system.run(Start(&addr));
        println!("{system}");
        run_suite(&program, &addr);
        service.stop();
    }
    let addr = format!("unix:{}", folder.join("member.sock").display());
    if let Some(member) = Member::start(&addr) {
        println!("a service that etcd names");
        run_suite(&program, &member.url());
    }
}

fn run_suite(program: &Path, addr: &str) {
    let mut suite = Command::new(program);
    if cfg!(debug_assertions) {
        suite.env("DROVER_CHECKS_CLOSED", "1");
    }
    run(suite.arg(addr));
}

#[test]
fn the_header_is_for_cpp_too() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header.cpp");
    std::fs::write(
        &file,
        "#include \"drover.h\"\nint main() { return drover_close(nullptr); }\n",
    )
    .expect("a file");
    run(Command::new("c++")
        .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .arg(source("include"))
        .arg(&file));
}
