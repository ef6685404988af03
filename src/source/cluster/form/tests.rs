//! Responses of a real API server (1.35) in both formats.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use lockgate_route::objects::{Service, Transport};
use prost::bytes::BytesMut;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::custom::reduced::reduce;
use super::super::read::{ListMeta, ListReader, Next};
use super::*;

macro_rules! answer {
    ($name:literal) => {
        ($name, include_bytes!(concat!("tests/", $name, ".pb")), include_bytes!(concat!("tests/", $name, ".json")))
    };
}

type Answer = (&'static str, &'static [u8], &'static [u8]);

/// Decodes an object in JSON.
type Reduce = fn(&str) -> ReceivedObject;

/// Decodes the metadata of a Namespace.
fn reduce_namespace(text: &str) -> ReceivedObject {
    reduce::<core::Namespace>(&text.replace("PartialObjectMetadata", "Namespace").replace("meta.k8s.io/v1", "v1"))
}

fn answers() -> Vec<(Answer, WireFormat, Reduce)> {
    fn with<const A: usize, const B: usize>(
        (name, proto, json): (&'static str, &'static [u8; A], &'static [u8; B]),
        form: WireFormat,
        reduce: Reduce,
    ) -> (Answer, WireFormat, Reduce) {
        ((name, proto, json), form, reduce)
    }
    fn whole<K: Wire, const A: usize, const B: usize>(
        answer: (&'static str, &'static [u8; A], &'static [u8; B]),
    ) -> (Answer, WireFormat, Reduce) {
        with(answer, WireFormat::whole::<K>(), reduce::<K>)
    }
    vec![
        whole::<networking::Ingress, _, _>(answer!("ingresses")),
        whole::<networking::IngressClass, _, _>(answer!("ingress_classes")),
        whole::<core::Service, _, _>(answer!("services")),
        whole::<core::Service, _, _>(answer!("gateway_services")),
        whole::<discovery::EndpointSlice, _, _>(answer!("endpoint_slices")),
        whole::<core::Secret, _, _>(answer!("secrets")),
        with(answer!("namespaces"), WireFormat::namespaces(), reduce_namespace),
    ]
}

fn protobuf(bytes: &[u8], form: &WireFormat) -> (ListMeta, Vec<ReceivedObject>) {
    let (mut reader, mut buffer, mut items) = (ListReader::default(), BytesMut::from(bytes), Vec::new());
    loop {
        match reader.next(&mut buffer, true).unwrap() {
            Next::Item(item) => items.push((form.decode)(item)),
            Next::End(meta) => return (meta, items),
            Next::More | Next::TooLarge(_) => panic!("the list is cut off"),
        }
    }
}

fn json_list(bytes: &[u8], reduce: Reduce) -> (ListMeta, Vec<ReceivedObject>) {
    #[derive(Deserialize)]
    struct List<'a> {
        metadata: meta::ListMeta,
        #[serde(borrow)]
        items: Vec<&'a RawValue>,
    }
    let List { metadata, items } = serde_json::from_slice(bytes).unwrap();
    let version = metadata.resource_version.unwrap_or_default();
    let meta = ListMeta { version, rest: metadata.continue_.unwrap_or_default() };
    (meta, items.into_iter().map(|item| reduce(item.get())).collect())
}

#[test]
fn protobuf_and_json_give_the_same_objects() {
    for ((name, proto, json), form, reduce) in answers() {
        let (meta, items) = protobuf(proto, &form);
        let (expected_meta, expected) = json_list(json, reduce);
        assert_eq!((&meta, &items), (&expected_meta, &expected), "{name}");
        assert!(!items.is_empty() && !meta.version.is_empty(), "{name}");
        assert!(items.iter().all(|item| !item.version.is_empty()), "{name}");
    }
}

#[test]
fn fields_that_nothing_reads_are_dropped() {
    let text =
        |items: &[ReceivedObject]| format!("{:?}", items.iter().filter_map(|i| i.object.as_ref()).collect::<Vec<_>>());
    let mut kept = String::new();
    for ((name, proto, _), form, _) in answers() {
        let bytes = String::from_utf8_lossy(proto);
        assert!(name == "secrets" || bytes.contains("kubectl.kubernetes.io/last-applied-configuration"), "{name}");
        kept += &text(&protobuf(proto, &form).1);
    }
    for unread in
        ["unread", "last-applied", "f:spec", "Update", "forZones", "10.96.", "\"app\"", "clusterIP", "password"]
    {
        assert!(!kept.contains(unread), "\"{unread}\" in {kept}");
    }
    for read in [
        "num-retries",
        "is-default-class",
        "192.0.2.7",
        "\"lockgate\"",
        "z1",
        "node: \"a\"",
        "shop/cart-1",
        "Bucket",
        "h2c",
    ] {
        assert!(kept.contains(read), "no \"{read}\" in {kept}");
    }
    assert!(kept.contains("\"team\": \"a\""), "no label of a Namespace in {kept}");
}

#[test]
fn an_object_without_anything_is_decoded_too() {
    for ((name, ..), form, _) in answers() {
        let item = (form.decode)(Bytes::new());
        assert_eq!((&*item.key.name, item.version.as_str()), ("", ""), "{name}");
        let broken = (form.decode)(Bytes::from_static(b"\x0a\xff")).object;
        assert!(broken.is_some_and(|object| object.get::<Misencoded>().is_some()), "{name}");
    }
}

#[test]
fn the_service_of_a_gateway_has_its_target_ports_and_addresses() {
    let (_, items) = protobuf(include_bytes!("tests/gateway_services.pb"), &WireFormat::whole::<core::Service>());
    let services: Vec<&Service> = items.iter().map(|item| item.object.as_ref().unwrap().get().unwrap()).collect();
    let gateway = services[0].gateway.as_deref().unwrap();
    assert_eq!((&*gateway.name, gateway.version.to_string()), ("edge", items[0].version.clone()));
    let ports = [(Transport::Tcp, 80, 10080), (Transport::Tcp, 443, 10443), (Transport::Udp, 443, 10444)];
    assert_eq!(gateway.ports, ports, "without the port that has a name");
    let addresses: Vec<_> = gateway.addresses.iter().map(|at| (at.ip.as_deref(), at.hostname.as_deref())).collect();
    assert_eq!(addresses, [(Some("192.0.2.9"), None), (None, Some("lb.example.com"))]);
    assert_eq!(services[1].gateway, None, "of another manager");
}

#[test]
fn whether_an_object_is_being_deleted_is_read_in_both_forms() {
    let terminating = |item: ReceivedObject| item.object.map(|object| object.meta().terminating);
    let forms: [(WireFormat, Reduce); 2] = [
        (WireFormat::whole::<networking::Ingress>(), reduce::<networking::Ingress>),
        (WireFormat::namespaces(), reduce_namespace),
    ];
    for (form, reduce) in forms {
        let json = |deletion: &str| {
            let text = format!("{{\"metadata\":{{\"name\":\"old\"{deletion}}}}}");
            terminating(reduce(&text))
        };
        assert_eq!(json(",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\""), Some(true));
        assert_eq!((json(",\"deletionTimestamp\":null"), json("")), (Some(false), Some(false)));
        // Field 9 of the metadata: one second after the epoch, and a time beyond all calendars.
        let one = b"\x0a\x09\x0a\x03old\x4a\x02\x08\x01";
        let beyond = b"\x0a\x11\x0a\x03old\x4a\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
        let proto = |bytes: &'static [u8]| terminating((form.decode)(Bytes::from_static(bytes)));
        assert_eq!((proto(one), proto(beyond), proto(b"\x0a\x05\x0a\x03old")), (Some(true), Some(true), Some(false)));
    }
}
