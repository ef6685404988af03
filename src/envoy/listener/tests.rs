#![allow(clippy::unwrap_used, clippy::panic)]

use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use prost::Message;

use super::*;
use crate::model::{SecretName, TlsVersion, VirtualHost};

fn tls_host(minimum: TlsVersion) -> TlsHost {
    TlsHost {
        secret: SecretName("shop/cert".into()),
        minimum,
        maximum: TlsVersion::V1_3,
        virtual_host: VirtualHost::default(),
        origins: vec![],
    }
}

fn model(hosts: &[Host]) -> Model {
    let https = hosts.iter().map(|host| (host.clone(), tls_host(TlsVersion::V1_2))).collect();
    Model { https, ..Model::default() }
}

fn context(chain: &listener_v3::FilterChain) -> tls_v3::CommonTlsContext {
    let Some(core_v3::transport_socket::ConfigType::TypedConfig(any)) =
        chain.transport_socket.as_ref().unwrap().config_type.as_ref()
    else {
        panic!("no typed configuration")
    };
    tls_v3::DownstreamTlsContext::decode(&*any.value).unwrap().common_tls_context.unwrap()
}

fn socket(listener: &listener_v3::Listener) -> core_v3::SocketAddress {
    match listener.address.clone().unwrap().address.unwrap() {
        core_v3::address::Address::SocketAddress(socket) => socket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_socket_takes_both_families_unless_told_otherwise() {
    let both = socket(&http(&Settings::default()));
    assert_eq!((both.address.as_str(), both.ipv4_compat), ("::", true));
    let mut settings = Settings::default();
    settings.listeners.ipv6 = false;
    let ipv4 = socket(&http(&settings));
    assert_eq!((ipv4.address.as_str(), ipv4.ipv4_compat), ("0.0.0.0", false));
}

#[test]
fn there_is_a_tls_listener_only_with_a_tls_host() {
    let names = |hosts: &[Host]| {
        let resources = listeners(&model(hosts), &Settings::default());
        resources.iter().map(|resource| resource.name().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["http", "stats"]);
    assert_eq!(names(&[Host::Any]), ["http", "https", "stats"]);
}

#[test]
fn each_server_name_has_its_chain_and_the_rest_the_default_one() {
    let hosts = [Host::Exact("shop.example.com".into()), Host::Wildcard("example.com".into()), Host::Any];
    let listener = https(&model(&hosts), &Settings::default());
    let names: Vec<_> =
        listener.filter_chains.iter().map(|chain| chain.filter_chain_match.clone().unwrap().server_names).collect();
    assert_eq!(names, [["shop.example.com"], ["*.example.com"]]);
    assert_eq!(listener.default_filter_chain.unwrap().name, "https/*");
    assert!(https(&model(&hosts[..1]), &Settings::default()).default_filter_chain.is_none());
}

#[test]
fn a_chain_gets_its_key_pair_by_sds_and_speaks_http2() {
    let listener = https(&model(&[Host::Any]), &Settings::default());
    let context = context(&listener.default_filter_chain.unwrap());
    assert_eq!(context.tls_certificate_sds_secret_configs[0].name, "shop/cert");
    assert_eq!(context.alpn_protocols, ["h2", "http/1.1"]);
    assert_eq!(context.tls_params.unwrap().cipher_suites.len(), 4);
}

#[test]
fn ciphers_of_tls_1_2_are_not_named_where_it_is_not_offered() {
    let chain = tls_chain(&Host::Any, &tls_host(TlsVersion::V1_3), &Settings::default());
    assert!(context(&chain).tls_params.unwrap().cipher_suites.is_empty());
}

#[test]
fn probes_are_answered_under_overload() {
    let listener = stats::listener(&Settings::default());
    assert!(listener.ignore_global_conn_limit && listener.bypass_overload_manager);
}
