#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use prost::Message;
use route_v3::route_action::ClusterSpecifier;
use route_v3::route_match::PathSpecifier;

use super::action::retry_policy;
use super::matches::one_label_before;
use super::*;
use crate::envoy::wire;
use crate::model::{
    CookieName, Forward, ForwardFilter, PathMatch, Redirect, RedirectStatus, Retry, RoutePolicy, Session,
    SessionCookie, WeightedCluster,
};
use crate::testing::model::cluster_id;

fn exact(name: &str) -> Host {
    Host::Exact(name.into())
}

fn wildcard() -> Host {
    Host::Wildcard("example.com".into())
}

fn model_route(path: PathMatch, action: Action) -> Route {
    Route::new(path, action, ObjectRef::new("Ingress", "shop", "cart"))
}

fn forward(weights: &[(&str, u32)]) -> Forward {
    let weighted = |(name, weight): &(&str, u32)| WeightedCluster::new(cluster_id(&format!("shop/{name}/80")), *weight);
    Forward { clusters: weights.iter().map(weighted).collect(), websocket: true, ..Forward::default() }
}

fn action_of(forward: &Forward) -> route_v3::RouteAction {
    route_action(forward, "route", &PathMatch::root())
}

fn marks() -> Marks {
    Marks::of(&Settings::default())
}

fn path_of(path: PathMatch) -> PathSpecifier {
    let built =
        route(&model_route(path, Action::respond(404)), Conditions::default(), &marks(), OnHost::default()).remove(0);
    built.r#match.unwrap().path_specifier.unwrap()
}

fn to_https(port: Option<u16>) -> Action {
    Action::Redirect(Redirect { port, ..Redirect::to_https(RedirectStatus::PermanentRedirect) })
}

