//! HTTPProxies: trees of includes, hosts with several roots, certificates, and the incremental translation.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::http_proxy_tls::{any_authorities, any_clients, any_tcp_proxy};
use super::incremental::{Step, any_object, any_settings, difference, lost_of, take};
use crate::model::{Action, Host, Model, PathMatch};
use crate::objects::{Kind, Object, ObjectId, ObjectKey, Objects};
use crate::settings::{ServiceAddress, Settings};
use crate::testing::gateway::http_policy;
use crate::testing::http_proxies::{delegation, extension_service, http_proxy, http_proxy_created};
use crate::testing::model::Shared as _;
use crate::testing::objects::*;
use crate::translate::verdict::Severity;
use crate::translate::{ChangedInputs, Translator};

/// A translator beside the objects.
pub(super) struct World {
    objects: Objects,
    pub(super) settings: Settings,
    pub(super) translator: Translator,
}

/// Returns the settings: objects without a class are served.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.ingress.classless = true;
    settings
}

impl World {
    pub(super) fn new(list: &[Object]) -> Self {
        let base =
            [class("ours").into(), service("a").port("http", 80).into(), service("other/a").port("http", 80).into()];
        let mut world = Self { objects: objects(&base), settings: settings(), translator: Translator::default() };
        for object in list {
            world.objects.apply(object.clone());
        }
        world.translator.update(&world.objects, &world.settings, &ChangedInputs::everything());
        world
    }

    /// Takes a step, and compares the result with a translation from scratch.
    pub(super) fn take(&mut self, step: Step) {
        let (mut changed, before) = (ChangedInputs::default(), self.translator.model().clone());
        let (is_complete, lost) = (matches!(step, Step::Settings(_)), lost_of(&self.translator));
        take(step, &mut self.objects, &mut self.settings, &mut changed);
        let update = self.translator.update(&self.objects, &self.settings, &changed);
        let mut anew = Translator::default();
        anew.update(&self.objects, &self.settings, &ChangedInputs::everything());
        assert_eq!(self.translator.model(), anew.model());
        assert_eq!(self.translator.problems(), anew.problems());
        assert_eq!(self.translator.verdicts(), anew.verdicts());
        let now = lost_of(&self.translator);
        assert_eq!(now, lost_of(&anew));
        assert!(lost.symmetric_difference(&now).all(|id| update.sources.contains(id)), "untold losses");
        let mut both = update.touched.clone();
        both.extend(difference(&before, self.translator.model()));
        assert!(is_complete || both == update.touched, "untold changes");
    }

    pub(super) fn apply(&mut self, object: impl Into<Object>) {
        self.take(Step::Apply(object.into()));
    }

    pub(super) fn delete(&mut self, kind: Kind, name: &str) {
        self.take(Step::Delete(kind, meta(name).key));
    }

    /// Returns the entries of the condition of an object: the reasons of errors, and of warnings with a mark.
    pub(super) fn reasons(&self, name: &str) -> Vec<String> {
        self.reasons_of(Kind::HTTP_PROXY, name)
    }

    /// Returns the entries of the condition of an object of any kind like [`Self::reasons`].
    pub(super) fn reasons_of(&self, kind: Kind, name: &str) -> Vec<String> {
        let id = ObjectId { kind, key: meta(name).key };
        let verdicts = self.translator.verdicts().get(&id).cloned().unwrap_or_default();
        let entry = |(severity, reason): (Severity, &str)| match severity {
            Severity::Error => reason.to_owned(),
            Severity::Warning => format!("warning {reason}"),
        };
        verdicts.iter().filter_map(|one| Some(entry((one.detail?.severity, one.reason)))).collect()
    }

    /// Returns whether no route of an object is served.
    pub(super) fn has_lost(&self, name: &str) -> bool {
        self.translator.has_lost(&ObjectId { kind: Kind::HTTP_PROXY, key: meta(name).key })
    }

    /// Returns the routes of a host in plain HTTP: path, action, and object.
    pub(super) fn routes(&self, host: &str) -> Vec<String> {
        routes_of(self.translator.model(), host)
    }

