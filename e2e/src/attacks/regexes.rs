//! Regular expressions that keep a worker of Envoy busy, and paths that they must match completely.

/// Fifty regular expressions, 3 KB. Each has an automaton of millions of states. With a path of 60 KB, Envoy needs 0.4
/// s for each of them.
pub fn rejected() -> Vec<String> {
    (0..50).map(|i| format!("/(.*a.{{300}}|.*b.{{299}}|(a|b)*a(a|b){{60}}){i}.*")).collect()
}

/// The most expensive regular expressions within the limits: each scans the whole path, and none matches.
pub fn accepted() -> Vec<String> {
    let heavy = (0..4).map(|i| format!("/.*[0-9]{{3}}.{{7}}x{i}"));
    let medium = (4..9).map(|i| format!("/.*a.{{3}}x{i}"));
    let light = (9..32).map(|i| format!("/.*[a-z]{{3}}[^a-z]{{2}}x{i}"));
    heavy.chain(medium).chain(light).collect()
}

/// Returns a path of nearly 60 KiB, the maximum of Envoy, with `letters` in an order that does not repeat.
pub fn long_path(letters: &[u8], seed: u64) -> String {
    let mut random = seed;
    let letter = |_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        letters[(random >> 33) as usize % letters.len()] as char
    };
    format!("/{}", (0..60_000).map(letter).collect::<String>())
}
