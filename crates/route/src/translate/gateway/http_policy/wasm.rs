//! The WebAssembly module of an HTTPPolicy.

use std::sync::Arc;

use crate::model::WasmModule;
use crate::objects::gateway::WasmSpec;
use crate::settings::Wasm;

/// The field below the feature, and a message.
type Fault = (String, String);

/// The maximum number of bytes of a configuration. Source: CustomResourceDefinition. Manifests are not validated against it.
const CONFIGURATION: usize = 16 * 1024;

/// Parses the module. Only the settings name files: nothing limits the time or the memory of a module.
pub fn parse(spec: &WasmSpec, namespace: &Arc<str>, settings: &Wasm) -> Result<Arc<WasmModule>, Fault> {
    let WasmSpec { module, root_id, configuration } = spec;
    let Some(file) = settings.modules.get(module) else {
        return Err((".module".to_owned(), format!("the setting wasm.modules has no module {module:?}")));
    };
    let (root, configuration) = (root_id.as_deref().unwrap_or_default(), configuration.as_deref().unwrap_or_default());
    if configuration.len() > CONFIGURATION {
        return Err((".configuration".to_owned(), format!("more than {CONFIGURATION} bytes")));
    }
    Ok(Arc::new(WasmModule {
        name: module.as_str().into(),
        namespace: namespace.clone(),
        file: file.as_str().into(),
        root: root.into(),
        configuration: configuration.into(),
    }))
}
