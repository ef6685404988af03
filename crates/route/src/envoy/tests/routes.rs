//! Every match, filter, and action of routes, validated by a real Envoy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_xds::protobuf;

use super::*;
use crate::model::*;
use crate::testing::model::{Shared as _, cluster_id, route};

fn name(text: &str) -> HeaderName {
    HeaderName::parse(text).unwrap()
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::parse(text).unwrap()
}

/// Returns one change of each kind, with texts that have a special meaning to Envoy.
fn changes() -> Vec<HeaderChange> {
    vec![
        HeaderChange::Set(name("X-Set"), value("100%")),
        HeaderChange::Set(name("x-empty"), value("")),
        HeaderChange::Add(name("x-add"), value("%REQ(x)%")),
        HeaderChange::Remove(name("x-remove")),
    ]
}

fn forward(filters: Vec<ForwardFilter>) -> Action {
    let clusters = vec![WeightedCluster::new(cluster_id("shop/cart/http"), 1)];
    Action::Forward(Arc::new(Forward { clusters, filters: filters.into(), ..Forward::default() }))
}

fn cors() -> ForwardFilter {
    ForwardFilter::Cors(Box::new(Cors {
        allow_origins: vec![
            OriginMatch::Exact("https://example.com".into()),
            OriginMatch::Regex(r"https://.*\.example\.com".into()),
            OriginMatch::Any,
        ],
        allow_methods: Some(value("GET, POST")),
        allow_headers: None,
        expose_headers: vec![name("x-a"), name("x-b")],
        max_age: Some(Duration::from_secs(600)),
        allow_credentials: true,
        allow_private_network: false,
    }))
}

/// Returns the model of the fixture with `routes` in its first host.
fn with_routes(routes: impl IntoIterator<Item = Route>) -> Model {
    let host = (Host::Exact("routes.example.com".into()), VirtualHostRoutes::new(routes));
    let mut model = model();
    *model.http_mut() = [host].into();
    model
}

/// Builds all resources, and validates them with a real Envoy.
fn validated(routes: impl IntoIterator<Item = Route>) -> Vec<Resource> {
    let resources = build(&with_routes(routes), &Settings::default());
    validate(&standalone(&resources, &Settings::default())).unwrap();
    resources
}

/// Returns the text form of the resource `name`.
fn text(resources: &[Resource], kind: ResourceType, name: &str) -> String {
    let resource = resources.iter().find(|one| one.kind() == kind && &**one.name() == name).unwrap();
    protobuf::to_json(kind.full_name(), &resource.message()).to_string()
}

