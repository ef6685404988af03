//! Mutated lists and watch events of a real API server (1.35): no input stops the decoder, and no object affects
//! another.

#![allow(clippy::unwrap_used, clippy::panic)]

use fuzzing::{Random, run};
use k8s_openapi::api::{core::v1 as core, discovery::v1 as discovery, networking::v1 as networking};

use lockgate_route::objects::Misencoded;

use super::*;

/// The responses of an API server for one kind.
struct Recorded {
    form: WireFormat,
    /// A list and its items.
    list: &'static [u8],
    items: Vec<Bytes>,
    /// The events of a watch, each without its length.
    events: Vec<Bytes>,
}

macro_rules! recorded {
    ($name:literal, $form:expr) => {
        Recorded::new(
            include_bytes!(concat!("../form/tests/", $name, ".pb")),
            include_bytes!(concat!("../form/tests/", $name, ".watch")),
            $form,
        )
    };
}

impl Recorded {
    fn new(list: &'static [u8], watch: &'static [u8], form: WireFormat) -> Self {
        let items = items(list, list.len()).unwrap();
        let mut events = events(watch);
        // The error of an expired version.
        events.extend(self::events(include_bytes!("../form/tests/error.watch")));
        Self { form, list, items, events }
    }

    fn all() -> [Self; 6] {
        [
            recorded!("ingresses", WireFormat::whole::<networking::Ingress>()),
            recorded!("ingress_classes", WireFormat::whole::<networking::IngressClass>()),
            recorded!("services", WireFormat::whole::<core::Service>()),
            recorded!("endpoint_slices", WireFormat::whole::<discovery::EndpointSlice>()),
            recorded!("secrets", WireFormat::whole::<core::Secret>()),
            recorded!("namespaces", WireFormat::namespaces()),
        ]
    }
}

/// Returns the items of a list whose bytes arrive `step` at a time.
fn items(list: &[u8], step: usize) -> Result<Vec<Bytes>, Malformed> {
    let (mut reader, mut buffer, mut items) = (ListReader::default(), BytesMut::new(), Vec::new());
    let (mut chunks, mut ended) = (list.chunks(step), false);
    loop {
        match reader.next(&mut buffer, ended)? {
            Next::Item(item) | Next::TooLarge(item) => items.push(item),
            Next::End(_) => return Ok(items),
            Next::More => match chunks.next() {
                Some(chunk) => buffer.extend_from_slice(chunk),
                None => ended = true,
            },
        }
    }
}

/// Returns the events of a watch, each without its length.
fn events(mut watch: &'static [u8]) -> Vec<Bytes> {
    let mut events = Vec::new();
    while let Some((length, rest)) = watch.split_first_chunk() {
        let (event, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        events.push(Bytes::from_static(event));
        watch = rest;
    }
    events
}

/// Encodes a field with a length.
fn field(tag: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag << 3 | 2];
    prost::encoding::encode_varint(value.len() as u64, &mut bytes);
    bytes.extend(value);
    bytes
}

/// Encodes a list of these items.
fn list(items: &[Bytes]) -> Vec<u8> {
    let list = items.iter().flat_map(|item| field(2, item)).collect::<Vec<_>>();
    [b"k8s\0".to_vec(), field(2, &list)].concat()
}

/// Creates a watch of these events.
fn watching(events: &[Bytes]) -> Watching {
    let mut buffer = BytesMut::new();
    for event in events {
        buffer.extend_from_slice(&u32::try_from(event.len()).unwrap().to_be_bytes());
        buffer.extend_from_slice(event);
    }
    let body = ResponseBody { chunks: futures::stream::empty().boxed(), buffer, ended: true };
    Watching { body, since: Instant::now(), brought: false }
}

/// Classifies the result for an object.
fn outcome(item: &ReceivedObject, before: Option<&ReceivedObject>) -> &'static str {
    match item.object.as_ref().and_then(Object::get::<Misencoded>) {
        _ if item.key.name.is_empty() || item.version.is_empty() => "without name or version",
        Some(object) if object.readable.is_some() => "objects not UTF-8",
        Some(_) => "objects not decodable",
        _ if before == Some(item) => "objects as before",
        _ => "other objects",
    }
}

