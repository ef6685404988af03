//! Fuzz target `annotations`: any keys and values are translated and built into well-formed resources.

use fuzzing::Random;
use lockgate_xds::protobuf;
use lockgate_xds::snapshot::ResourceType;
use prost_reflect::DynamicMessage;

use crate::envoy;
use crate::objects::Object;
use crate::settings::Settings;
use crate::testing::objects::*;
use crate::translate::problem::MOST;
use crate::translate::translate;

/// The supported keys of Ingresses and Services, and some unsupported keys.
const KEYS: [&str; 35] = [
    "ingress.kubernetes.io/force-ssl-redirect",
    "kubernetes.io/ingress.allow-http",
    "kubernetes.io/ingress.class",
    "lockgate.dev/connect-timeout",
    "lockgate.dev/delegate-to",
    "lockgate.dev/nothing",
    "projectcontour.io/ingress.class",
    "projectcontour.io/max-connections",
    "projectcontour.io/max-pending-requests",
    "projectcontour.io/max-requests",
    "projectcontour.io/max-retries",
    "projectcontour.io/num-retries",
    "projectcontour.io/per-host-max-connections",
    "projectcontour.io/per-try-timeout",
    "projectcontour.io/request-timeout",
    "projectcontour.io/response-timeout",
    "projectcontour.io/retry-on",
    "projectcontour.io/tls-cert-namespace",
    "projectcontour.io/tls-maximum-protocol-version",
    "projectcontour.io/tls-minimum-protocol-version",
    "projectcontour.io/upstream-protocol.h2",
    "projectcontour.io/upstream-protocol.h2c",
    "projectcontour.io/upstream-protocol.tls",
    "projectcontour.io/websocket-routes",
    "projectcontour.io/",
    "nginx.ingress.kubernetes.io/force-ssl-redirect",
    "nginx.ingress.kubernetes.io/rewrite-target",
    "nginx.ingress.kubernetes.io/ssl-redirect",
    "nginx.ingress.kubernetes.io/auth-url",
    "nginx.ingress.kubernetes.io/whitelist-source-range",
    "nginx.ingress.kubernetes.io/configuration-snippet",
    "alb.ingress.kubernetes.io/conditions.a",
    "konghq.com/plugins",
    "ingressclass.kubernetes.io/is-default-class",
    "",
];

/// Values that are valid or nearly valid for one of the keys.
const VALUES: [&str; 36] = [
    "",
    "true",
    "false",
    "True",
    "1.2",
    "1.3",
    "1.1",
    "5xx",
    "5xx,reset",
    "gateway-error, ,5xx",
    "-1",
    "0",
    "1",
    "10",
    "4294967295",
    "4294967296",
    "99999999999999999999",
    "-9223372036854775808",
    "1s",
    "1.5h",
    "1500ms",
    "0s",
    "-1s",
    "1h2m3s4ms5us6ns",
    "infinity",
    "infinite",
    "999999999h",
    "0.0000000001s",
    "1e9s",
    "80",
    "http",
    "http,443",
    "80,80,*",
    "ours",
    "shop",
    "\u{0}\n\u{7f}é\u{10ffff}",
];

fn text(random: &mut Random, known: &[&str]) -> String {
    match random.below(8) {
        0..=3 => (*random.choose(known)).to_owned(),
        4 => {
            let one = *random.choose(known);
            String::from_utf8_lossy(&random.mutate(one.as_bytes(), known)).into_owned()
        }
        5 => {
            let parts: Vec<&str> = (0..random.within(1..=6)).map(|_| *random.choose(known)).collect();
            parts.join(*random.choose(&[",", " ", ", ", "\"", "\\"]))
        }
        6 => (0..random.below(40)).filter_map(|_| char::from_u32(random.bits() as u32 % 0x500)).collect(),
        // Occasionally a long value.
        _ => random.choose(&["x", "9", "\"", "é", "1s", "5xx,", "\u{1}"]).repeat(if random.one_in(50) {
            20_000
        } else {
            200
        }),
    }
}

#[test]
fn fuzz_annotations() {
    let settings = Settings::default();
    fuzzing::run("annotations", 200, |random| {
        let mut list: Vec<Object> = super::fuzz::fixed(&[]);
        let protocol = *random.choose(&["", "https", "h2c", "x"]);
        let mut service = service("a").port("http", 80).app_protocol(protocol);
        for _ in 0..random.below(4) {
            service = service.annotation(&text(random, &KEYS), &text(random, &VALUES));
        }
        let mut ingress = ingress("i").host("x.com").path("Prefix", "/", "a:80").tls(&["x.com"], "good");
        for _ in 0..random.within(1..=5) {
            ingress = ingress.annotation(&text(random, &KEYS), &text(random, &VALUES));
        }
        list.extend([Object::from(service), ingress.into(), slice("s", "a").port("http", 80).ready("10.0.0.1").into()]);
        let translation = translate(&objects(&list), &settings);
        for problem in &translation.problems {
            for text in [&*problem.field, &*problem.message, &*problem.consequence] {
                assert!(text.chars().count() <= 1100, "{} characters", text.chars().count());
            }
        }
        assert!(translation.problems.len() <= 3 * (MOST + 1) * 4);
        let resources = envoy::build(&translation.model, &settings);
        // Listeners are expensive to check, and annotations affect them only by TLS versions.
        let all = random.one_in(100);
        let kinds = [ResourceType::CLUSTER, ResourceType::VIRTUAL_HOST];
        for resource in resources.iter().filter(|resource| all || kinds.contains(&resource.kind())) {
            let descriptor = protobuf::pool().get_message_by_name(resource.kind().full_name()).expect("a known type");
            let message = DynamicMessage::decode(descriptor, resource.message()).expect("a message that decodes");
            assert!(crate::testing::envoy::config_sources(&message).iter().all(|right| *right), "{resource:?}");
            // A directory of resources would accept it. Only the order of fields within an `Any` may differ.
            let name = resource.kind().full_name();
            let json = protobuf::to_json(name, &resource.message());
            let mut typed = json.clone();
            typed["@type"] = resource.kind().url().into();
            let read = protobuf::from_json(&typed).expect("JSON that is read again");
            assert_eq!(protobuf::to_json(name, &read.message), json, "{resource:?}");
        }
        match (translation.problems.is_empty(), translation.sources.is_empty()) {
            (_, true) => "of another class",
            (true, false) => "served",
            (false, false) => "served, with problems",
        }
    });
}
