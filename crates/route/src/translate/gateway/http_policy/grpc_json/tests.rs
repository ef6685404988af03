//! Descriptor sets that are written again.

#![allow(clippy::expect_used)]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use prost_reflect::DescriptorPool;

use super::wire::{
    ENUM, EnumDescriptor, EnumValueDescriptor, FieldDescriptor, MESSAGE, MessageDescriptor, MessageOptions, STRING,
};
use super::*;

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn field(name: &str, number: i32, of: i32, type_name: Option<&str>) -> FieldDescriptor {
    FieldDescriptor {
        name: some(name),
        number: Some(number),
        label: Some(1),
        r#type: Some(of),
        type_name: type_name.map(str::to_owned),
        json_name: None,
    }
}

fn message(name: &str, field: Vec<FieldDescriptor>) -> MessageDescriptor {
    MessageDescriptor { name: some(name), field, ..MessageDescriptor::default() }
}

fn method(name: &str, of: &str, http: Option<HttpRule>) -> MethodDescriptor {
    let of = some(of);
    MethodDescriptor {
        name: some(name),
        input_type: of.clone(),
        output_type: of,
        options: http.map(|http| MethodOptions { http: Some(http) }),
        ..MethodDescriptor::default()
    }
}

fn get(path: &str) -> HttpRule {
    HttpRule { get: some(path), ..HttpRule::default() }
}

/// Returns a set with the package `p`.
fn set(
    message_type: Vec<MessageDescriptor>,
    enums: Vec<EnumDescriptor>,
    method: Vec<MethodDescriptor>,
) -> DescriptorSet {
    let file = FileDescriptor {
        name: some("p.proto"),
        package: some("p"),
        message_type,
        enum_type: enums,
        service: vec![ServiceDescriptor { name: some("S"), method }],
        ..FileDescriptor::default()
    };
    DescriptorSet { file: vec![file] }
}

/// Returns the result, and the parts that are left out.
fn parsed(set: &DescriptorSet) -> (Result<Arc<GrpcJson>, FieldFault>, Vec<FieldFault>) {
    let descriptors = BASE64_STANDARD.encode(set.encode_to_vec());
    let mut left_out = Vec::new();
    let spec = GrpcJsonSpec { descriptors, services: vec!["p.S".to_owned()] };
    (parse(&spec, 1024, &mut left_out), left_out)
}

/// Returns why the only method cannot be called. `None`: it can.
fn fault_of(messages: Vec<MessageDescriptor>, enums: Vec<EnumDescriptor>, http: Option<HttpRule>) -> Option<String> {
    let (result, left_out) = parsed(&set(messages, enums, vec![method("Get", ".p.M", http)]));
    assert!(left_out.is_empty(), "{left_out:?}");
    result.err().map(|fault| {
        assert_eq!(fault.field, ".services");
        fault.message
    })
}

#[test]
fn methods_that_envoy_cannot_convert_are_named() {
    let one = |field| vec![message("M", vec![field])];
    let of = |name| one(field("a", 1, MESSAGE, Some(name)));
    let map = MessageDescriptor {
        options: Some(MessageOptions { map_entry: Some(true) }),
        ..message("Entry", vec![field("key", 1, STRING, None), field("value", 2, STRING, None)])
    };
    let mut nested = of(".p.M.Entry");
    nested[0].nested_type.push(map);
    let circle = vec![
        message("M", vec![field("a", 1, MESSAGE, Some(".p.N"))]),
        message("N", vec![field("b", 1, MESSAGE, Some(".p.M"))]),
    ];
    let deep =
        (0..40).map(|i| message(&format!("D{i}"), vec![field("a", 1, MESSAGE, Some(&format!(".p.D{}", i + 1)))]));
    let deep = of(".p.D0").into_iter().chain(deep).chain([message("D40", Vec::new())]).collect();
    for (messages, expected) in [
        (nested, "is a map"),
        (of(".google.protobuf.Struct"), "contains a google.protobuf.Struct"),
        (of(".google.protobuf.Any"), "contains a google.protobuf.Any"),
        (circle, "contains itself"),
        (of(".p.M"), "contains itself"),
        (deep, "more than 32 messages"),
        (of(".p.Absent"), "which the descriptors lack"),
        (
            vec![message("M", (1..=513).map(|i| field(&format!("f{i}"), i, STRING, None)).collect())],
            "more than 512 fields",
        ),
        (one(field("a", 1, 10, None)), "is a group"),
        (one(field("a", 1, 19, None)), "has a type that is not known"),
        (one(field("a", 1, ENUM, Some(".p.Absent"))), "has an enum that is not one of proto3"),
        (one(field("a", 0, STRING, None)), "has a number that is not valid"),
        (one(field("a", 19_500, STRING, None)), "has a number that is not valid"),
        (one(field("1a", 1, STRING, None)), "has a name that is not valid"),
        (one(field(&"a".repeat(65), 1, STRING, None)), "has a name that is not valid"),
        (
            vec![message("M", vec![field("a", 1, STRING, None), field("a", 2, STRING, None)])],
            "has the name of another field",
        ),
        (
            vec![message("M", vec![field("a_b", 1, STRING, None), field("aB", 2, STRING, None)])],
            "has the name of another field",
        ),
        (
            vec![message("M", vec![field("a", 1, STRING, None), field("b", 1, STRING, None)])],
            "has a number that is not valid",
        ),
    ] {
        let fault = fault_of(messages, Vec::new(), None).expect(expected);
        assert!(fault.starts_with("method \"Get\" of \"p.S\" ") && fault.contains(expected), "{fault}");
    }
    assert_eq!(fault_of(of(".google.protobuf.Timestamp"), Vec::new(), None), None);
}

