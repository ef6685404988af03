#![allow(clippy::unwrap_used)]

use clap::Parser;
use serde_json::Value;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: BootstrapArgs,
}

fn options(arguments: &[&str]) -> BootstrapArgs {
    let fixed = ["lockgate", "--node-id", "envoy-0"];
    Line::try_parse_from(fixed.iter().chain(arguments)).unwrap().options
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&bootstrap(&options(arguments)), BootstrapFormat::Json).unwrap()).unwrap()
}

#[test]
fn delta_is_the_default_and_sotw_an_option() {
    assert_eq!(json(&[])["dynamic_resources"]["ads_config"]["api_type"], "DELTA_GRPC");
    assert_eq!(json(&["--mode", "sotw"])["dynamic_resources"]["ads_config"]["api_type"], "GRPC");
}

#[test]
fn files_need_no_controller() {
    let line = ["--mode", "files", "--dir", "/run/envoy", "--file-format", "yaml", "--reload", "2s"];
    let mut options = options(&line);
    resolve(&mut options).unwrap();
    let json: Value = serde_json::from_str(&text(&bootstrap(&options), BootstrapFormat::Json).unwrap()).unwrap();
    let resources = &json["dynamic_resources"];
    assert_eq!(resources["cds_config"]["path_config_source"]["path"], "/run/envoy/clusters.yaml");
    assert_eq!(resources["cds_config"]["path_config_source"]["poll_interval"], "2s");
    assert_eq!(resources["lds_config"]["path_config_source"]["path"], "/run/envoy/listeners.yaml");
    assert_eq!(json["layered_runtime"]["layers"].as_array().map(Vec::len), Some(2));
    assert!(resources.get("ads_config").is_none() && !json.to_string().contains("lockgate-xds"), "{json}");
}