    /// Returns the Secret of a host.
    fn secret(&self, host: &str) -> Option<String> {
        let host = self.translator.model().https().get(&Host::Exact(host.into())).cloned();
        host.and_then(|host| host.all_secrets().next().map(ToString::to_string))
    }
}

fn routes_of(model: &Model, host: &str) -> Vec<String> {
    let found = model.http().get(&Host::Exact(host.into())).cloned();
    let routes = found.iter().flat_map(|host| &host.routes);
    let text = |route: &std::sync::Arc<crate::model::Route>| {
        let (PathMatch::Prefix(path)
        | PathMatch::SeparatedPrefix(path)
        | PathMatch::Exact(path)
        | PathMatch::Regex(path)) = &route.matches.path;
        let action = match &route.action {
            Action::Forward(_) => "forward".to_owned(),
            Action::Redirect(redirect) => redirect.status.code().to_string(),
            Action::Respond { status, .. } => status.to_string(),
        };
        format!("{path} {action} {}", route.origin.name)
    };
    routes.map(text).collect()
}

pub(super) fn to(service: &str) -> Value {
    json!([{ "name": service, "port": 80 }])
}

fn root(host: &str, includes: &Value) -> Value {
    json!({ "virtualhost": { "fqdn": host }, "includes": includes })
}

fn leaf(prefix: &str) -> Value {
    json!({ "routes": [{ "conditions": [{ "prefix": prefix }], "services": to("a") }] })
}

#[test]
fn objects_are_included_across_namespaces() {
    let include = json!([{ "name": "team", "namespace": "other", "conditions": [{ "prefix": "/team" }] }]);
    let mut world = World::new(&[http_proxy("other/team", &leaf("/one"))]);
    assert_eq!((world.reasons("other/team"), world.has_lost("other/team")), (vec!["Orphaned".into()], true));
    world.apply(http_proxy("root", &root("x.test", &include)));
    assert_eq!(world.routes("x.test"), ["/team/one forward team"]);
    assert_eq!([world.reasons("other/team"), world.reasons("root")], [Vec::<String>::new(), Vec::new()]);
    assert!(!world.has_lost("other/team") && !world.has_lost("root"));
    world.delete(Kind::SERVICE, "other/a");
    assert_eq!(world.routes("x.test"), ["/team/one 503 team"]);
    assert_eq!(
        (world.reasons("other/team"), world.reasons("root").len()),
        (vec!["ServiceUnresolvedReference".into()], 0)
    );
    world.delete(Kind::HTTP_PROXY, "other/team");
    assert_eq!(
        (world.routes("x.test"), world.reasons("root")),
        (vec!["/team 502 root".into()], vec!["IncludeNotFound".into()])
    );
}

#[test]
fn an_include_of_another_class_is_not_found_until_the_class_is_served() {
    let team = http_proxy("team", &json!({ "ingressClassName": "third", "routes": [{ "services": to("a") }] }));
    let mut world = World::new(&[team, http_proxy("root", &root("x.test", &json!([{ "name": "team" }])))]);
    assert_eq!((world.reasons("root"), world.reasons("team").len()), (vec!["IncludeNotFound".into()], 0));
    world.apply(class("third"));
    assert_eq!((world.reasons("root").len(), world.routes("x.test")), (0, vec!["/ forward team".into()]));
    world.delete(Kind::INGRESS_CLASS, "third");
    world.take(Step::Delete(Kind::INGRESS_CLASS, ObjectKey::new("", "third")));
    assert_eq!(world.reasons("root"), ["IncludeNotFound"]);
}