/// A message can name a type of a tenant for each of thousands of methods.
#[test]
fn messages_have_the_beginning_of_long_names() {
    let name = "N".repeat(1_000);
    let methods = (0..100).map(|i| method(&format!("Get{i}"), &format!(".p.{name}"), None)).collect();
    let messages = vec![message(&name, vec![field(&name, 1, STRING, None)])];
    let fault = parsed(&set(messages, Vec::new(), methods)).0.expect_err("a fault").message;
    assert!(fault.len() < 3_000 && fault.ends_with("; and 95 more"), "{} bytes", fault.len());
}

#[test]
fn descriptors_can_have_line_breaks() {
    let one = set(vec![message("M", Vec::new())], Vec::new(), vec![method("Get", ".p.M", None)]);
    let text = BASE64_STANDARD.encode(one.encode_to_vec());
    let (head, tail) = text.split_at(40);
    let spec = GrpcJsonSpec { descriptors: format!("{head}\n{tail}\n"), services: vec!["p.S".to_owned()] };
    assert!(parse(&spec, 1, &mut Vec::new()).is_ok());
}

#[test]
fn enums_are_those_of_proto3() {
    let value = |name: &str, number| EnumValueDescriptor { name: some(name), number: Some(number) };
    let values = |value| EnumDescriptor { name: some("E"), value };
    let messages = || vec![message("M", vec![field("a", 1, ENUM, Some(".p.E"))])];
    for (value, is_valid) in [
        (vec![value("A", 0), value("B", 1)], true),
        (vec![value("A", 0), value("B", 1), value("C", 1)], true),
        (vec![value("A", 1)], false),
        (vec![], false),
        (vec![value("A_B", 0), value("AB", 1)], false),
        (vec![value("A", 0), value("a", 1)], false),
        (vec![value("A", 0), value("Lockgate_Enum_A", 1)], false),
    ] {
        assert_eq!(fault_of(messages(), vec![values(value.clone())], None).is_none(), is_valid, "{value:?}");
    }
}

#[test]
fn paths_name_fields_with_a_single_value() {
    let messages = || {
        let repeated = FieldDescriptor { label: Some(3), ..field("many", 3, STRING, None) };
        let fields = vec![field("name", 1, STRING, None), field("n", 2, MESSAGE, Some(".p.N")), repeated];
        vec![message("M", fields), message("N", vec![field("id", 1, STRING, None)])]
    };
    let fault = |rule: HttpRule| fault_of(messages(), Vec::new(), Some(rule));
    for path in ["/v1/{name}", "/v1/{n.id}/x", "/v1/{name=a/*}:read", "/v1"] {
        assert_eq!(fault(get(path)), None, "{path}");
    }
    for path in ["/v1/{n}", "/v1/{many}", "/v1/{other}", "/v1/{n.other}", "/v1/{name.id}", "/v1/{name.}", "/v1/{}"] {
        assert!(fault(get(path)).expect(path).contains("no field with a single value"), "{path}");
    }
    let body = |body: &str| HttpRule { body: some(body), ..get("/v1") };
    assert_eq!([fault(body("*")), fault(body("n")), fault(body("many"))], [None, None, None]);
    assert!(fault(body("other")).expect("a fault").contains("has a body \"other\", which is no field"));
    assert!(
        fault(HttpRule { response_body: some("n"), ..get("/v1") }).expect("a fault").contains("has a response_body")
    );
    assert!(fault(HttpRule { post: some("/v1"), ..get("/v1") }).expect("a fault").contains("has a method of HTTP"));
    let twice = HttpRule { additional_bindings: vec![get("/{n.id}")], ..get("/{name}") };
    assert!(fault(twice).expect("a fault").contains("has the path \"GET /*\" twice"));
}

#[test]
fn two_methods_have_no_common_path() {
    let methods = vec![
        method("A", ".p.M", Some(get("/v1/x"))),
        method("B", ".p.M", Some(get("/v1/x"))),
        method("A", ".p.M", Some(get("/v1/y"))),
    ];
    let (result, left_out) = parsed(&set(vec![message("M", Vec::new())], Vec::new(), methods));
    assert!(result.is_ok());
    let expected = "method \"B\" of \"p.S\" has the path \"GET /v1/x\" of another method; method \"A\" of \"p.S\" has the name of \
                    another method";
    assert_eq!(left_out, [FieldFault::new(".services[0]", expected)]);
}

