//! The memory of this machine or container.

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
    fn the_kernel_counts_in_kib() {
        assert_eq!(total_bytes("MemFree: 1 kB\nMemTotal:       24595520 kB\n"), Some(25_185_812_480));
        assert_eq!(total_bytes(""), None);
    }
}
