//! The `lockgate` program.

use std::process::ExitCode;

/// Returns memory after a burst, unlike the allocator of the C library. `.cargo/config.toml` has its options.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    lockgate::cmd::main()
}
