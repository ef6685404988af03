#![allow(clippy::unwrap_used, clippy::panic)]

use prost::Message;

use super::*;

/// Returns the type of the tree, and the matcher for other names.
fn parts(matcher: &matcher_v3::Matcher) -> (&matcher_tree::TreeType, Option<&matcher_v3::Matcher>) {
    let Some(MatcherType::MatcherTree(tree)) = &matcher.matcher_type else { panic!("no tree: {matcher:?}") };
    let otherwise = matcher.on_no_match.as_ref().map(|on| match on.on_match.as_ref().unwrap() {
        on_match::OnMatch::Matcher(matcher) => &**matcher,
        other => panic!("{other:?}"),
    });
    (tree.tree_type.as_ref().unwrap(), otherwise)
}

#[test]
fn many_names_of_a_chain_are_a_list_of_domains() {
    let mut choice = Choice::default();
    for i in 0..MANY {
        choice.exact([&*format!("{i}.shop.test")], "shared");
    }
    choice.exact(["a.test"], "few");
    choice.below("shop.test", "wildcard");
    let matcher = choice.matcher().unwrap();
    let (matcher_tree::TreeType::ExactMatchMap(few), Some(otherwise)) = parts(&matcher) else { panic!("{matcher:?}") };
    assert_eq!(few.map.keys().collect::<Vec<_>>(), ["a.test"]);
    let (matcher_tree::TreeType::CustomMatch(many), Some(wildcards)) = parts(otherwise) else {
        panic!("{otherwise:?}")
    };
    let many = ServerNameMatcher::decode(&*many.typed_config.as_ref().unwrap().value).unwrap();
    let [shared] = many.domain_matchers.as_slice() else { panic!("{many:?}") };
    assert_eq!((shared.domains.len(), shared.on_match.as_ref().unwrap()), (MANY, &leads_to("shared")));
    assert!(matches!(wildcards.matcher_type, Some(MatcherType::MatcherList(_))));
}

#[test]
fn few_names_are_a_map() {
    let mut choice = Choice::default();
    for i in 0..MANY - 1 {
        choice.exact([&*format!("{i}.shop.test")], "shared");
    }
    let matcher = choice.matcher().unwrap();
    let (matcher_tree::TreeType::ExactMatchMap(names), None) = parts(&matcher) else { panic!("{matcher:?}") };
    assert_eq!(names.map.len(), MANY - 1);
}