#[test]
fn names_of_services_are_not_those_of_packages() {
    let file = |package: &str, name: &str| FileDescriptor {
        package: some(package),
        message_type: vec![message("M", Vec::new())],
        service: vec![ServiceDescriptor {
            name: some(name),
            method: vec![method("Get", &format!(".{package}.M"), None)],
        }],
        ..FileDescriptor::default()
    };
    let result = |files: &[(&str, &str)]| {
        let set = DescriptorSet { file: files.iter().map(|(package, name)| file(package, name)).collect() };
        let services = files.iter().map(|(package, name)| format!("{package}.{name}")).collect();
        let spec = GrpcJsonSpec { descriptors: BASE64_STANDARD.encode(set.encode_to_vec()), services };
        parse(&spec, 1024, &mut Vec::new()).map(|json| json.services.len())
    };
    assert_eq!(result(&[("a", "S"), ("a.b", "S"), ("a", "T")]), Ok(3));
    for files in [
        &[("a", "b"), ("a.b", "S")][..],
        &[("google.protobuf", "S")],
        &[("lockgate_json", "T0")],
        &[("google.api", "HttpBody")],
        &[("a", "1")],
    ] {
        assert!(result(files).is_err_and(|fault| fault.field.starts_with(".services[")), "{files:?}");
    }
    assert!(result(&[("google.shop", "S")]).is_ok());
}

fn any_name() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "a_b", "aB", "name", "id", "T0", "", "1", "LockgateEnum"]).prop_map(str::to_owned)
}

fn any_type() -> impl Strategy<Value = Option<String>> {
    let names = vec![".p.A", ".p.B", ".p.M", ".p.E", ".google.protobuf.Timestamp", ".google.protobuf.Any", ".x"];
    proptest::option::of(select(names).prop_map(str::to_owned))
}

fn any_field() -> impl Strategy<Value = FieldDescriptor> {
    let number = prop_oneof![8 => 1..9, 1 => any::<i32>()];
    (any_name(), number, 0..5, 0..20, any_type(), proptest::option::of(any_name())).prop_map(
        |(name, number, label, of, type_name, json_name)| FieldDescriptor {
            name: Some(name),
            number: Some(number),
            label: Some(label),
            r#type: Some(of),
            type_name,
            json_name,
        },
    )
}

fn any_enum() -> impl Strategy<Value = EnumDescriptor> {
    let value =
        (any_name(), 0..3).prop_map(|(name, number)| EnumValueDescriptor { name: Some(name), number: Some(number) });
    vec(value, 1..4).prop_map(|value| EnumDescriptor { name: some("E"), value })
}

fn any_rule() -> impl Strategy<Value = Option<HttpRule>> {
    let paths = vec!["/v1", "/v1/{a}", "/{a=**}", "/{b.a}:x", "/v1/{a", "/x/*", "/"];
    proptest::option::of(
        (select(paths), any_name()).prop_map(|(path, body)| HttpRule { body: Some(body), ..get(path) }),
    )
}

proptest! {
    #[test]
    fn sets_that_are_written_are_valid(
        fields in vec(vec(any_field(), 0..4), 3),
        values in any_enum(),
        rules in vec(any_rule(), 1..4),
    ) {
        let messages = ["A", "B", "M"].into_iter().zip(fields).map(|(name, fields)| message(name, fields)).collect();
        let methods = rules.into_iter().enumerate();
        let methods = methods.map(|(i, rule)| method(&format!("Get{i}"), ".p.M", rule)).collect();
        if let (Ok(json), _) = parsed(&set(messages, vec![values], methods)) {
            let pool = DescriptorPool::decode(json.descriptors.clone());
            prop_assert!(pool.is_ok(), "{:?}", pool);
            let methods = pool.map(|pool| pool.services().map(|service| service.methods().len()).sum::<usize>());
            prop_assert!(methods.is_ok_and(|number| number > 0));
            // `lockgate migrate` copies these descriptors into another policy.
            let spec = GrpcJsonSpec { descriptors: BASE64_STANDARD.encode(&json.descriptors), services: vec!["p.S".to_owned()] };
            prop_assert_eq!(parse(&spec, 1024, &mut Vec::new()), Ok(json));
        }
    }

    #[test]
    fn bytes_of_tenants_are_no_panic(bytes in vec(any::<u8>(), 0..200)) {
        let spec = GrpcJsonSpec { descriptors: BASE64_STANDARD.encode(bytes), services: vec!["p.S".to_owned()] };
        prop_assert!(parse(&spec, 1, &mut Vec::new()).is_err());
    }
}
