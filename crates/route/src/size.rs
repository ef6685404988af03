//! The text format of amounts of memory: bytes with a unit, as people and Kubernetes write them.

/// The units and their bytes, the preferred units first.
pub const UNITS: [(&str, u64); 13] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1_000),
    ("B", 1),
];

/// Parses an amount of memory: `32KiB`, `1Mi`, `512`. Returns `None` if the syntax is wrong, or the amount exceeds 64 bits.
pub fn parse(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let bytes = match unit {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(bytes)
}
