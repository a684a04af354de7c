//! Gives the library the name under which programs find it.

fn main() {
    // Programs that were linked with this version run with those that have the same number here.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdrover.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
