//! drover.
fn main() {}