/// Returns the redirect of each route, and whether it is for requests with a port.
fn redirects(action: Action) -> Vec<(route_v3::RedirectAction, bool)> {
    let built = route(&model_route(PathMatch::root(), action), Conditions::default(), &marks(), OnHost::default());
    let redirect = |route: route_v3::Route| match route.action.unwrap() {
        route_v3::route::Action::Redirect(redirect) => (redirect, !route.r#match.unwrap().headers.is_empty()),
        other => panic!("{other:?}"),
    };
    built.into_iter().map(redirect).collect()
}

fn configuration(resource: &Resource) -> route_v3::RouteConfiguration {
    route_v3::RouteConfiguration::decode(resource.message()).unwrap()
}

fn domains(resource: &Resource) -> Vec<String> {
    configuration(resource).virtual_hosts.into_iter().flat_map(|host| host.domains).collect()
}

#[test]
fn each_path_match_has_its_form() {
    assert_eq!(path_of(PathMatch::Exact("/a/".into())), PathSpecifier::Path("/a/".into()));
    assert_eq!(path_of(PathMatch::SeparatedPrefix("/a".into())), PathSpecifier::PathSeparatedPrefix("/a".into()));
    assert_eq!(path_of(PathMatch::Prefix("/".into())), PathSpecifier::Prefix("/".into()));
    assert_eq!(path_of(PathMatch::Regex("/[0-9]+".into())), PathSpecifier::SafeRegex(wire::regex("/[0-9]+".into())));
}

#[test]
fn one_route_answers_names_of_several_labels_for_all_routes_of_a_wildcard() {
    let plain = model_route(PathMatch::Prefix("/".into()), Action::respond(503));
    let answering = |path: &str| model_route(PathMatch::Exact(path.into()), Action::respond(404));
    let headers = |host: &Host, all: &[Route], one_label: usize| -> Vec<usize> {
        let content = VirtualHostRoutes { one_label, ..VirtualHostRoutes::new(all.to_vec()) };
        let made = routes(host, &content, &marks(), None);
        made.into_iter().map(|one| one.r#match.unwrap().headers.len()).collect()
    };
    let (a, b) = (answering("/a"), answering("/b"));
    assert_eq!(headers(&wildcard(), std::slice::from_ref(&plain), 0), [0]);
    assert_eq!(headers(&exact("shop.example.com"), &[a.clone(), b.clone()], 2), [0, 0]);
    assert_eq!(headers(&wildcard(), &[a.clone(), b.clone()], 2), [1, 0, 0]);
    assert_eq!(headers(&wildcard(), &[a.clone(), plain.clone()], 2), [1, 0, 0], "nothing for several labels");
    let rest = [a.clone(), plain.clone(), b];
    assert_eq!(headers(&wildcard(), &rest, 2), [1, 1, 1, 0, 0], "the last route is only for several labels");
    let content = VirtualHostRoutes { one_label: 1, ..VirtualHostRoutes::new([a, plain]) };
    let mut made = routes(&wildcard(), &content, &marks(), None);
    let too_long = made.remove(0).r#match.unwrap();
    assert!(format!("{:?}", too_long.headers).contains(".{261,}"), "{:?}", too_long.headers);
    let made = made.remove(0);
    let (matched, action) = (made.r#match.unwrap(), made.action.unwrap());
    assert_eq!(
        action,
        route_v3::route::Action::DirectResponse(direct_response(503)),
        "what is left for several labels"
    );
    let matcher = &matched.headers[0];
    assert!(matcher.invert_match && matcher.name == ":authority");
    assert_eq!(matcher.header_match_specifier, one_label_before("example.com").header_match_specifier);
    let text = format!("{matcher:?}");
    assert!(text.contains(r#"(?i)[^.:]+\\.example\\.com(:[0-9]+)?"#), "{text}");
}

#[test]
fn no_timeout_is_written_as_zero() {
    let limited = Forward { timeout: Some(Duration::from_millis(1500)), ..forward(&[("a", 1)]) };
    assert_eq!(action_of(&forward(&[("a", 1)])).timeout, Some(wire::duration(Duration::ZERO)));
    assert_eq!(action_of(&limited).timeout, Some(wire::duration(Duration::from_millis(1500))));
}

#[test]
fn one_cluster_needs_no_weights() {
    let single = action_of(&forward(&[("a", 7)])).cluster_specifier.unwrap();
    assert_eq!(single, ClusterSpecifier::Cluster("shop/a/80".into()));
    let Some(ClusterSpecifier::WeightedClusters(weighted)) =
        action_of(&forward(&[("a", 90), ("b", 0)])).cluster_specifier
    else {
        panic!("no weights")
    };
    let weights: Vec<_> = weighted.clusters.iter().map(|one| (one.name.as_str(), one.weight.unwrap().value)).collect();
    assert_eq!(weights, [("shop/a/80", 90), ("shop/b/80", 0)]);
}

#[test]
fn websockets_are_refused_only_on_request() {
    assert!(action_of(&forward(&[("a", 1)])).upgrade_configs.is_empty());
    let refused = action_of(&Forward { websocket: false, ..forward(&[("a", 1)]) }).upgrade_configs.remove(0);
    assert_eq!((refused.upgrade_type.as_str(), refused.enabled.unwrap().value), ("websocket", false));
}

#[test]
fn a_retry_goes_to_another_endpoint() {
    let policy = retry_policy(&Retry { on: "5xx".into(), retries: 2, ..Retry::default() });
    assert_eq!((policy.retry_on.as_str(), policy.num_retries.unwrap().value), ("5xx", 2));
    assert_eq!(policy.retry_host_predicate[0].name, "envoy.retry_host_predicates.previous_hosts");
}

#[test]
fn a_redirect_leaves_the_plain_text_port_behind() {
    let ports = |port| {
        let all = redirects(to_https(port));
        all.into_iter().map(|(redirect, with_port)| (redirect.port_redirect, with_port)).collect::<Vec<_>>()
    };
    assert_eq!(ports(None), [(443, true), (0, false)]);
    assert_eq!(ports(Some(443)), [(443, true), (0, false)]);
    assert_eq!(ports(Some(8443)), [(8443, false)]);
    let (redirect, _) = redirects(to_https(None)).remove(1);
    assert_eq!(redirect.response_code, route_v3::redirect_action::RedirectResponseCode::PermanentRedirect as i32);
}

#[test]
fn redirects_to_https_are_equal_for_all_hosts() {
    let redirect = |name: &str| Route {
        origin: ObjectRef::new("Ingress", "shop", name),
        ..model_route(PathMatch::Prefix("/".into()), to_https(None))
    };
    let of = |name| VirtualHostRoutes::new([redirect(name)]);
    let hosts = [(exact("a.example.com"), of("a")), (exact("b.example.com"), of("b"))];
    let resource = http_routes(&ListenerId::new(ListenerId::HTTP), &hosts.into(), &Settings::default());
    let first = configuration(&resource).virtual_hosts.remove(0);
    assert_eq!(first.domains, ["a.example.com", "b.example.com"]);
    assert_eq!(resource.origins().len(), 2);
}

#[test]
fn a_route_names_its_object() {
    let one = model_route(PathMatch::Prefix("/".into()), Action::respond(503));
    let built =
        |settings: &Settings| route(&one, Conditions::default(), &Marks::of(settings), OnHost::default()).remove(0);
    let mut settings = Settings::default();
    let default = built(&settings);
    assert_eq!((&*default.name, default.metadata), ("Ingress/shop/cart", None));
    settings.access_log.format = AccessLogFormat::Json;
    let metadata = built(&settings).metadata.unwrap();
    assert_eq!(metadata.filter_metadata[names::METADATA].fields.len(), 3);
    settings.access_log.format = AccessLogFormat::Off;
    assert_eq!(built(&settings).metadata, None);
    settings.headers.response.set = vec![("x-by".to_owned(), "%METADATA(ROUTE:dev.lockgate:name)%".to_owned())];
    assert!(built(&settings).metadata.is_some());
}

#[test]
fn plain_text_serves_every_host_and_answers_404_for_others() {
    let failing = model_route(PathMatch::Prefix("/".into()), Action::respond(503));
    let hosts = [
        (exact("shop.example.com"), VirtualHostRoutes::default()),
        (wildcard(), VirtualHostRoutes::new([failing.clone(), failing])),
    ];
    let resource = http_routes(&ListenerId::new(ListenerId::HTTP), &hosts.clone().into(), &Settings::default());
    assert_eq!(&**resource.name(), "http");
    assert_eq!(domains(&resource), ["shop.example.com", "*.example.com", "*"]);
    assert!(configuration(&resource).ignore_port_in_host_matching);
    let with_any = http_routes(
        &ListenerId::new(ListenerId::HTTP),
        &hosts.into_iter().chain([(Host::Any, VirtualHostRoutes::default())]).collect(),
        &Settings::default(),
    );
    assert_eq!(domains(&with_any), ["shop.example.com", "*", "*.example.com"]);
    assert!(configuration(&with_any).virtual_hosts[0].routes.is_empty(), "equal routes, one virtual host");
}

/// The encoding of a route loops over its filters, and has a branch for each optional part. Without them, it sets no field of
/// a feature.
#[test]
fn a_plain_route_contains_only_its_match_and_its_cluster() {
    let plain = model_route(PathMatch::Prefix("/".into()), Action::Forward(forward(&[("a", 1)]).into()));
    let [built] =
        <[route_v3::Route; 1]>::try_from(route(&plain, Conditions::default(), &marks(), OnHost::default())).unwrap();
    let path = route_v3::RouteMatch {
        path_specifier: Some(PathSpecifier::Prefix("/".to_owned())),
        ..route_v3::RouteMatch::default()
    };
    let action = route_v3::RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster("shop/a/80".to_owned())),
        timeout: Some(wire::duration(Duration::ZERO)),
        ..route_v3::RouteAction::default()
    };
    let expected = route_v3::Route {
        name: "Ingress/shop/cart".to_owned(),
        r#match: Some(path),
        action: Some(route_v3::route::Action::Route(action)),
        ..route_v3::Route::default()
    };
    assert_eq!(built, expected);
    let texts = "Ingress/shop/cart".len() + "/".len() + "shop/a/80".len();
    assert_eq!(built.encoded_len() - texts, 12, "tags and lengths");
}

/// Envoy would search a header of 50 KB for each backend of each rule.
#[test]
fn the_cookies_of_a_request_are_parsed_once() {
    let cookie = SessionCookie {
        name: CookieName::parse("shop").unwrap(),
        path: "/".into(),
        lifetime: None,
        keeps_cluster: true,
    };
    let filters = vec![ForwardFilter::Session(Box::new(Session::Cookie(cookie)))].into();
    let sticky = Forward { filters, ..forward(&[("a", 1), ("b", 1)]) };
    let sticky = model_route(PathMatch::root(), Action::Forward(Arc::new(sticky)));
    let built = route(&sticky, Conditions::default(), &marks(), OnHost::default());
    let conditions: Vec<_> = built.iter().map(|route| route.r#match.clone().unwrap()).collect();
    let names = |one: &route_v3::RouteMatch| one.cookies.iter().map(|cookie| cookie.name.clone()).collect::<Vec<_>>();
    assert_eq!(conditions.iter().map(names).collect::<Vec<_>>(), [vec!["shop-backend"], vec!["shop-backend"], vec![]]);
    assert!(conditions.iter().all(|one| one.headers.is_empty()));
    assert_ne!(conditions[0].cookies, conditions[1].cookies);
    assert_eq!(route(&sticky.undivided(), Conditions::default(), &marks(), OnHost::default()).len(), 1);
}

/// Any client can send `content-type: application/grpc`.
#[test]
fn only_routes_for_grpc_have_streams_without_a_limit() {
    let mut settings = Settings::default();
    settings.http.max_request_body_bytes = Some(1);
    let policy = RoutePolicy { max_request_body_bytes: Some(1), ..RoutePolicy::default() };
    for (kind, expected) in [("GRPCRoute", true), ("HTTPRoute", false), ("Ingress", false)] {
        let origin = ObjectRef::new(kind, "shop", "cart");
        let one = Route::new(PathMatch::root(), Action::Forward(forward(&[("a", 1)]).into()), origin);
        let one = one.with_policy(Arc::new(policy.clone()));
        let [built] =
            <[_; 1]>::try_from(route(&one, Conditions::default(), &Marks::of(&settings), OnHost::default())).unwrap();
        let grpc = |any: &google::Any| String::from_utf8_lossy(&any.value).contains("application/grpc");
        let of_settings = built.typed_per_filter_config.get("envoy.filters.http.body_size_limit");
        assert_eq!(of_settings.is_some_and(grpc), expected, "{kind}");
        assert_eq!(grpc(&built.typed_per_filter_config["lockgate.route"]), expected, "{kind}");
    }
}