#[test]
fn cycles_and_included_roots_cost_their_include_alone() {
    let include = |name: &str, prefix: &str| json!({ "name": name, "conditions": [{ "prefix": prefix }] });
    let one = json!({ "includes": [include("two", "/two")], "routes": [{ "services": to("a") }] });
    let two = json!({ "includes": [include("one", "/one")] });
    let of_root = root("x.test", &json!([include("one", "/a"), include("peer", "/peer")]));
    let peer = root("y.test", &json!([include("one", "/b")]));
    let objects = [("one", one), ("two", two), ("root", of_root), ("peer", peer)];
    let world = World::new(&objects.map(|(name, spec)| http_proxy(name, &spec)));
    assert_eq!(world.routes("x.test"), ["/a/two/one 502 two", "/peer 502 root", "/a forward one"]);
    assert_eq!(world.reasons("two"), ["IncludeCreatesCycle"]);
    assert_eq!([world.reasons("root"), world.reasons("one")], [vec!["RootIncludesRoot".to_owned()], Vec::new()]);
}

#[test]
fn a_later_route_shadows_an_earlier_one() {
    let of_root = json!({
        "virtualhost": { "fqdn": "x.test" },
        "includes": [{ "name": "team" }],
        "routes": [{ "services": to("a") }],
    });
    let world = World::new(&[http_proxy("root", &of_root), http_proxy("team", &leaf("/"))]);
    assert_eq!(
        (world.routes("x.test"), world.reasons("team")),
        (vec!["/ forward root".into()], vec!["warning ShadowedRoute".into()])
    );
}

#[test]
fn includes_that_multiply_have_a_limit() {
    let twice = |name: &str| json!([{ "name": name, "conditions": [{ "prefix": "/a" }] }, { "name": name, "conditions": [{ "prefix": "/b" }] }]);
    let mut list = vec![http_proxy("p20", &leaf("/")), http_proxy("root", &root("x.test", &twice("p0")))];
    list.extend(
        (0..20).map(|at| http_proxy(&format!("p{at}"), &json!({ "includes": twice(&format!("p{}", at + 1)) }))),
    );
    let world = World::new(&list);
    assert!(world.routes("x.test").len() < 2000);
    assert!((0..20).any(|at| world.reasons(&format!("p{at}")).contains(&"IncludeTooLarge".to_owned())));
}

#[test]
fn the_oldest_root_serves_a_host_and_presents_its_certificate() {
    let of = |secret: &str| json!({ "virtualhost": { "fqdn": "x.test", "tls": { "secretName": secret } }, "routes": [{ "services": to("a") }] });
    let mut world = World::new(&[
        secret("one", &["x.test"]).into(),
        secret("two", &["x.test"]).into(),
        http_proxy_created("new", 2, &of("two")),
        http_proxy_created("old", 1, &of("one")),
    ]);
    assert_eq!((world.secret("x.test"), world.routes("x.test")), (Some("shop/one".into()), vec!["/ 301 old".into()]));
    assert_eq!((world.reasons("new"), world.reasons("old").len()), (vec!["DuplicateVhost".into()], 0));
    assert_eq!(["new", "old"].map(|name| world.has_lost(name)), [true, false]);
    world.delete(Kind::SECRET, "one");
    assert_ne!(world.secret("x.test"), Some("shop/two".into()), "the certificate of the other root is not presented");
    world.delete(Kind::HTTP_PROXY, "old");
    assert_eq!((world.secret("x.test"), world.reasons("new").len()), (Some("shop/two".into()), 0));
    let solver = ingress("solver").created(-1).host("x.test").path("Exact", "/.well-known/acme-challenge/t", "a:80");
    world.apply(solver.tls(&["x.test"], "one"));
    assert_eq!(world.routes("x.test"), ["/.well-known/acme-challenge/t forward solver", "/ 301 new"]);
    world.apply(secret("one", &["x.test"]));
    assert_eq!(world.secret("x.test"), Some("shop/two".into()), "the HTTPProxy has precedence over the Ingress");
}

#[test]
fn a_root_of_another_namespace_is_a_duplicate_as_well() {
    let of = root("x.test", &json!([{ "name": "team" }]));
    let world = World::new(&[http_proxy_created("old", 1, &of), http_proxy_created("other/new", 2, &of)]);
    assert_eq!(world.reasons("other/new").last().map(String::as_str), Some("DuplicateVhost"));
    assert_eq!(world.routes("x.test"), ["/ 502 old"]);
}