#[test]
fn a_real_envoy_accepts_every_match() {
    let parts = [ValuePart::Whole, ValuePart::Start, ValuePart::End];
    let texts = parts.iter().flat_map(|part| {
        [false, true].map(|ignores_case| ValueMatch::Text { part: *part, text: "a1".into(), ignores_case })
    });
    let values: Vec<ValueMatch> = texts.chain([ValueMatch::Present, ValueMatch::Regex("[0-9]+".into())]).collect();
    let headers = values.iter().flat_map(|value| {
        let header = |inverted, missing_is_empty| HeaderMatch {
            name: name("x-team"),
            value: value.clone(),
            inverted,
            missing_is_empty,
        };
        [header(false, false), header(true, false), header(true, *value != ValueMatch::Present)]
    });
    let query = values.iter().cloned().map(Some).chain([None]);
    let query = query.map(|value| QueryMatch { name: "q".into(), value });
    let (headers, query): (Vec<_>, Vec<_>) = (headers.collect(), query.collect());
    let conditions = Conditions { method: Some("GET".into()), headers, query, share: Share::new(1, 3) };
    let all = [
        PathMatch::Exact("/a".into()),
        PathMatch::Regex("/[0-9]+".into()),
        PathMatch::SeparatedPrefix("/a".into()),
        PathMatch::root(),
    ];
    let matches = all.map(|path| Match::new(path, conditions.clone()));
    let resources = validated(matches.map(|matches| Route { matches, ..route(PathMatch::root(), forward(vec![])) }));
    let text = text(&resources, ResourceType::SCOPED_ROUTES, "http/routes.example.com");
    for expected in [":method", "x-team", "\"q\"", "invert", "resent"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn a_real_envoy_accepts_every_filter_and_action() {
    let rewrites = ["", "/", "/new", "/new/", r"/\1"]
        .map(|path| [PathRewrite::Prefix(value(path)), PathRewrite::Full(value(path))]);
    let rewrites =
        rewrites.into_iter().flatten().map(|path| Rewrite { host: Some(value("other.test")), path: Some(path) });
    let paths = [
        PathMatch::Exact("/a".into()),
        PathMatch::Regex("/[0-9]+".into()),
        PathMatch::SeparatedPrefix("/a.b".into()),
        PathMatch::Prefix("/a".into()),
        PathMatch::root(),
    ];
    let mut routes = Vec::new();
    for (rewrite, path) in rewrites.flat_map(|rewrite| paths.iter().map(move |path| (rewrite.clone(), path.clone()))) {
        routes.push(route(path.clone(), forward(vec![ForwardFilter::Rewrite(rewrite.clone())])));
        for (scheme, port) in [(None, None), (Some(Scheme::Http), None), (Some(Scheme::Https), Some(8443))] {
            let status = RedirectStatus::SeeOther;
            let redirect = Redirect { status, scheme, port, rewrite: Some(Arc::new(rewrite.clone())) };
            routes.push(route(path.clone(), Action::Redirect(redirect)));
        }
    }
    let mirror = |share| ForwardFilter::Mirror(Mirror { cluster: cluster_id("shop/tls/443"), share });
    let filters = vec![
        ForwardFilter::RequestHeaders(changes()),
        mirror(Share::ALL),
        mirror(Share::new(1, 3).unwrap()),
        cors(),
        ForwardFilter::IdleTimeout(None),
    ];
    let weighted = |name, filters: Vec<ClusterFilter>| WeightedCluster {
        filters: filters.into(),
        ..WeightedCluster::new(cluster_id(name), 1)
    };
    let of_cluster = vec![ClusterFilter::RequestHeaders(changes()), ClusterFilter::ResponseHeaders(changes())];
    let retry = Retry {
        on: "5xx,retriable-status-codes".into(),
        retries: 3,
        status_codes: vec![429, 503],
        backoff: Some(Duration::from_millis(50)),
        per_try_timeout: Some(Duration::from_secs(1)),
    };
    let forwards = Forward {
        clusters: vec![weighted("shop/cart/http", of_cluster.clone()), weighted("shop/tls/443", vec![])],
        filters: filters.clone().into(),
        retry: Some(Box::new(retry)),
        timeout: Some(Duration::from_secs(5)),
        websocket: true,
        own: OwnParts::default(),
    };
    let one_cluster = Forward { clusters: vec![weighted("shop/cart/http", of_cluster)], ..Forward::default() };
    let body = Some("<html>".into());
    let actions = [
        forward(filters),
        Action::Forward(Arc::new(forwards)),
        Action::Forward(Arc::new(one_cluster)),
        Action::Redirect(Redirect::to_https(RedirectStatus::Found)),
        Action::Respond { status: 451, body },
    ];
    let filters = Filters::from(vec![RouteFilter::ResponseHeaders(changes())]);
    routes.extend(actions.map(|action| Route { filters: filters.clone(), ..route(PathMatch::root(), action) }));
    let resources = validated(routes);
    let text = text(&resources, ResourceType::SCOPED_ROUTES, "http/routes.example.com");
    for expected in ["100%%", "%%REQ(x)%%", "x-remove", "333333", "other.test", "https://example.com", "<html>", "429"]
    {
        assert!(text.contains(expected), "{expected}");
    }
    let routes = resources.iter().find(|one| &**one.name() == "http/routes.example.com").unwrap();
    assert!(routes.references().names_cluster("shop/tls/443"), "mirrors are references");
}

#[test]
fn listeners_have_the_filters_of_routes_from_the_start() {
    let (mut settings, wanted) = (Settings::default(), Forms { rds: true, ..Forms::default() });
    settings.http.error_responses = true;
    let gateway = ListenerId::new("gateway/shop/public/80");
    let host = Host::Exact("routes.example.com".into());
    let mut model = with_routes([route(PathMatch::root(), forward(vec![]))]);
    let bind = model.listeners[ListenerId::HTTP].bind;
    model.listeners.insert(gateway.clone(), Listener::http(bind, RouteDiscovery::ByHost));
    let mut builder = Builder::default();
    let change = Change { model: &model, touched: &Touched::default(), settings: &settings, settings_changed: true };
    let listeners = |built: Built| {
        let listeners = built.shared.set.into_iter().filter(|one| one.kind() == ResourceType::LISTENER);
        listeners.map(|one| (one.name().to_string(), String::from_utf8_lossy(&one.message()).into_owned())).collect()
    };
    let first: BTreeMap<String, String> = listeners(builder.update(change, wanted));
    for filter in ["http.cors", "lockgate.errors", "lockgate.route", "http.local_ratelimit", "lockgate.last"] {
        assert!(first[gateway.as_str()].contains(filter), "{filter}");
        assert!(first["http"].contains(filter), "{filter} for Ingresses and HTTPProxies");
    }

    let with_cors = VirtualHostRoutes::new([route(PathMatch::root(), forward(vec![cors()]))]);
    let Some(Listener { traffic: Traffic::Http(plain), .. }) = model.listeners.get_mut(gateway.as_str()) else {
        panic!("a listener for plain HTTP")
    };
    plain.hosts.insert(host.clone(), with_cors);
    let mut touched = Touched::default();
    touched.insert_host(gateway.as_str(), host);
    let change = Change { model: &model, touched: &touched, settings: &settings, settings_changed: false };
    assert_eq!(listeners(builder.update(change, wanted)), BTreeMap::new(), "open connections stay");
}
