//! A WebAssembly module for Envoy.

/// Returns the module of `module.wat`, which adds the header [`MARK`] with its configuration to requests and responses.
///
/// # Panics
/// If the text is not valid.
pub fn module() -> Vec<u8> {
    wat::parse_str(include_str!("module.wat")).expect("a module")
}

/// The header that the module adds.
pub const MARK: &str = "x-module";