#[test]
fn a_delegation_permits_a_secret_until_it_is_withdrawn() {
    let of = json!({ "virtualhost": { "fqdn": "x.test", "tls": { "secretName": "other/good" } }, "routes": [{ "services": to("a") }] });
    let mut world = World::new(&[secret("other/good", &["x.test"]).into(), http_proxy("root", &of)]);
    assert_eq!((world.secret("x.test"), world.reasons("root")), (None, vec!["DelegationNotPermitted".into()]));
    assert_eq!(world.routes("x.test"), ["/ 301 root"], "no route is served in clear text");
    world.apply(delegation("other/d", "good", &["third", "shop"]));
    assert_eq!((world.secret("x.test"), world.reasons("root").len()), (Some("other/good".into()), 0));
    world.apply(delegation("other/d", "good", &["third"]));
    assert_eq!(world.secret("x.test"), None);
    world.apply(delegation("other/d", "good", &["*"]));
    assert_eq!(world.secret("x.test"), Some("other/good".into()));
    world.apply(delegation("other/d", "another", &["*"]));
    assert_eq!(world.secret("x.test"), None);
}

/// A policy of a namespace protects the Services of the namespace, whoever includes the routes to them.
#[test]
fn an_included_object_has_the_policies_of_its_namespace_and_of_its_includer() {
    let include = json!([{ "name": "team", "namespace": "other" }]);
    let mut world = World::new(&[http_proxy("root", &root("x.test", &include)), http_proxy("other/team", &leaf("/"))]);
    let has_policy = |world: &World| {
        let found = world.translator.model().http().get(&Host::Exact("x.test".into())).cloned();
        found.is_some_and(|host| host.routes.iter().all(|route| route.policy().is_some()))
    };
    assert!(!has_policy(&world));
    world.apply(http_policy("other/p").target("Namespace", "other").allow(&["192.0.2.0/24"]));
    assert!(has_policy(&world));
    world.delete(Kind::HTTP_POLICY, "other/p");
    assert!(!has_policy(&world));
    world.apply(http_policy("p").target("Namespace", "shop").allow(&["192.0.2.0/24"]));
    assert!(has_policy(&world));
}