/// Classifies the result for an event.
fn outcome_of_event(event: &kube::Result<Option<Watched>>, before: &kube::Result<Option<Watched>>) -> &'static str {
    match (event, before) {
        (Ok(Some(Watched::Item(item, _))), Ok(Some(Watched::Item(before, _)))) => outcome(item, Some(before)),
        (Ok(Some(Watched::Item(item, _))), _) => outcome(item, None),
        (Ok(Some(Watched::Version(_))), _) => "bookmarks",
        (Ok(Some(Watched::Error(_))), _) => "errors",
        (Ok(_), _) => panic!("an event was swallowed"),
        (Err(_), _) => "events without a type",
    }
}

fn assert_same(now: &kube::Result<Option<Watched>>, before: &kube::Result<Option<Watched>>) {
    match (now, before) {
        (Ok(Some(Watched::Item(now, a))), Ok(Some(Watched::Item(before, b)))) => assert_eq!((now, a), (before, b)),
        (Ok(Some(Watched::Version(now))), Ok(Some(Watched::Version(before)))) => assert_eq!(now, before),
        (Ok(Some(Watched::Error(now))), Ok(Some(Watched::Error(before)))) => assert_eq!(now.code, before.code),
        _ => panic!("another kind of event"),
    }
}

#[test]
fn fuzz_decoder() {
    let all = Recorded::all();
    run("decoder", 2_000, |random| {
        let recorded = random.choose(&all);
        match random.below(4) {
            0 => anywhere(recorded, random),
            1 => one_item(recorded, random),
            _ => one_event(recorded, random),
        }
    });
}

/// Mutates a list or a watch anywhere, including its framing. It ends, and all its objects are decoded.
fn anywhere(recorded: &Recorded, random: &mut Random) -> &'static str {
    if random.one_in(2) {
        let mutated = random.mutate(recorded.list, &recorded.items);
        let Ok(items) = items(&mutated, random.within(1..=4096)) else { return "malformed lists" };
        items.into_iter().map(recorded.form.decode).for_each(drop);
        return "lists";
    }
    let mut watching = watching(&recorded.events);
    watching.body.buffer = BytesMut::from(&*random.mutate(&watching.body.buffer, &recorded.events));
    loop {
        let left = watching.body.buffer.len();
        match watching.event(&recorded.form) {
            Ok(None) => return "watches",
            // The watch starts again.
            Err(_) => return "malformed watches",
            Ok(Some(_)) => assert!(watching.body.buffer.len() < left),
        }
    }
}

/// Applies a few changes to `bytes`. Half of the time the length is preserved, and with it most of the structure.
fn mutated(bytes: &[u8], others: &[Bytes], random: &mut Random) -> Bytes {
    if bytes.is_empty() || random.one_in(2) {
        return random.mutate(bytes, others).into();
    }
    let mut bytes = bytes.to_vec();
    for _ in 0..random.within(1..=3) {
        let at = random.below(bytes.len());
        bytes[at] = if random.one_in(2) { 0xff } else { random.bits() as u8 };
    }
    bytes.into()
}

/// Mutates one item of a list: the others are unchanged.
fn one_item(recorded: &Recorded, random: &mut Random) -> &'static str {
    let (mut changed, at) = (recorded.items.clone(), random.below(recorded.items.len()));
    changed[at] = mutated(&changed[at], &recorded.items, random);
    let read = items(&list(&changed), random.within(1..=4096)).unwrap();
    assert_eq!(read.len(), changed.len());
    for (i, (now, before)) in read.iter().zip(&recorded.items).enumerate().filter(|(i, _)| *i != at) {
        assert_eq!((recorded.form.decode)(now.clone()), (recorded.form.decode)(before.clone()), "item {i}");
    }
    outcome(&(recorded.form.decode)(read[at].clone()), Some(&(recorded.form.decode)(recorded.items[at].clone())))
}

/// Mutates one event of a watch: the others are unchanged.
fn one_event(recorded: &Recorded, random: &mut Random) -> &'static str {
    let (mut changed, at) = (recorded.events.clone(), random.below(recorded.events.len()));
    changed[at] = mutated(&changed[at], &recorded.events, random);
    let (mut now, mut before) = (watching(&changed), watching(&recorded.events));
    let mut found = "";
    for i in 0..changed.len() {
        let (now, before) = (now.event(&recorded.form), before.event(&recorded.form));
        match i == at {
            true => found = outcome_of_event(&now, &before),
            false => assert_same(&now, &before),
        }
    }
    assert!(now.body.buffer.is_empty());
    found
}
