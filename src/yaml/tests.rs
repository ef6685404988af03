#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn documents(text: &str) -> Vec<Document> {
    super::documents(text).collect()
}

fn one(text: &str) -> Value {
    let mut all = documents(text);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0).value().unwrap()
}

fn fault(text: &str) -> String {
    documents(text).into_iter().find_map(|document| document.root.err()).unwrap().to_string()
}

#[test]
fn plain_scalars_mean_what_kubectl_takes_them_for() {
    let read =
        one("{a: yes, b: Off, c: 0644, d: 0x1F, e: 1_000, f: 1.5e3, g: ~, h: 1.2.3.4, i: 2001-01-01, j: -x, k: 0o17,
        l: 'yes', m: \"12\", v: !!str 12, o: -5, p: 18446744073709551615, q: 1:30, r: true1, s: 089, t: +7, u: 5m}");
    assert_eq!(
        read,
        json!({
            "a": true, "b": false, "c": 420, "d": 31, "e": 1000, "f": 1500.0, "g": null, "h": "1.2.3.4",
            "i": "2001-01-01", "j": "-x", "k": 15, "l": "yes", "m": "12", "v": "12", "o": -5,
            "p": 18446744073709551615u64, "q": "1:30", "r": "true1", "s": 89.0, "t": 7, "u": "5m",
        })
    );
}

#[test]
fn keys_are_text_whatever_they_look_like() {
    // `no` is a boolean, as for kubectl.
    assert_eq!(one("{no: 1, 8080: 2, 'x y': 3}"), json!({"false": 1, "8080": 2, "x y": 3}));
}

#[test]
fn block_scalars_keep_or_fold_their_lines() {
    assert_eq!(one("a: |\n  x\n  y\nb: >-\n  x\n  y\n"), json!({"a": "x\ny\n", "b": "x y"}));
}

#[test]
fn json_is_read_as_it_stands() {
    let text = "{\n\t\"a\": [1, -2.5e-3, \"\\u00e9\\/\\ud83d\\ude00\\t\", null, true],\n\t\"b\": {\"c\": {}}\n}\n";
    assert_eq!(one(text), serde_json::from_str::<Value>(text).unwrap());
}

#[test]
fn long_texts_are_fine_everywhere() {
    let long = "QUJD".repeat(5000);
    let wanted = json!({"data": {"tls.crt": long, "tls.key": long}, "list": [long]});
    assert_eq!(one(&wanted.to_string()), wanted);
    assert_eq!(one(&format!("data:\n  tls.crt: {long}\n  tls.key: \"{long}\"\nlist:\n- '{long}'\n")), wanted);
    let lines = "QUJD\n    ".repeat(5000);
    let folded = one(&format!("data:\n  tls.crt: |\n    {lines}\n"));
    assert_eq!(folded["data"]["tls.crt"].as_str().unwrap().lines().count(), 5000);
}

#[test]
fn documents_are_counted_and_empty_ones_left_out() {
    let read = documents("# head\n---\na: 1\n---\n# nothing\n---\nb: 2\n...\n---\nc: 3\n");
    let places: Vec<_> = read.iter().map(|document| (document.index, document.line)).collect();
    assert_eq!(places, [(1, 3), (3, 7), (4, 10)]);
    assert!(documents("").is_empty());
    assert!(documents("---\n---\n").is_empty());
    assert_eq!(documents("\u{feff}a: 1\r\nb: 2\r\n")[0].value(), Ok(json!({"a": 1, "b": 2})));
}

#[test]
fn a_broken_document_costs_itself_only() {
    let read = documents("a: 1\n---\nb: [1\n---\nc: 3\n---\nd: 'x\n---\ne: 5\n");
    let good: Vec<_> = read.iter().filter_map(|document| document.value().ok()).collect();
    assert_eq!(good, [json!({"a": 1}), json!({"c": 3}), json!({"e": 5})]);
    let bad: Vec<_> = read.iter().filter(|document| document.root.is_err()).map(|document| document.index).collect();
    assert_eq!(bad, [2, 4]);
}

#[test]
fn a_key_given_twice_is_refused_with_both_lines() {
    let text = "spec:\n  rules:\n  - host: a\n    host: b\n---\nb: 1\n";
    assert_eq!(fault(text), "document 1, line 4: spec.rules[0].host: the key is already given in line 3");
    let read = documents(text);
    assert_eq!(read[0].lenient.as_ref().map(Node::to_json), Some(json!({"spec": {"rules": [{"host": "b"}]}})));
    assert_eq!(read[1].value(), Ok(json!({"b": 1})));
    assert_eq!(read.len(), 2);
    // A document with another fault has no such content.
    let read = documents("a: 1\na: 2\nb: [\n---\nc: 3\n");
    assert_eq!(read[0].root.as_ref().unwrap_err().message, "the key is already given in line 1");
    assert_eq!((&read[0].lenient, read[1].value()), (&None, Ok(json!({"c": 3}))));
}