#[test]
fn a_field_that_may_restrict_access_closes_what_it_protects() {
    let route = |extra: Value| {
        let mut route = json!({ "conditions": [{ "prefix": "/a" }], "services": to("a") });
        route.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({ "virtualhost": { "fqdn": "x.test" }, "routes": [route, { "services": to("a") }] })
    };
    for (extra, expected, reason) in [
        (json!({ "ipDenyPolicy": [{ "source": "Peer", "cidr": "10.0.0.300" }] }), "503", "InvalidCIDR"),
        (json!({ "rateLimitPolicy": { "another": 1 } }), "503", "UnsupportedField"),
        (json!({ "authPolicy": { "another": 1 } }), "503", "UnsupportedField"),
        (json!({ "jwtVerificationPolicy": { "require": "p" } }), "503", "JWTProviderNotDefined"),
        (json!({ "fieldOfAnotherVersion": 1 }), "503", "UnsupportedField"),
        (
            json!({ "services": [{ "name": "a", "port": 80, "validation": { "caSecret": "ca" } }] }),
            "503",
            "TLSUpstreamValidation",
        ),
        (json!({ "loadBalancerPolicy": { "strategy": "Unknown" } }), "forward", "warning IgnoredField"),
        (json!({ "healthCheckPolicy": { "path": "/" } }), "forward", "warning IgnoredField"),
    ] {
        let world = World::new(&[http_proxy("root", &route(extra.clone()))]);
        assert_eq!(world.routes("x.test"), [format!("/a {expected} root"), "/ forward root".to_owned()], "{extra}");
        assert_eq!(world.reasons("root"), [reason], "{extra}");
    }
    for extra in [
        json!({ "authorization": { "extensionRef": { "name": "auth" } } }),
        json!({ "authorization": { "extensionRef": { "name": "auth" }, "failOpen": true } }),
        json!({ "jwtProviders": [{ "name": "p", "default": true }] }),
        json!({ "ipAllowPolicy": [{ "source": "Peer", "cidr": "10.0.0.1" }, { "source": "Other", "cidr": "10.0.0.2" }] }),
        json!({ "rateLimitPolicy": { "another": 1 } }),
    ] {
        let mut spec = route(json!({ "permitInsecure": true }));
        spec["virtualhost"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let world = World::new(&[secret("good", &["x.test"]).into(), http_proxy("root", &spec)]);
        assert_eq!(world.routes("x.test")[0], "/a 503 root", "{extra}");
        assert!(!world.reasons("root").is_empty(), "{extra}");
    }
}

/// An object has only its own policies and those of its host, which precede the policies of others, except for overrides.
#[test]
fn access_policies_of_a_host_apply_to_its_included_objects() {
    let mut spec =
        root("x.test", &json!([{ "name": "team", "namespace": "other", "conditions": [{ "prefix": "/team" }] }]));
    spec["virtualhost"]["authorization"] = json!({ "extensionRef": { "name": "auth" } });
    spec["virtualhost"]["ipAllowPolicy"] = json!([{ "source": "Peer", "cidr": "192.0.2.0/24" }]);
    let mut world = World::new(&[http_proxy("root", &spec), http_proxy("other/team", &leaf("/"))]);
    assert_eq!(
        (world.reasons("root"), world.routes("x.test")),
        (vec!["ExtensionServiceNotFound".into()], vec!["/team/ 503 team".into()])
    );
    world.apply(extension_service("auth", &json!({ "protocol": "h2c", "services": to("a") })));
    assert_eq!((world.reasons("root").len(), world.routes("x.test")), (0, vec!["/team/ forward team".into()]));
    let policy = |world: &World| {
        let found = world.translator.model().http().get(&Host::Exact("x.test".into())).cloned();
        found.and_then(|host| host.routes[0].policy().cloned()).expect("a policy")
    };
    let allowed = |world: &World| policy(world).client_addresses.as_ref().map(|list| list.allow[0].range.to_string());
    assert!(policy(&world).authorization.is_some());
    assert_eq!(allowed(&world).as_deref(), Some("192.0.2.0/24"));
    world.apply(http_policy("other/p").target("HTTPProxy", "team").allow(&["198.51.100.0/24"]).rate(7));
    assert_eq!(allowed(&world).as_deref(), Some("192.0.2.0/24"), "the field of the host precedes");
    assert_eq!(policy(&world).local_rate_limit.as_ref().map(|limit| limit.requests), Some(7));
    world.apply(http_policy("other/p").target("HTTPProxy", "team").allow(&["198.51.100.0/24"]).overriding());
    assert_eq!(allowed(&world).as_deref(), Some("198.51.100.0/24"), "an override precedes");
    world.delete(Kind::EXTENSION_SERVICE, "auth");
    assert_eq!(world.routes("x.test"), ["/team/ 503 team"]);
}

/// The features of a host are copied to each route, and count toward the limit of the namespace.
#[test]
fn large_access_policies_close_the_host() {
    let ranges: Vec<Value> =
        (0..256).map(|at| json!({ "source": "Peer", "cidr": format!("10.0.{at}.0/24") })).collect();
    let routes: Vec<Value> =
        (0..1000).map(|at| json!({ "conditions": [{ "prefix": format!("/{at}") }], "services": to("a") })).collect();
    let spec = json!({ "virtualhost": { "fqdn": "x.test", "ipAllowPolicy": ranges }, "routes": routes });
    let world = World::new(&[http_proxy("root", &spec)]);
    assert_eq!(world.reasons("root"), ["RouteTooExpensive"]);
    assert!(world.routes("x.test").iter().all(|route| route.contains(" 503 ")));
}

/// Each route has a copy of the context of its host.
#[test]
fn a_large_context_for_the_server_of_the_settings_closes_the_host() {
    let routes: Vec<Value> =
        (0..1500).map(|at| json!({ "conditions": [{ "prefix": format!("/{at}") }], "services": to("a") })).collect();
    let context = json!({ "authPolicy": { "context": { "key": "x".repeat(4000) } } });
    let spec = json!({ "virtualhost": { "fqdn": "x.test", "authorization": context }, "routes": routes });
    let mut world = World::new(&[]);
    let endpoint = ServiceAddress { host: "auth.test".into(), port: 9000 };
    world.settings.external_authorization.endpoint = Some(endpoint);
    world.translator.update(&world.objects, &world.settings, &ChangedInputs::everything());
    world.apply(http_proxy("root", &spec));
    assert_eq!(world.reasons("root"), ["RouteTooExpensive"]);
    assert!(world.routes("x.test").iter().all(|route| route.contains(" 503 ")));
}

/// Returns the verifications of all clusters: the server name and the Secret.
pub(super) fn verifications(world: &World) -> Vec<String> {
    let clusters = world.translator.model().clusters.values();
    let found = clusters.filter_map(|cluster| {
        let verification = cluster.policy.verification.as_ref()?;
        Some(format!("{} {}", verification.server_name, verification.secret()?))
    });
    found.collect()
}

#[test]
fn a_service_is_verified_with_delegated_authorities_until_they_are_withdrawn() {
    let service = |secret: &str| json!({ "name": "a", "port": 80, "protocol": "tls", "validation": { "caSecret": secret, "subjectName": "web" } });
    let of =
        |secret: &str| json!({ "virtualhost": { "fqdn": "x.test" }, "routes": [{ "services": [service(secret)] }] });
    let mut world = World::new(&[http_proxy("root", &of("other/ca"))]);
    let closed = ["/ 503 root"];
    assert_eq!(
        (world.routes("x.test"), world.reasons("root")),
        (closed.map(Into::into).to_vec(), vec!["CACertificateNotDelegated".into()])
    );
    world.apply(delegation("other/d", "ca", &["shop"]));
    assert_eq!(
        (world.routes("x.test"), world.reasons("root")),
        (closed.map(Into::into).to_vec(), vec!["TLSUpstreamValidation".into()])
    );
    world.apply(secret("other/ca", &[]).without_pair().authorities("one"));
    assert_eq!((world.routes("x.test"), world.reasons("root").len()), (vec!["/ forward root".into()], 0));
    assert_eq!(verifications(&world).len(), 1);
    assert_eq!(world.translator.model().secrets.len(), 1);
    world.apply(secret("other/ca", &[]).without_pair().authorities("other"));
    assert_eq!(world.routes("x.test"), ["/ forward root"]);
    world.delete(Kind::TLS_CERTIFICATE_DELEGATION, "other/d");
    assert_eq!((world.routes("x.test"), verifications(&world).len()), (closed.map(Into::into).to_vec(), 0));
    assert!(world.translator.model().secrets.is_empty());
}

#[test]
fn a_root_has_a_limit_of_policies_for_services() {
    let route = |index: usize| {
        let validation = json!({ "caSecret": "ca", "subjectName": format!("web-{index}") });
        let service = json!({ "name": "a", "port": 80, "protocol": "tls", "validation": validation });
        json!({ "conditions": [{ "prefix": format!("/{index:03}") }], "services": [service] })
    };
    let routes: Vec<Value> = (0..110).map(route).collect();
    let of = json!({ "virtualhost": { "fqdn": "x.test" }, "routes": routes });
    let mut world = World::new(&[secret("ca", &[]).without_pair().authorities("one").into(), http_proxy("root", &of)]);
    let open = |world: &World| world.routes("x.test").iter().filter(|route| route.contains("forward")).count();
    assert_eq!((open(&world), verifications(&world).len()), (100, 100));
    assert!(world.reasons("root").contains(&"TooManyPolicies".to_owned()));
    // The authorities of each policy count.
    world.settings.tenants.max_configuration_per_namespace = 1 << 20;
    world.apply(secret("ca", &[]).without_pair().authorities(&"x".repeat(300 << 10)));
    world.translator.update(&world.objects, &world.settings, &ChangedInputs::everything());
    assert_eq!(open(&world), 3);
}

fn any_proxy() -> impl Strategy<Value = Object> {
    let host = select(vec![None, None, Some("x.com"), Some("a.x.com"), Some("*.x.com")]);
    let secret = select(vec![None, Some(""), Some("good"), Some("wild"), Some("other/good")]);
    let namespace = select(vec!["", "", "other"]);
    let include = (select(vec!["one", "two", "three", "gone"]), namespace, select(vec!["", "/a", "/b", "bad"]));
    let header = select(vec![None, Some("x-one")]);
    let route = (select(vec!["/", "/a", "/b", "bad"]), header, select(vec!["a", "b", "gone"]), 0..16u8);
    let (includes, routes) = (prop::collection::vec(include, 0..3), prop::collection::vec(route, 0..3));
    let class = select(vec![None, None, None, Some("ours"), Some("third"), Some("foreign")]);
    let names = select(vec!["one", "two", "three", "other/three", "other/one", "third/two"]);
    let of_host = (host, secret, prop::option::weighted(0.25, 0..5u8), any_tcp_proxy(), any_clients());
    (names, 1i64..4, of_host, class, includes, routes).prop_map(
        |(name, created, (host, secret, access, tcp_proxy, clients), class, includes, routes)| {
            let mut spec = json!({ "includes": [], "routes": [] });
            if let Some(host) = host {
                spec["virtualhost"] = json!({ "fqdn": host });
                if let Some(secret) = secret {
                    spec["virtualhost"]["tls"] = match secret {
                        "" => json!({ "passthrough": true }),
                        secret => json!({ "secretName": secret, "enableFallbackCertificate": name.len() % 2 == 1 }),
                    };
                    if let Some(clients) = clients {
                        spec["virtualhost"]["tls"]["clientValidation"] = clients;
                    }
                }
                if let Some(form) = access {
                    let namespace = if form < 2 { "" } else { "other" };
                    let reference = json!({ "namespace": namespace, "name": "auth" });
                    spec["virtualhost"]["authorization"] = json!({ "extensionRef": reference });
                    let mut keys = json!({ "uri": "http://a.shop.svc/keys" });
                    if form > 0 {
                        keys["uri"] = json!("https://a.shop.svc:80/keys");
                    }
                    if form > 1 {
                        let secret = ["ca", "other/ca", "issuer"][usize::from(form - 2)];
                        keys["validation"] = json!({ "caSecret": secret, "subjectName": "keys" });
                    }
                    spec["virtualhost"]["ipDenyPolicy"] = json!([{ "source": "Remote", "cidr": "10.0.0.0/8" }]);
                    spec["virtualhost"]["jwtProviders"] = json!([
                        { "name": "first", "default": true, "localJWKS": { "secretName": "good", "key": "keys" } },
                        { "name": "second", "remoteJWKS": keys },
                    ]);
                }
            }
            if let Some(tcp_proxy) = tcp_proxy {
                spec["tcpproxy"] = tcp_proxy;
            }
            if let Some(class) = class {
                spec["ingressClassName"] = json!(class);
            }
            let include = |(name, namespace, prefix): (&str, &str, &str)| {
                json!({ "name": name, "namespace": namespace, "conditions": [{ "prefix": prefix }] })
            };
            spec["includes"] = includes.into_iter().map(include).collect();
            let route = |(path, header, service, form): (&str, Option<&str>, &str, u8)| {
                let mut conditions = vec![json!({ "prefix": path })];
                conditions.extend(header.map(|name| json!({ "header": { "name": name, "present": true } })));
                let mut route = json!({ "conditions": conditions, "services": to(service) });
                match form {
                    0 => route["permitInsecure"] = json!(true),
                    1 => route["pathRewritePolicy"] = json!({ "replacePrefix": [{ "replacement": "/new" }] }),
                    2 => route["services"][0]["protocol"] = json!("h2c"),
                    3 => route["authPolicy"] = json!({ "disabled": true }),
                    4 => route["jwtVerificationPolicy"] = json!({ "require": "second" }),
                    5 => route["jwtVerificationPolicy"] = json!({ "disabled": true }),
                    6 => route["rateLimitPolicy"] = json!({ "local": { "requests": 5, "unit": "second", "burst": 1 } }),
                    7..=9 => {
                        let secret = ["good", "other/good", "issuer"][usize::from(form - 7)];
                        route["services"][0]["protocol"] = json!("tls");
                        route["services"][0]["validation"] = json!({ "caSecret": secret, "subjectName": "a" });
                    }
                    10 => route["loadBalancerPolicy"] = json!({ "strategy": "Random" }),
                    11 => route["services"][0]["slowStartPolicy"] = json!({ "window": "1s" }),
                    12 => route["healthCheckPolicy"] = json!({ "path": "/" }),
                    13 => {
                        route["healthCheckPolicy"] = json!({ "path": "/" });
                        route["services"][0]["healthPort"] = json!(81);
                    }
                    14 => route["internalRedirectPolicy"] = json!({ "maxInternalRedirects": 2 }),
                    _ => {}
                }
                route
            };
            spec["routes"] = routes.into_iter().map(route).collect();
            http_proxy_created(name, created, &spec)
        },
    )
}

fn any_delegation() -> impl Strategy<Value = Object> {
    let namespaces = select(vec![vec!["*"], vec!["shop"], vec!["third", "shop"], vec![]]);
    (select(vec!["other/one", "other/two"]), select(vec!["good", "wild", "ca"]), namespaces)
        .prop_map(|(name, secret, namespaces)| delegation(name, secret, &namespaces))
}

fn any_extension_service() -> impl Strategy<Value = Object> {
    let service = (select(vec!["a", "b", "gone"]), select(vec![None, Some(0), Some(1), Some(2)]));
    let services = prop::collection::vec(service, 0..3);
    (select(vec!["auth", "other/auth"]), services, 0..12u8).prop_map(|(name, services, form)| {
        let service = |(name, weight): (&str, Option<i64>)| json!({ "name": name, "port": 80, "weight": weight });
        let mut spec = json!({ "services": services.into_iter().map(service).collect::<Vec<_>>() });
        match form {
            0..=2 => {
                let secret = ["ca", "other/ca", "issuer"][usize::from(form)];
                spec["validation"] = json!({ "caSecret": secret, "subjectName": "a" });
            }
            3 => spec["protocol"] = json!("h2c"),
            4 => {
                spec["protocol"] = json!("h2c");
                spec["validation"] = json!({ "caSecret": "good", "subjectName": "a" });
            }
            5 => spec["loadBalancerPolicy"] = json!({ "strategy": "Random" }),
            6 => spec["loadBalancerPolicy"] = json!({ "strategy": "Cookie" }),
            7 => spec["circuitBreakerPolicy"] = json!({ "maxRequests": 7, "maxConnections": 100_000_000 }),
            8 => spec["timeoutPolicy"] = json!({ "response": "1s", "idle": "1s", "idleConnection": "x" }),
            9 => spec["protocolVersion"] = json!("v2"),
            _ => {}
        }
        extension_service(name, &spec)
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let object = || prop_oneof![6 => any_proxy(), 1 => any_delegation(), 2 => any_authorities(), 2 => any_extension_service(), 5 => any_object()];
    prop_oneof![
        24 => object().prop_map(Step::Apply),
        8 => object().prop_map(|object| Step::Delete(object.kind(), object.meta().key.clone())),
        1 => any_settings().prop_map(|settings| Step::Settings(Box::new(settings))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn incremental_changes_of_trees_equal_one_translation(
        first in prop::collection::vec(prop_oneof![3 => any_proxy(), 2 => any_object()], 0..12),
        steps in prop::collection::vec(any_step(), 1..40),
    ) {
        let mut world = World::new(&first);
        for step in steps {
            world.take(step);
        }
    }
}
