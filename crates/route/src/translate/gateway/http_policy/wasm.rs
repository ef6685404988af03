//! The WebAssembly module of an HTTPPolicy.

use std::sync::Arc;

use crate::model::WasmModule;
use crate::objects::gateway::WasmSpec;
use crate::settings::{Module, Wasm};
use crate::translate::fault::FieldFault;

/// Parses the module. Files and configurations come from the settings: Envoy limits neither the time nor the memory of a module, and a
/// configuration can make a harmless module use a lot of both.
pub fn parse(spec: &WasmSpec, namespace: &Arc<str>, settings: &Wasm) -> Result<Arc<WasmModule>, FieldFault> {
    let WasmSpec { module: name } = spec;
    let Some(Module { file, root_id, configuration }) = settings.modules.get(name) else {
        return Err(FieldFault::new(".module", format!("the setting wasm.modules has no module {name:?}")));
    };
    Ok(Arc::new(WasmModule {
        name: name.as_str().into(),
        namespace: namespace.clone(),
        file: file.as_str().into(),
        root: root_id.as_str().into(),
        configuration: configuration.as_str().into(),
    }))
}