#[test]
fn runtime_flags_of_the_settings_override_defaults_but_not_manual_flags() {
    let json = json(&[]);
    let layers = json["layered_runtime"]["layers"].as_array().unwrap();
    assert_eq!(
        layers.iter().map(|layer| layer["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["base", "lockgate", "admin"]
    );
    // If a server does not have it, Envoy waits at most this long.
    assert_eq!(layers[1]["rtds_layer"]["rtds_config"]["initial_fetch_timeout"], "1s");
}

#[test]
fn both_formats_have_the_same_content() {
    let message = bootstrap(&options(&["--max-heap", "1000000"]));
    let yaml = text(&message, BootstrapFormat::Yaml).unwrap();
    assert!(yaml.contains("error_level: 1048576\n"), "{yaml}");
    let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(yaml, serde_json::from_str::<Value>(&text(&message, BootstrapFormat::Json).unwrap()).unwrap());
}

#[test]
fn v4_every_source_of_resources_says_version_3() {
    use prost::{Message, Name};
    for arguments in [&["--mode", "delta"][..], &["--mode", "sotw"], &["--xds-tls", "/certs", "--mode", "sotw"]] {
        let message = bootstrap(&options(arguments));
        let descriptor = lockgate_xds::protobuf::pool().get_message_by_name(&full_name(&message)).unwrap();
        let dynamic = prost_reflect::DynamicMessage::decode(descriptor, &*message.encode_to_vec()).unwrap();
        let sources = lockgate_route::testing::envoy::config_sources(&dynamic);
        assert!(sources.len() >= 3 && sources.iter().all(|right| *right), "{sources:?}");
    }

    fn full_name<M: Name>(_: &M) -> String {
        M::full_name()
    }
}

#[test]
fn zero_means_no_limit() {
    let limits = json(&["--max-heap", "0", "--max-connections", "10"]);
    assert_eq!(limits["overload_manager"]["resource_monitors"].as_array().unwrap().len(), 1);
    assert!(json(&["--max-heap", "0", "--max-connections", "0"]).get("overload_manager").is_none());
}

#[test]
fn the_admin_cluster_is_where_the_admin_interface_listens() {
    let json = json(&["--envoy-admin-address", "0.0.0.0:9000"]);
    assert_eq!(json["admin"]["address"]["socket_address"]["address"], "0.0.0.0");
    let text = json["static_resources"]["clusters"][1]["load_assignment"].to_string();
    assert!(text.contains("127.0.0.1") && text.contains("9000"), "{text}");
}

#[test]
fn with_an_output_file_certificates_are_watched() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("envoy.yaml");
    let mut options = options(&["--xds-tls", "/certs", "--xds-address", "lockgate.ingress:18000"]);
    assert!(text(&bootstrap(&options), BootstrapFormat::Json).unwrap().contains("\"filename\": \"/certs/tls.key\""));
    options.output_file = Some(file.clone());
    run(options).unwrap();
    let written = fs::read_to_string(file).unwrap();
    assert!(written.contains("xds-certificate.yaml") && !written.contains("/certs/tls.key"), "{written}");
    let watched = fs::read_to_string(directory.path().join("xds-certificate.yaml")).unwrap();
    assert!(watched.contains("/certs/tls.key") && watched.contains("watched_directory"), "{watched}");
    assert!(fs::read_to_string(directory.path().join("xds-trust.yaml")).unwrap().contains("/certs/ca.crt"));
}

#[test]
fn a_missing_node_id_becomes_the_host_name() {
    assert!(!hostname().unwrap().is_empty());
}

fn grpc_json(arguments: &[&str]) -> Value {
    grpc::bootstrap(&options(&[&["--grpc"], arguments].concat()))
}

#[test]
fn a_grpc_bootstrap_names_the_server_and_the_node() {
    let expected = serde_json::json!({
        "xds_servers": [{
            "server_uri": "[::1]:18000",
            "channel_creds": [{ "type": "insecure" }],
            "server_features": ["xds_v3"],
        }],
        "node": {
            "id": "envoy-0",
            "cluster": "lockgate",
            "locality": { "region": "eu", "zone": "a", "sub_zone": "" },
        },
    });
    assert_eq!(grpc_json(&["--xds-address", "[::1]:18000", "--node-locality", "eu/a"]), expected);
    assert!(grpc_json(&[])["node"].get("locality").is_none());
    let of_zone = json(&["--node-locality", "/a"]);
    assert_eq!(of_zone["node"]["locality"]["zone"], "a");
    assert_eq!(of_zone["cluster_manager"]["local_cluster_name"], "local-zone");
    let mut unknown = options(&["--node-locality", "/"]);
    resolve(&mut unknown).unwrap();
    assert_eq!(bootstrap(&unknown).node.unwrap().locality, None);
    assert!(bootstrap(&unknown).cluster_manager.is_none());
}

#[test]
fn a_grpc_client_presents_its_certificate() {
    let json = grpc_json(&["--xds-tls", "/certs", "--xds-address", "lockgate.ingress:18000"]);
    let credentials = &json["xds_servers"][0]["channel_creds"][0];
    assert_eq!(credentials["type"], "tls");
    assert_eq!(credentials["config"]["certificate_file"], "/certs/tls.crt");
    assert_eq!(credentials["config"]["private_key_file"], "/certs/tls.key");
    assert_eq!(credentials["config"]["ca_certificate_file"], "/certs/ca.crt");
}

#[test]
fn flags_of_envoy_are_rejected_for_grpc() {
    for flags in
        [["--mode", "sotw"], ["--envoy-admin-address", "127.0.0.1:1"], ["--max-heap", "1"], ["--format", "json"]]
    {
        assert!(Line::try_parse_from(["lockgate", "--grpc"].iter().chain(&flags)).is_err(), "{flags:?}");
    }
}

#[test]
fn a_grpc_bootstrap_has_no_additional_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("grpc.json");
    let mut options = options(&["--grpc", "--xds-tls", "/certs"]);
    options.output_file = Some(file.clone());
    run(options).unwrap();
    let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written["node"]["id"], "envoy-0");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn counters_of_clusters_are_created_by_the_first_request() {
    assert_eq!(json(&[])["deferred_stat_options"]["enable_deferred_creation_stats"], true);
}

