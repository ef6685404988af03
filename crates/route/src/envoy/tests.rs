//! Validation by a real Envoy of all resources that the builders can produce.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routes;
mod settings;
mod tls;
mod verification;

use lockgate_xds::snapshot::ResourceType;

use super::*;
use crate::settings::{AccessLog, AccessLogFormat, Settings};
use crate::testing::envoy::{standalone, validate};
use crate::testing::model::{empty, model};

#[test]
fn a_real_envoy_accepts_every_form_of_every_resource_without_a_warning() {
    for format in [AccessLogFormat::Text, AccessLogFormat::Json] {
        let settings = Settings { access_log: AccessLog { format, ..Default::default() }, ..Settings::default() };
        let resources = build(&model(), &settings);
        validate(&standalone(&resources, &settings)).unwrap();
    }
}

/// An Envoy with a bootstrap of its own, or with exported files, has no runtime flags. Without a listener, it serves nothing.
#[test]
fn an_envoy_without_runtime_flags_accepts_the_listeners() {
    let settings = Settings::default();
    let mut resources = build(&model(), &settings);
    resources
        .retain(|one| [ResourceType::LISTENER, ResourceType::EXTENSION, ResourceType::SECRET].contains(&one.kind()));
    let mut bootstrap = standalone(&resources, &settings);
    bootstrap.layered_runtime = None;
    validate(&bootstrap).unwrap();
}

#[test]
fn a_real_envoy_rejects_invalid_resources() {
    let settings = Settings::default();
    let mut bootstrap = standalone(&build(&empty(), &settings), &settings);
    bootstrap.static_resources.as_mut().unwrap().clusters[0].name.clear();
    assert!(validate(&bootstrap).is_err());
}

#[test]
fn an_empty_model_has_two_listeners_and_answers_404() {
    let resources = build(&empty(), &Settings::default());
    let names: Vec<_> = resources.iter().map(|resource| format!("{:?} {}", resource.kind(), resource.name())).collect();
    assert_eq!(names, ["ScopedRouteConfiguration http/*", "Listener http", "Listener stats", "Runtime lockgate"]);
    let mut without_stats = Settings::default();
    without_stats.listeners.stats.port = 0;
    assert_eq!(build(&empty(), &without_stats).len(), 3);
}

#[test]
fn resources_name_their_references_and_origins() {
    let resources = build(&model(), &Settings::default());
    let find = |kind, name: &str| resources.iter().find(|one| one.kind() == kind && &**one.name() == name).unwrap();
    let listener = find(ResourceType::LISTENER, "https");
    assert_eq!(listener.references().secrets.len(), 1);
    let names: Vec<_> = listener.references().routes.iter().map(|name| name.to_string()).collect();
    assert_eq!(names, ["https/*", "https/*.example.com"]);
    assert!(find(ResourceType::SCOPED_ROUTES, "https/shop.example.com").references().names_cluster("shop/cart/http"));
    let cluster = find(ResourceType::CLUSTER, "shop/cart/http");
    assert_eq!(&*cluster.references().endpoints[0], "shop/cart/http");
    assert_eq!(cluster.origins()[0].to_string(), "Service shop/cart");
    assert!(find(ResourceType::SCOPED_ROUTES, "http/shop.example.com").references().names_cluster("shop/cart/http"));
    assert!(find(ResourceType::ROUTES, "https/*").origins().iter().any(|origin| origin.kind == "Ingress"));
}

#[test]
fn equal_models_have_equal_bytes() {
    let (one, other) = (build(&model(), &Settings::default()), build(&model(), &Settings::default()));
    let versions = |resources: &[Resource]| resources.iter().map(Resource::version).collect::<Vec<_>>();
    assert_eq!(versions(&one), versions(&other));
}
