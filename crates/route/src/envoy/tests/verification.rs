//! Tests that a real Envoy accepts each form of the verification of endpoints and of the validation of clients.

use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use prost::Message as _;
use tls_v3::common_tls_context::ValidationContextType;

use super::*;
use crate::envoy::build;
use crate::model::*;
use crate::testing::envoy::{standalone, validate};
use crate::testing::model::cluster_id;

/// Returns a model whose cluster `shop/tls/443` is verified by the authorities of a ConfigMap, or by the authorities of
/// the system.
fn verified(is_system: bool, names: &[PeerName]) -> Model {
    let mut model = model();
    let scrapers = model.stats_tls.as_ref().unwrap().clients.clone().unwrap();
    let bundle = SecretId::of_config_maps([ObjectKey::new("shop", "ca")].into()).unwrap();
    model.secrets.insert(bundle.clone(), model.secrets[&scrapers].clone());
    let authorities = if is_system { Authorities::System } else { Authorities::Secret(bundle) };
    let verification = Verification { server_name: "cart.test".into(), authorities, names: names.to_vec() };
    let cluster = Arc::make_mut(model.clusters.get_mut(&cluster_id("shop/tls/443")).unwrap());
    cluster.policy.verification = Some(Arc::new(verification));
    model
}

fn context(resources: &[Resource]) -> tls_v3::UpstreamTlsContext {
    let cluster = resources.iter().find(|one| &**one.name() == "shop/tls/443").unwrap();
    let cluster = cluster_v3::Cluster::decode(cluster.message()).unwrap();
    let Some(core_v3::transport_socket::ConfigType::TypedConfig(any)) = cluster.transport_socket.unwrap().config_type
    else {
        panic!("no typed configuration")
    };
    tls_v3::UpstreamTlsContext::decode(&*any.value).unwrap()
}

#[test]
fn endpoints_are_verified_by_names_and_by_authorities_in_a_separate_secret() {
    let settings = Settings::default();
    let names = [
        PeerName::Dns("cart.test".into()),
        PeerName::DnsBelow("test".into()),
        PeerName::Uri("spiffe://test/cart".into()),
    ];
    let resources = build(&verified(false, &names), &settings);
    let context = context(&resources);
    assert_eq!(context.sni, "cart.test");
    let Some(ValidationContextType::CombinedValidationContext(combined)) =
        context.common_tls_context.unwrap().validation_context_type
    else {
        panic!("no combined context")
    };
    assert_eq!(combined.validation_context_sds_secret_config.unwrap().name, "shop/ca/configmap");
    assert_eq!(combined.default_validation_context.unwrap().match_typed_subject_alt_names.len(), 3);
    let cluster = resources.iter().find(|one| &**one.name() == "shop/tls/443").unwrap();
    let secrets: Vec<&str> = cluster.references().secrets.iter().map(|name| &**name).collect();
    assert_eq!(secrets, ["shop/ca/configmap", "shop/cert"], "with the client certificate");
    validate(&standalone(&resources, &settings)).unwrap();
}

#[test]
fn endpoints_are_verified_by_the_authorities_of_the_system() {
    let settings = Settings::default();
    let resources = build(&verified(true, &[PeerName::Dns("cart.test".into())]), &settings);
    let Some(ValidationContextType::ValidationContext(of_system)) =
        context(&resources).common_tls_context.unwrap().validation_context_type
    else {
        panic!("no context")
    };
    assert_eq!(of_system.match_typed_subject_alt_names.len(), 1);
    assert!(of_system.trusted_ca.is_some());
    validate(&standalone(&resources, &settings)).unwrap();
}

#[test]
fn clients_are_validated_by_all_filter_chains_of_a_listener() {
    let settings = Settings::default();
    for required in [true, false] {
        let mut model = verified(false, &[PeerName::Dns("cart.test".into())]);
        let authorities = SecretId::of_config_maps([ObjectKey::new("shop", "ca")].into()).unwrap();
        for tls in model.tls_mut(ListenerId::HTTPS).unwrap().hosts.values_mut() {
            tls.clients = Some(ClientValidation::new(authorities.clone(), required));
        }
        let resources = build(&model, &settings);
        let listener = resources.iter().find(|one| &**one.name() == "https").unwrap();
        let text = lockgate_xds::protobuf::to_json(listener.kind().full_name(), &listener.message()).to_string();
        let count = |part: &str| text.matches(part).count();
        let chains = count("\"tls_certificate_sds_secret_configs\"");
        assert!(chains > 2, "{text}");
        assert_eq!(count(&format!("\"require_client_certificate\":{required}")), chains, "{text}");
        assert_eq!(count("\"shop/ca/configmap\""), chains, "{text}");
        assert_eq!(count("ACCEPT_UNTRUSTED"), if required { 0 } else { chains }, "{text}");
        validate(&standalone(&resources, &settings)).unwrap();
    }
}

#[test]
fn each_server_name_can_validate_clients_by_other_authorities() {
    let settings = Settings::default();
    let mut model = verified(false, &[PeerName::Dns("cart.test".into())]);
    let tls = model.tls_mut(ListenerId::HTTPS).unwrap();
    let (first, host) = tls.hosts.iter().find(|(host, _)| matches!(host, Host::Exact(_))).unwrap();
    let (first, host) = (first.clone(), host.clone());
    tls.hosts.insert(Host::Exact("other.test".into()), host);
    let authorities = SecretId::of_config_maps([ObjectKey::new("shop", "ca")].into()).unwrap();
    tls.hosts.get_mut(&first).unwrap().clients = Some(ClientValidation::new(authorities, true));
    let resources = build(&model, &settings);
    let listener = resources.iter().find(|one| &**one.name() == "https").unwrap();
    let text = lockgate_xds::protobuf::to_json(listener.kind().full_name(), &listener.message()).to_string();
    assert_eq!(text.matches("\"require_client_certificate\":true").count(), 1, "{text}");
    assert_eq!(text.matches("/client-ca=shop/ca/configmap\"").count(), 2, "the chain, and the matcher: {text}");
    validate(&standalone(&resources, &settings)).unwrap();
}
