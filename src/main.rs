//! The `lockgate` program.

use std::process::ExitCode;

/// Gives memory back after a burst, which the C library's does not; what it does is said in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    lockgate::cmd::main()
}
