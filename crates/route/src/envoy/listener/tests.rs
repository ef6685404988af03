#![allow(clippy::unwrap_used, clippy::panic)]

use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use envoy_types::pb::google::protobuf as google;
use envoy_types::pb::xds::r#type::matcher::v3 as matcher_v3;
use prost::Message;

use super::*;
use crate::model::{Model, TlsHost, TlsVersion};
use crate::testing::model::{self, Shared as _, pair_id, with_hosts};

fn tls_host(minimum: TlsVersion) -> TlsHost {
    TlsHost { minimum, ..model::tls_host(&["cert"], []) }
}

fn model(hosts: &[Host]) -> Model {
    let https = hosts.iter().map(|host| (host.clone(), tls_host(TlsVersion::V1_2))).collect();
    with_hosts(BTreeMap::new(), https)
}

fn at(model: &Model) -> TlsListener<'_> {
    TlsListener::of(model, ListenerId::HTTPS).unwrap()
}

fn plain(settings: &Settings) -> listener_v3::Listener {
    let id = ListenerId::new(ListenerId::HTTP);
    http(&id, &settings.listeners.http, RouteDiscovery::ByHost, RouteFilters::default(), settings)
}

fn https(at: &TlsListener, settings: &Settings) -> listener_v3::Listener {
    let shared = |_| shared_manager(at.id, Codec::Tcp, RouteFilters::default(), settings);
    super::https(at, &shared, RouteFilters::default(), settings)
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
fn one_socket_accepts_both_families_by_default() {
    let both = socket(&plain(&Settings::default()));
    assert_eq!((both.address.as_str(), both.ipv4_compat), ("::", true));
    let mut settings = Settings::default();
    settings.listeners.ipv6 = false;
    let ipv4 = socket(&plain(&settings));
    assert_eq!((ipv4.address.as_str(), ipv4.ipv4_compat), ("0.0.0.0", false));
}

#[test]
fn there_is_a_tls_listener_only_with_a_tls_host() {
    let names = |hosts: &[Host]| {
        tls_listeners(&at(&model(hosts)), RouteFilters::default(), &Settings::default())
            .listeners
            .into_iter()
            .map(|(id, _)| id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), [] as [&str; 0]);
    assert_eq!(names(&[Host::Any]), ["https"]);
}

#[test]
fn the_chains_of_exact_hosts_share_a_connection_manager() {
    let hosts = model(&[Host::Exact("a.test".into()), Host::Wildcard("test".into())]);
    let made = |settings: &Settings| {
        let TlsListeners { listeners, managers } = tls_listeners(&at(&hosts), RouteFilters::default(), settings);
        let listener = listener_v3::Listener::decode(listeners[0].1.message()).unwrap();
        (listener, managers.into_iter().next().unwrap())
    };
    let (listener, manager) = made(&Settings::default());
    let [shared, own] = listener.filter_chains.as_slice() else { panic!("{listener:?}") };
    assert_eq!(shared.filters[0].name, **manager.name());
    assert!(shared.encoded_len() < own.encoded_len() / 2, "{} bytes", shared.encoded_len());
    // Other content is another filter, so Envoy drains connections with the old content.
    let mut settings = Settings::default();
    settings.http.max_concurrent_streams += 1;
    let (changed, other) = made(&settings);
    assert_ne!(other.name(), manager.name());
    assert_eq!(changed.filter_chains[0].filters[0].name, **other.name());
    assert!(tls_listeners(&at(&model(&[Host::Any])), RouteFilters::default(), &settings).managers.is_empty());
}

/// Envoy reads the whole listener for each new host: 0.8 us for a name, and 80 us for a chain of this size.
#[test]
fn an_existing_host_adds_few_bytes_to_the_listener() {
    let size = |hosts: usize, pairs: usize| {
        let host = |at: usize| {
            let content = model::tls_host(&[&format!("pair-{}", at % pairs)], []);
            (Host::Exact(format!("{at:05}.shop.test").into()), content)
        };
        let hosts = with_hosts(BTreeMap::new(), (0..hosts).map(host).collect());
        let made = tls_listeners(&at(&hosts), RouteFilters::default(), &Settings::default());
        made.listeners[0].1.size()
    };
    let growth = |pairs: usize| (size(1_200, pairs.min(1_200)) - size(200, pairs.min(200))) / 1_000;
    let (with_shared_pair, with_own_pair) = (growth(1), growth(usize::MAX));
    assert!(with_shared_pair <= 20, "{with_shared_pair} bytes");
    assert!(with_own_pair <= 700, "{with_own_pair} bytes");
}

/// Returns the chain of each key of the exact map or of each suffix, in order.
fn choices(matcher: &matcher_v3::Matcher) -> Vec<(String, String)> {
    use matcher_v3::matcher::matcher_list::predicate::{MatchType, single_predicate};
    use matcher_v3::matcher::{MatcherType, OnMatch, matcher_tree, on_match};
    let chain = |on: &OnMatch| match on.on_match.as_ref().unwrap() {
        on_match::OnMatch::Action(action) => {
            google::StringValue::decode(&*action.typed_config.as_ref().unwrap().value).unwrap().value
        }
        on_match::OnMatch::Matcher(_) => panic!("a matcher"),
    };
    let mut found = match matcher.matcher_type.as_ref().unwrap() {
        MatcherType::MatcherTree(tree) => {
            let Some(matcher_tree::TreeType::ExactMatchMap(exact)) = &tree.tree_type else { panic!("{tree:?}") };
            exact.map.iter().map(|(name, on)| (name.clone(), chain(on))).collect::<Vec<_>>()
        }
        MatcherType::MatcherList(list) => {
            let suffix = |one: &matcher_v3::matcher::matcher_list::FieldMatcher| {
                let predicate = one.predicate.clone().unwrap().match_type.unwrap();
                let MatchType::SinglePredicate(single) = predicate else { panic!("{predicate:?}") };
                let Some(single_predicate::Matcher::ValueMatch(value)) = single.matcher else { panic!("no value") };
                let Some(matcher_v3::string_matcher::MatchPattern::Suffix(suffix)) = value.match_pattern else {
                    panic!("no suffix")
                };
                (suffix, chain(one.on_match.as_ref().unwrap()))
            };
            return list.matchers.iter().map(suffix).collect();
        }
    };
    found.sort();
    if let Some(on_match::OnMatch::Matcher(next)) = matcher.on_no_match.as_ref().and_then(|on| on.on_match.as_ref()) {
        found.extend(choices(next));
    }
    found
}

fn chain_names(listener: &listener_v3::Listener) -> Vec<&str> {
    listener.filter_chains.iter().map(|chain| chain.name.as_str()).collect()
}

#[test]
fn server_names_select_chains_and_other_names_the_default_chain() {
    let hosts = [
        Host::Exact("shop.example.com".into()),
        Host::Exact("www.example.com".into()),
        Host::Wildcard("example.com".into()),
        Host::Wildcard("deep.example.com".into()),
        Host::Any,
    ];
    let listener = https(&at(&model(&hosts)), &Settings::default());
    assert_eq!(chain_names(&listener), ["https/shop/cert", "https/*.deep.example.com", "https/*.example.com"]);
    assert!(listener.filter_chains.iter().all(|chain| chain.filter_chain_match.is_none()));
    let expected = [
        ("shop.example.com", "https/shop/cert"),
        ("www.example.com", "https/shop/cert"),
        (".deep.example.com", "https/*.deep.example.com"),
        (".example.com", "https/*.example.com"),
    ];
    let expected = expected.map(|(name, chain)| (name.to_owned(), chain.to_owned()));
    assert_eq!(choices(listener.filter_chain_matcher.as_ref().unwrap()), expected);
    assert_eq!(listener.default_filter_chain.unwrap().name, "https/*");
    let wildcards = https(&at(&model(&hosts[2..4])), &Settings::default());
    assert_eq!(choices(&wildcards.filter_chain_matcher.unwrap()), expected[2..]);
    assert!(wildcards.default_filter_chain.is_none());
    let rest = https(&at(&model(&hosts[4..])), &Settings::default());
    assert!(rest.filter_chain_matcher.is_none() && rest.filter_chains.is_empty());
}

#[test]
fn a_new_host_does_not_change_the_chains() {
    let mut hosts = model(&[Host::Exact("a.test".into()), Host::Wildcard("test".into())]);
    let before = https(&at(&hosts), &Settings::default());
    hosts.https_mut().insert(Host::Exact("b.test".into()), tls_host(TlsVersion::V1_2));
    let joined = https(&at(&hosts), &Settings::default());
    assert_eq!(joined.filter_chains, before.filter_chains);
    assert_ne!(joined.filter_chain_matcher, before.filter_chain_matcher);
    let without = |listener| listener_v3::Listener { filter_chain_matcher: None, ..listener };
    assert_eq!(without(joined), without(before));
    // Other TLS versions have another chain.
    hosts.https_mut().insert(Host::Exact("b.test".into()), tls_host(TlsVersion::V1_3));
    let apart = https(&at(&hosts), &Settings::default());
    assert_eq!(chain_names(&apart), ["https/shop/cert", "https/shop/cert/1.3", "https/*.test"]);
}

#[test]
fn a_host_without_tls_1_3_is_not_served_over_quic() {
    let mut settings = Settings::default();
    settings.http.http3.enabled = true;
    let mut hosts = model(&[Host::Exact("a.test".into()), Host::Exact("b.test".into())]);
    hosts.https_mut().get_mut(&Host::Exact("b.test".into())).unwrap().maximum = TlsVersion::V1_2;
    hosts.tls_mut(ListenerId::HTTPS).unwrap().http3 = Some(ListenerId::new(ListenerId::HTTP3));
    let (_, listener) = http3(&at(&hosts), RouteFilters::default(), &settings).unwrap();
    assert_eq!(chain_names(&listener), ["https/shop/cert"]);
    assert_eq!(choices(&listener.filter_chain_matcher.unwrap()).len(), 1);
    assert_eq!(chain_names(&https(&at(&hosts), &settings)).len(), 2);
}

#[test]
fn a_chain_gets_its_key_pair_by_sds_and_speaks_http2() {
    let listener = https(&at(&model(&[Host::Any])), &Settings::default());
    let context = context(&listener.default_filter_chain.unwrap());
    assert_eq!(context.tls_certificate_sds_secret_configs[0].name, "shop/cert");
    assert_eq!(context.alpn_protocols, ["h2", "http/1.1"]);
    assert_eq!(context.tls_params.unwrap().cipher_suites.len(), 4);
}

#[test]
fn several_key_pairs_are_one_chain_in_their_order() {
    let mut hosts = model(&[Host::Exact("a.test".into()), Host::Exact("b.test".into()), Host::Wildcard("test".into())]);
    let secrets = [pair_id("rsa"), pair_id("cert")];
    let of_a = hosts.https_mut().get_mut(&Host::Exact("a.test".into())).unwrap();
    of_a.secrets = secrets.to_vec();
    let listener = https(&at(&hosts), &Settings::default());
    assert_eq!(chain_names(&listener), ["https/shop/cert", "https/shop/rsa,shop/cert", "https/*.test"]);
    let pairs = context(&listener.filter_chains[1]).tls_certificate_sds_secret_configs;
    assert!(pairs.into_iter().map(|pair| pair.name).eq(secrets.map(|secret| secret.to_string())));
}

#[test]
fn ciphers_of_tls_1_2_are_omitted_if_it_is_not_offered() {
    let mut hosts = model(&[Host::Exact("a.test".into())]);
    hosts.https_mut().values_mut().for_each(|host| host.minimum = TlsVersion::V1_3);
    let listener = https(&at(&hosts), &Settings::default());
    assert!(context(&listener.filter_chains[0]).tls_params.unwrap().cipher_suites.is_empty());
}
