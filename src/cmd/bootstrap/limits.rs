//! The memory and the open files of this machine or container.

use std::fs;

/// Returns 80 % of the memory limit of this container, or of the memory of the machine. `None`: neither is known.
///
/// The rest is for memory outside of the heap: stacks, the binary, and socket buffers.
pub fn heap() -> Option<u64> {
    let limit = [
        "/sys/fs/cgroup/memory.max",                   // cgroup v2
        "/sys/fs/cgroup/memory/memory.limit_in_bytes", // v1, which writes a huge number for "none"
    ]
    .iter()
    .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok())
    .min();
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_bytes(&text));
    let bytes = limit.into_iter().chain(machine).min()?;
    Some(bytes / 5 * 4)
}

/// Returns the hard limit of open files of this process, to which Envoy raises its own. `None`: no limit, or unknown.
pub fn open_files() -> Option<u64> {
    hard_limit(&fs::read_to_string("/proc/self/limits").ok()?)
}

/// Parses the hard limit of `Max open files` of `/proc/self/limits`.
fn hard_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Files, listeners of each worker, and connections to backends without a client.
const RESERVED: u64 = 2048;

/// Returns the number of client connections for a limit of open files. Each can need a connection to a backend, and Envoy ends when
/// it cannot open a socket.
pub fn connections(open_files: u64) -> u64 {
    (open_files.saturating_sub(RESERVED) / 2).max(1)
}

/// Returns the number of open files for a limit of client connections.
pub fn files(connections: u64) -> u64 {
    2 * connections + RESERVED
}

/// Parses `MemTotal` of `/proc/meminfo`.
fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_connection_has_two_files() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 20000                files\n";
        assert_eq!(hard_limit(limits), Some(20_000));
        assert_eq!(hard_limit("Max open files  unlimited  unlimited  files\n"), None);
        assert_eq!(connections(files(50_000)), 50_000);
        assert_eq!((connections(20_000), connections(1_048_576), connections(1024)), (8976, 523_264, 1));
    }

    #[test]
    fn the_kernel_counts_in_kib() {
        assert_eq!(total_bytes("MemFree: 1 kB\nMemTotal:       24595520 kB\n"), Some(25_185_812_480));
        assert_eq!(total_bytes(""), None);
    }
}