#[test]
fn the_settings_file_keeps_all_statistics_of_services() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lockgate.yaml");
    for (text, is_reduced) in [("", true), ("statistics: {allOfServices: true}\n", false)] {
        std::fs::write(&file, text).unwrap();
        let mut options = options(&["--config", file.to_str().unwrap()]);
        resolve(&mut options).unwrap();
        assert_eq!(bootstrap(&options).stats_config.is_some(), is_reduced);
    }
    let expression =
        &json(&[])["stats_config"]["stats_matcher"]["exclusion_list"]["patterns"][0]["safe_regex"]["regex"];
    let expression = regex::Regex::new(&format!("^(?:{})$", expression.as_str().unwrap())).unwrap();
    let cluster = |name: &str| expression.is_match(&format!("cluster.default_shop_http.{name}"));
    for left_out in [
        "circuit_breakers.high.cx_open",
        "lb_local_cluster_not_ok",
        "lb_subsets_active",
        "update_success",
        "update_time",
    ] {
        assert!(cluster(left_out), "{left_out}");
    }
    for kept in
        ["membership_healthy", "lb_healthy_panic", "update_rejected", "upstream_rq_total", "upstream_cx_overflow"]
    {
        assert!(!cluster(kept), "{kept}");
    }
    assert!(!expression.is_match("cluster_manager.cds.update_success"));
}

#[test]
fn an_envoy_on_this_machine_needs_the_files_of_modules() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (config, output, module) = (path("lockgate.yaml"), path("envoy.yaml"), path("waf.wasm"));
    std::fs::write(&config, format!("wasm: {{modules: {{waf: {{file: {module}}}}}}}\n")).unwrap();
    let resolved = |arguments: &[&str]| resolve(&mut options(arguments));
    resolved(&["--config", &config]).unwrap();
    let error = resolved(&["--config", &config, "--output-file", &output]).unwrap_err().to_string();
    assert_eq!(error, format!("wasm.modules.waf: {module}: No such file or directory (os error 2)"));
    std::fs::write(&module, b"\0asm\x01\0\0\0").unwrap();
    resolved(&["--config", &config, "--output-file", &output]).unwrap();
}

#[test]
fn tls_can_be_off_as_at_the_controller() {
    let resolved = |arguments: &[&str]| {
        let mut options = options(arguments);
        resolve(&mut options).unwrap();
        bootstrap(&options)
    };
    assert_eq!(resolved(&["--xds-tls", "off"]), resolved(&[]));
    assert_ne!(resolved(&["--xds-tls", "./off"]), resolved(&[]));
    let error = Line::try_parse_from(["lockgate", "--xds-tls", "auto"]).err().unwrap().to_string();
    assert!(error.contains("directory with the certificate of Envoy"), "{error}");
}

#[test]
fn the_heap_has_a_unit_and_former_names_are_accepted() {
    assert_eq!(options(&["--max-heap", "512MiB"]).max_heap, Some(512 << 20));
    assert!(Line::try_parse_from(["lockgate", "--max-heap", "much"]).is_err());
    let of = |arguments: &[&str]| {
        let mut options = options(arguments);
        options.apply_output();
        format!("{options:?}")
    };
    let new = of(&["--envoy-admin-address", "unix:/a", "--envoy-admin-socket-mode", "0660", "--output-file", "b"]);
    assert_eq!(of(&["--admin-address", "unix:/a", "--admin-socket-mode", "0660", "--output", "b"]), new);
    assert_eq!(of(&["--output", "json"]), of(&["--format", "json"]));
    assert!(Line::try_parse_from(["lockgate", "--output", "xml"]).is_err());
}

#[test]
fn the_settings_file_provides_limits_without_an_option() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lockgate.yaml");
    std::fs::write(&file, "overload: {maxConnections: 7, maxHeap: 1GiB}\n").unwrap();
    let file = file.to_str().unwrap();
    let limits = |arguments: &[&str]| {
        let mut options = options(arguments);
        resolve(&mut options).unwrap();
        (options.max_connections, options.max_heap)
    };
    assert_eq!(limits(&["--config", file]), (Some(7), Some(1 << 30)));
    assert_eq!(limits(&["--config", file, "--max-connections", "8", "--max-heap", "9"]), (Some(8), Some(9)));
    std::fs::write(file, "overload: {maxHeap: much}\n").unwrap();
    let mut wrong = options(&["--config", file]);
    assert!(format!("{:#}", resolve(&mut wrong).unwrap_err()).contains("lockgate.yaml:1:21"));
}
