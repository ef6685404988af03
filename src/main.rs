//! The `lockgate` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockgate::cmd::main()
}
