//! Settings of WebAssembly modules.

use std::collections::BTreeMap;

/// WebAssembly modules that Envoy runs for the routes of policies that name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wasm {
    /// The modules by name.
    pub modules: BTreeMap<String, Module>,
}

/// A WebAssembly module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    /// The file, in the file system of Envoy.
    pub file: String,
    /// The name of the root context. Empty: the only one.
    pub root_id: String,
    /// The text that the module receives when it is loaded.
    pub configuration: String,
}
