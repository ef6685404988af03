#![allow(clippy::unwrap_used)]

use super::*;
use crate::objects::Object;
use crate::testing::gateway::labeled_namespace as labeled;
use crate::testing::host_grants::host_grant;
use crate::testing::objects::objects;

/// Returns the names among `hosts` that `namespace` may define. The empty text is no host.
fn permitted<'a>(grants: &HostGrants, objects: &Objects, namespace: &str, hosts: &[&'a str]) -> Vec<&'a str> {
    let permit = |host: &&str| grants.permit(&host::parse(host).unwrap(), &namespace.into(), objects);
    hosts.iter().copied().filter(permit).collect()
}

fn grants_of(objects: &Objects) -> HostGrants {
    HostGrants::new(objects, &Settings::default())
}

#[test]
fn an_entry_covers_a_name_one_label_or_all_labels() {
    let objects = objects(&[
        host_grant("name").host("Shop.example.com").name("shop").into(),
        host_grant("one").host("*.one.com").name("shop").into(),
        host_grant("all").host("**.all.com").name("shop").into(),
    ]);
    let grants = grants_of(&objects);
    let covered =
        ["shop.example.com", "a.one.com", "*.one.com", "a.all.com", "a.b.all.com", "*.all.com", "*.a.all.com"];
    let free =
        ["example.com", "a.shop.example.com", "one.com", "a.b.one.com", "*.a.one.com", "all.com", "small.com", ""];
    let all = [covered.as_slice(), &free].concat();
    assert_eq!(permitted(&grants, &objects, "shop", &all), all);
    assert_eq!(permitted(&grants, &objects, "other", &all), free);
}

#[test]
fn the_most_specific_entry_decides() {
    let objects = objects(&[
        host_grant("a").host("**").name("root").into(),
        host_grant("b").host("**.com").name("com").into(),
        host_grant("c").host("**.example.com").name("deep").into(),
        host_grant("d").host("*.example.com").name("one").into(),
        host_grant("e").host("shop.example.com").name("shop").into(),
        host_grant("f").host("shop.example.com").host("shop.example.com").name("other").into(),
    ]);
    let grants = grants_of(&objects);
    let hosts =
        ["shop.example.com", "*.example.com", "a.example.com", "a.b.example.com", "example.com", "*.com", "a.org", ""];
    for (namespace, expected) in [
        ("shop", &hosts[..1]),
        ("other", &hosts[..1]),
        ("one", &hosts[1..3]),
        ("deep", &hosts[3..4]),
        ("com", &hosts[4..6]),
        ("root", &hosts[6..]),
        ("nobody", &[]),
    ] {
        assert_eq!(permitted(&grants, &objects, namespace, &hosts), expected, "{namespace}");
    }
}

#[test]
fn a_wildcard_with_granted_names_below_it_needs_an_entry() {
    let hosts = ["*.example.com", "*.com", "*.shop.example.com", "*.other.com", "example.com"];
    for entry in ["shop.example.com", "*.shop.example.com", "**.shop.example.com"] {
        let objects = objects(&[host_grant("a").host(entry).name("shop").into()]);
        let grants = grants_of(&objects);
        let others = permitted(&grants, &objects, "other", &["*.shop.example.com"]);
        assert_eq!(others.is_empty(), entry.starts_with('*'), "a name has no granted names below it");
        assert_eq!(permitted(&grants, &objects, "shop", &hosts), &hosts[2..], "{entry}");
    }
    // An entry for the wildcard decides.
    let objects = objects(&[
        host_grant("a").host("shop.example.com").name("shop").into(),
        host_grant("b").host("*.example.com").name("platform").into(),
    ]);
    let grants = grants_of(&objects);
    assert_eq!(permitted(&grants, &objects, "platform", &hosts), [hosts[0], hosts[2], hosts[3], hosts[4]]);
    let error = grants.check(&host::parse("*.com").unwrap(), &"platform".into(), &objects).unwrap_err();
    assert_eq!(error, "no HostGrant covers host \"*.com\", which has hosts of HostGrant \"a\" below it");
}

#[test]
fn namespaces_are_selected_by_name_and_label() {
    let grant = host_grant("a").host("x.com").name("named").label("team", "shop");
    let objects = objects(&[grant.into(), labeled("shop", &[("team", "shop")]), labeled("other", &[])]);
    let grants = grants_of(&objects);
    let may = |namespace: &str| !permitted(&grants, &objects, namespace, &["x.com"]).is_empty();
    assert!(grants.read_labels() && may("named") && may("shop"));
    assert!(!may("other") && !may("unknown"), "the labels of an unknown namespace are unknown");
}

#[test]
fn a_grant_may_be_required() {
    let objects = objects(&[host_grant("a").host("x.com").name("shop").into()]);
    let mut settings = Settings::default();
    settings.hosts.require_grant = true;
    let grants = HostGrants::new(&objects, &settings);
    assert_eq!(permitted(&grants, &objects, "shop", &["x.com", "y.com", "*.y.com", ""]), ["x.com"]);
    let error = |host: &str, namespace: &str| {
        grants.check(&host::parse(host).unwrap(), &namespace.into(), &objects).unwrap_err()
    };
    assert_eq!(error("y.com", "shop"), "no HostGrant covers host \"y.com\", and \"hosts.requireGrant\" is true");
    assert_eq!(error("x.com", "b"), "host \"x.com\" is granted to other namespaces by HostGrant \"a\"");
    assert!(error("", "shop").contains("\"**\""), "{}", error("", "shop"));
}

#[test]
fn an_invalid_part_of_a_grant_affects_only_itself() {
    let grant = host_grant("a").host("x.com").host("a_b.com").host("**.*.com").host("").name("shop");
    let grant = grant.expression("team", "Near", &["shop"]);
    let objects = objects(&[grant.into(), labeled("other", &[("team", "shop")])]);
    let grants = grants_of(&objects);
    assert_eq!(permitted(&grants, &objects, "shop", &["x.com"]), ["x.com"]);
    assert_eq!(permitted(&grants, &objects, "other", &["x.com"]), [""; 0], "an invalid selector selects nobody");
    let grant = grants.get(&ObjectKey::new("", "a")).unwrap();
    let problems: Vec<String> = grant.problems.iter().map(|problem| problem.to_string()).collect();
    assert_eq!(
        problems,
        [
            "HostGrant a: spec.hosts[1]: host \"a_b.com\" is not a DNS name; covers no host",
            "HostGrant a: spec.hosts[2]: host \"**.*.com\" is not a DNS name after \"**.\"; covers no host",
            "HostGrant a: spec.hosts[3]: host \"\" is empty; covers no host",
            "HostGrant a: spec.namespaces.selector.matchExpressions[0].operator: operator \"Near\" is not known; \
             the selector selects no namespace",
        ]
    );
    assert_eq!((grant.verdicts[0].status, grant.verdicts[0].reason), (Status::False, "HostGrantNotValid"));
    for (operator, values) in [("In", &[][..]), ("NotIn", &[]), ("Exists", &["a"]), ("DoesNotExist", &["a"])] {
        let grant = Object::from(host_grant("a").host("x.com").expression("team", operator, values));
        let grants = grants_of(&crate::testing::objects::objects(&[grant]));
        assert_eq!(grants.all().next().map(|grant| grant.problems.len()), Some(1), "{operator}");
    }
}