#[test]
fn anchors_aliases_and_merge_keys_work() {
    let text = "base: &base {a: 1, b: 2}\none:\n  <<: *base\n  b: 3\ntwo: {<<: [{a: 5}, *base], c: 6}\nthree: *base\n";
    assert_eq!(
        one(text),
        json!({
            "base": {"a": 1, "b": 2}, "one": {"a": 1, "b": 3}, "two": {"a": 5, "b": 2, "c": 6},
            "three": {"a": 1, "b": 2},
        })
    );
    assert_eq!(fault("a: 1\nb: *no\n"), "document 1, line 2: b: while parsing node, found unknown anchor");
    assert_eq!(fault("a: &a\n  b: *a\n"), "document 1, line 2: a.b: the alias is inside the value that it refers to");
    assert_eq!(fault("<<: 1\n"), "document 1, line 1: a merge key takes an object or a list of objects");
}

#[test]
fn the_expansion_of_aliases_is_bounded() {
    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    let mut deep = "a0: &a0 [x]\n".to_owned();
    for n in 1..300 {
        let last = n - 1;
        laughs += &format!("a{n}: &a{n} [*a{last}, *a{last}, *a{last}, *a{last}, *a{last}, *a{last}, *a{last}]\n");
        deep += &format!("a{n}: &a{n} [*a{last}]\n");
    }
    assert!(fault(&laughs).contains("aliases make the file too large"), "{}", fault(&laughs));
    assert!(fault(&deep).contains("nested deeper"), "{}", fault(&deep));
    assert!(fault(&("- ".repeat(200) + "x")).contains("nested deeper"));
    assert!(documents(&"[".repeat(100_000))[0].root.is_err());
    assert!(documents(&"- ".repeat(100_000))[0].root.is_err());
}

#[test]
fn the_expansion_of_aliases_is_bounded_for_the_file() {
    // Each of them alone is within the limit.
    let mut bomb = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for n in 1..5 {
        let last = n - 1;
        bomb += &format!("a{n}: &a{n} [*a{last}, *a{last}, *a{last}, *a{last}, *a{last}, *a{last}, *a{last}]\n");
    }
    assert!(documents(&bomb)[0].root.is_ok());
    let all = documents(&format!("{bomb}---\n").repeat(200));
    let good = all.iter().filter(|document| document.root.is_ok()).count();
    assert!((1..20).contains(&good), "{good} of {} documents", all.len());
    let refused = all.iter().filter_map(|document| document.root.as_ref().err()).next_back().unwrap();
    assert!(refused.message.contains("aliases make the file too large"), "{refused}");
}

#[test]
fn a_field_is_found_by_its_path() {
    let text = "\
name: x
virtual_hosts:
- name: a
  routes:
  - match:
      prefix: /
  - match:
      path: /b
options:
  a.b/c:
    x: 1
typedPerFilterConfig:
  envoy.filters.http.lua: 5
";
    let document = &documents(text)[0];
    let line = |field| document.line_of(field);
    assert_eq!(line(""), 1);
    assert_eq!(line("name"), 1);
    assert_eq!(line("virtual_hosts"), 2);
    assert_eq!(line("virtual_hosts[0]"), 3);
    assert_eq!(line("virtual_hosts[0].routes[1].match.path"), 8);
    assert_eq!(line("virtualHosts[0].routes[1].match.path"), 8);
    assert_eq!(line("typed_per_filter_config[\"envoy.filters.http.lua\"]"), 13);
    assert_eq!(line("options.a.b/c.x"), 11);
    // A missing field has the line of its parent.
    assert_eq!(line("virtual_hosts[0].routes[1].match.nothing"), 7);
    assert_eq!(line("virtual_hosts[7].x"), 2);
    assert_eq!(line("nothing"), 1);
    assert_eq!(
        document.fault("virtual_hosts[0].routes[1].match.path", "wrong").to_string(),
        "document 1, line 8: virtual_hosts[0].routes[1].match.path: wrong"
    );
}

#[test]
fn scalars_of_settings_stay_text_with_their_places() {
    let root = settings("a: 1.20\nb: [off, 'null', ~]\nc: &c {x: 0644}\nd:\n  - *c\n").unwrap();
    let wanted = json!({"a": "1.20", "b": ["off", "null", null], "c": {"x": "0644"}, "d": [{"x": "0644"}]});
    assert_eq!(root.to_json(), wanted);
    let NodeContent::Object(fields) = &root.content else { panic!("{root:?}") };
    let places: Vec<_> = fields.iter().map(|field| (field.place.line, field.value.place.column)).collect();
    assert_eq!(places, [(1, 4), (2, 4), (3, 7), (4, 3)]);
    assert_eq!(settings("# nothing").unwrap(), Node::default());
    let message = |text: &str| settings(text).unwrap_err().to_string();
    assert_eq!(
        message("a: 1\n---\nb: 1\n"),
        "document 2, line 3: a second document begins, and settings have only one"
    );
    assert_eq!(message("a: {b: 1, b: 2}\n"), "document 1, line 1: a.b: the key is already given in line 1");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[-a-c0-9:{}\\[\\]&*!|>'\"#%,?<. \n\t\u{feff}]{0,80}") {
        for document in documents(&text) {
            document.line_of("a[0].b[\"c\"]");
            document.line_of(&text);
        }
    }

    #[test]
    fn json_text_is_read_as_by_a_json_parser(a in any::<i64>(), b in any::<f64>(), c in "\\PC*", d in "\\PC*") {
        prop_assume!(b.is_finite());
        let value = json!({"a": a, "b": [b, {"c": c}], d: null});
        prop_assert_eq!(one(&value.to_string()), value.clone());
        prop_assert_eq!(one(&serde_json::to_string_pretty(&value).unwrap()), value);
    }
}
