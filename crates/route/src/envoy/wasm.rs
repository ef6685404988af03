//! A WebAssembly module that a route runs.
//!
//! The module has the delegate behind all limits, because it may wait. The routes of the policies of a namespace share an instance for each thread,
//! and no instance serves two namespaces: a request at which a module fails takes its instance away.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::http::wasm::v3 as filter_v3;
use envoy_types::pb::envoy::extensions::wasm::v3 as wasm_v3;
use envoy_types::pb::google::protobuf as google;

use super::delegate;
use crate::model::WasmModule;

/// Builds the filter of a route.
pub fn of_route(module: &WasmModule) -> core_v3::TypedExtensionConfig {
    let WasmModule { name, namespace, file, root, configuration } = module;
    let code = core_v3::DataSource {
        specifier: Some(core_v3::data_source::Specifier::Filename(file.to_string())),
        ..Default::default()
    };
    let vm = wasm_v3::VmConfig {
        vm_id: format!("{namespace}/{name}"),
        runtime: "envoy.wasm.runtime.v8".to_owned(),
        code: Some(core_v3::AsyncDataSource { specifier: Some(core_v3::async_data_source::Specifier::Local(code)) }),
        ..Default::default()
    };
    let configuration = google::StringValue { value: configuration.to_string() };
    let plugin = wasm_v3::PluginConfig {
        name: name.to_string(),
        root_id: root.to_string(),
        configuration: Some(super::wire::any(&configuration)),
        // A module that fails is loaded again. To let requests pass would turn it off for good: a client could choose the request.
        failure_policy: wasm_v3::FailurePolicy::FailReload as i32,
        vm: Some(wasm_v3::plugin_config::Vm::VmConfig(vm)),
        ..Default::default()
    };
    delegate::part("envoy.filters.http.wasm", &filter_v3::Wasm { config: Some(plugin) })
}
