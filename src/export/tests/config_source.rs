//! No file references the stream for a resource that a file can provide.

use std::time::Duration;

use super::*;
use crate::export::config_source::by_file;
use crate::export::{EnvoyDirectory, FileFormat, Reload};

fn place(reload: Reload) -> EnvoyDirectory {
    EnvoyDirectory { directory: "/run/envoy".into(), format: FileFormat::Yaml, reload }
}

/// Returns the JSON of `resource` with references to files, and the remaining references.
fn with_files(resource: &Resource, reload: Reload) -> (String, Vec<String>) {
    let (message, unresolved) = by_file(resource, &place(reload));
    let message = message.unwrap_or_else(|| resource.message().to_vec());
    (protobuf::to_json(resource.kind().full_name(), &message).to_string(), unresolved)
}

#[track_caller]
fn assert_files(resource: &Resource, expected: &[&str]) {
    let (json, unresolved) = with_files(resource, Reload::Rename);
    assert_eq!(unresolved, [""; 0]);
    assert!(!json.contains("\"ads\""), "{json}");
    assert_eq!(json.matches("path_config_source").count(), expected.len(), "{json}");
    for file in expected {
        assert!(json.contains(&format!("\"/run/envoy/{file}.yaml\"")), "{file} is not in {json}");
    }
}

fn tls(context: &str) -> Value {
    let secret = |name: &str| json!({"name": name, "sds_config": {"self": {}}});
    json!({"name": "tls", "typed_config": {
        "@type": format!("type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.{context}"),
        "common_tls_context": {
            "tls_certificate_sds_secret_configs": [secret("a/pair")],
            "combined_validation_context": {"default_validation_context": {},
                "validation_context_sds_secret_config": secret("ca")},
        },
    }})
}

#[test]
fn clusters_have_their_endpoints_and_secrets_in_files() {
    assert_files(&cluster("a/b"), &["endpoints.a__b"]);
    let config = json!({"eds_config": ads(), "service_name": "other"});
    let fields = json!({"name": "a", "eds_cluster_config": config, "transport_socket": tls("UpstreamTlsContext")});
    assert_files(&resource(ResourceType::CLUSTER, fields), &["endpoints.other", "secrets.a__pair", "secrets.ca"]);
}

#[test]
fn listeners_have_their_routes_secrets_and_filters_in_files() {
    assert_files(&listener("web", "a/b"), &["routes.a__b"]);
    let manager =
        "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let filter = json!({"name": "lua", "config_discovery": {"config_source": ads(), "type_urls": ["x/y.Z"]}});
    let config = json!({"@type": manager, "rds": {"route_config_name": "web", "config_source": ads()}, "http_filters": [filter]});
    let chain =
        json!({"transport_socket": tls("DownstreamTlsContext"), "filters": [{"name": "http", "typed_config": config}]});
    let fields = json!({"name": "web", "filter_chains": [chain.clone()], "default_filter_chain": chain});
    let (json, unresolved) = with_files(&resource(ResourceType::LISTENER, fields), Reload::Rename);
    assert_eq!(unresolved, [""; 0]);
    for file in ["routes.web", "secrets.a__pair", "secrets.ca", "extensions.lua"] {
        assert_eq!(json.matches(&format!("/run/envoy/{file}.yaml")).count(), 2, "{file}: {json}");
    }
}

#[test]
fn resources_without_a_file_are_named() {
    let manager =
        "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let scoped = json!({"name": "s", "scope_key_builder": {"fragments": [{}]}, "rds_config_source": ads(),
        "scoped_rds": {"scoped_rds_config_source": ads()}});
    let config = json!({"@type": manager, "scoped_routes": scoped});
    let filters = json!([{"name": "http", "typed_config": config}]);
    let (json, unresolved) = with_files(
        &resource(ResourceType::LISTENER, json!({"name": "web", "filter_chains": [{"filters": filters}]})),
        Reload::Rename,
    );
    assert_eq!(unresolved, [""; 0], "scopes may have their routes inside");
    assert!(json.contains("/run/envoy/scoped-routes.yaml"), "{json}");
    let scope = |routes| by_file(&resource(ResourceType::SCOPED_ROUTES, routes), &place(Reload::Rename)).1;
    assert_eq!(scope(json!({"name": "a", "route_configuration_name": "b"})), ["route_configuration_name"]);
    assert_eq!(scope(json!({"name": "a", "route_configuration": {"name": "b"}})), [""; 0]);
    let (_, unresolved) = with_files(
        &resource(ResourceType::ROUTES, json!({"name": "a", "vhds": {"config_source": ads()}})),
        Reload::Rename,
    );
    assert_eq!(unresolved, ["vhds.config_source"]);
}

#[test]
fn other_sources_stay_as_they_are() {
    let rest =
        json!({"api_config_source": {"api_type": "REST", "transport_api_version": "V3", "cluster_names": ["x"]}});
    let fields = json!({"name": "a", "eds_cluster_config": {"eds_config": rest}});
    assert_eq!(by_file(&resource(ResourceType::CLUSTER, fields), &place(Reload::Rename)), (None, vec![]));
    assert_eq!(by_file(&endpoints("a", 1), &place(Reload::Rename)), (None, vec![]));
}

#[test]
fn f5_f6_envoy_learns_of_new_files_as_it_is_told() {
    let path = r#""path":"/run/envoy/endpoints.a.yaml""#;
    let source = |reload| with_files(&cluster("a"), reload).0;
    assert!(source(Reload::Rename).contains(&format!("{{{path}}}")));
    let mounted = r#"{"path":"/run/envoy/..data/endpoints.a.yaml","watched_directory":{"path":"/run/envoy"}}"#;
    assert!(source(Reload::Directory).contains(mounted), "{}", source(Reload::Directory));
    let polled = source(Reload::Poll(Duration::from_millis(1500)));
    assert!(polled.contains(&format!(r#"{{{path},"poll_interval":"1.5s"}}"#)), "{polled}");
}
