#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use k8s_openapi::api::networking::v1 as networking;
use lockgate_route::objects::Misencoded;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::source::cluster::form::Form;

/// Reads a list whose bytes arrive in pieces of these lengths, with the rest in one piece.
fn read(text: &str, pieces: &[usize]) -> Result<(ListMeta, Vec<String>), Malformed> {
    let (mut reader, mut buffer, mut items) = (JsonListReader::default(), BytesMut::new(), Vec::new());
    let (mut rest, mut pieces) = (text.as_bytes(), pieces.iter().copied());
    loop {
        match reader.next(&mut buffer, rest.is_empty())? {
            Next::Item(item) => items.push(String::from_utf8(item.to_vec()).unwrap()),
            Next::End(meta) => return Ok((meta, items)),
            Next::More => {
                let (piece, after) = rest.split_at(pieces.next().unwrap_or(rest.len()).clamp(1, rest.len()));
                buffer.extend_from_slice(piece);
                rest = after;
            }
            Next::TooLarge(_) => panic!("nothing is too large"),
        }
    }
}

#[test]
fn items_and_metadata_are_found_wherever_they_stand() {
    let list = r#" {"kind":"XList", "items" : [ {"a":"]}\\\" [{"} , {"b":[{}, 1]},null ,"x" ],
        "metadata":{"resourceVersion":"7","continue":"more"}, "n": -1.5e3 ,"t":true} "#;
    let (meta, items) = read(list, &[]).unwrap();
    assert_eq!((&*meta.version, &*meta.rest), ("7", "more"));
    assert_eq!(items, [r#"{"a":"]}\\\" [{"}"#, r#"{"b":[{}, 1]}"#, "null", r#""x""#]);
    assert_eq!(read(r#"{"items":null}"#, &[]).unwrap(), (ListMeta::default(), vec![]));
    assert_eq!(read("{}", &[]).unwrap(), (ListMeta::default(), vec![]));
}

#[test]
fn a_list_that_is_cut_off_or_no_list_is_malformed() {
    let list = r#"{"metadata":{"resourceVersion":"7"},"items":[{"a":1}]}"#;
    for end in 0..list.len() {
        assert_eq!(read(&list[..end], &[]), Err(Malformed::Truncated), "{}", &list[..end]);
    }
    for text in ["[]", "x", r#"{"items" 1}"#, r#"{"items":]}"#] {
        assert_eq!(read(text, &[]), Err(Malformed::NotJson), "{text}");
    }
    assert!(matches!(read(r#"{"metadata":"x"}"#, &[]), Err(Malformed::List(_))));
}

/// An item that is nested too deeply for any decoder is a fault of its own, and its neighbor is decoded.
#[test]
fn a_deep_item_costs_only_itself() {
    let deep = format!(r#"{{"metadata":{{"name":"deep"}},"spec":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let good = r#"{"metadata":{"name":"good"},"spec":{}}"#;
    let (_, items) = read(&format!(r#"{{"items":[{deep},{good}]}}"#), &[1, 7, 4096]).unwrap();
    let form = Form::custom::<networking::Ingress>();
    let [deep, good] = [0, 1].map(|at: usize| (form.json)(&items[at]).object.unwrap());
    assert!(deep.get::<Misencoded>().is_some() && good.get::<Misencoded>().is_none(), "{deep:?}");
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), any::<i64>().prop_map(Value::from)];
    let leaf = prop_oneof![leaf, "[a\"\\\\\\[\\]{}, \n]{0,12}".prop_map(Value::from)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c\"]{0,3}", inner, 0..4).prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn any_list_in_any_pieces_gives_its_items(
        items in prop::collection::vec(any_value(), 0..5),
        pieces in prop::collection::vec(1usize..9, 0..200),
        pretty in any::<bool>(),
    ) {
        let list = json!({"kind": "XList", "metadata": {"resourceVersion": "9"}, "items": items});
        let text = if pretty { serde_json::to_string_pretty(&list) } else { serde_json::to_string(&list) }.unwrap();
        let (meta, found) = read(&text, &pieces).unwrap();
        let found: Vec<Value> = found.iter().map(|item| serde_json::from_str(item).unwrap()).collect();
        prop_assert_eq!(found, items);
        prop_assert_eq!(meta.version, "9");
    }
}
