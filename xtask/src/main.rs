//! Project automation, in Rust. For now the checks in `tests/` are all of it.

fn main() {}
