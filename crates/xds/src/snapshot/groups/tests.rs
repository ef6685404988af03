//! Tests with any sequence of changes that a group is served the common resources, except for overridden resources.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use proptest::prelude::*;

use super::*;
use crate::snapshot::{ResourceType, Snapshot, Version};

const NAMES: [&str; 3] = ["a", "b", "c"];

fn cluster(name: &str, variation: u32) -> Resource {
    let message = Cluster { name: name.to_owned(), alt_stat_name: variation.to_string(), ..Cluster::default() };
    Resource::new(name, &message, Vec::new())
}

fn removing(names: &[&str]) -> Update {
    Update::removing(names.iter().map(|name| (ResourceType::CLUSTER, (*name).into())).collect())
}

/// Returns names and versions.
type Content = BTreeMap<String, Version>;

fn content(snapshot: &Snapshot) -> Content {
    let all = snapshot.all(ResourceType::CLUSTER);
    all.map(|resource| (resource.name().to_string(), resource.version())).collect()
}

fn served(store: &Store) -> Option<Content> {
    store.newest().map(|snapshot| content(&snapshot))
}

fn of<const N: usize>(clusters: [(&str, u32); N]) -> Option<Content> {
    Some(clusters.map(|(name, variation)| (name.to_owned(), cluster(name, variation).version())).into())
}

#[test]
fn a_group_is_published_only_with_resources() {
    let groups = Groups::default();
    assert!(groups.store("edge").is_none());
    let edge = groups.store_or_new("edge");
    groups.update::<Resource>("edge", Update::default());
    groups.update("edge", removing(&["a"]));
    groups.replace::<Resource>("edge", Vec::new());
    groups.update_common(removing(&["a"]));
    assert_eq!((served(&edge), served(&groups.common())), (None, None), "its clients would drop what they have");
    groups.update("other", Update::setting(vec![cluster("a", 0)]));
    assert_eq!(served(&edge), None);
    groups.update("edge", Update::setting(vec![cluster("a", 1)]));
    assert_eq!(served(&edge), of([("a", 1)]));
    assert_eq!(groups.names(), ["edge", "other"]);
}

#[test]
fn common_and_first_group_specific_resources_are_sent_together() {
    let groups = Groups::default();
    groups.replace_common(vec![cluster("a", 0), cluster("b", 0)]);
    let changes = groups.update("edge", Update::setting(vec![cluster("b", 1)]));
    assert_eq!((changes.generation, changes.added.len()), (1, 2), "one publication");
    assert_eq!(served(&groups.store("edge").unwrap()), of([("a", 0), ("b", 1)]));
    assert_eq!(served(&groups.store_or_new("new")), of([("a", 0), ("b", 0)]));
}

#[test]
fn a_group_specific_resource_hides_a_common_resource_until_it_is_removed() {
    let groups = Groups::default();
    groups.update("edge", Update::setting(vec![cluster("a", 1)]));
    let edge = groups.store("edge").unwrap();
    groups.update_common(Update::setting(vec![cluster("a", 0)]));
    assert_eq!(served(&edge), of([("a", 1)]));
    groups.update_common(removing(&["a"]));
    assert_eq!(served(&edge), of([("a", 1)]));
    groups.update_common(Update::setting(vec![cluster("a", 2)]));
    let changes = groups.update("edge", removing(&["a"]));
    assert_eq!((changes.changed.len(), changes.removed.len()), (1, 0));
    assert_eq!(served(&edge), of([("a", 2)]));
}

#[test]
fn common_resources_are_shared_not_copied() {
    let groups = Groups::default();
    groups.update_common(Update::setting(vec![cluster("a", 0)]));
    let get = |store: Arc<Store>| store.newest().unwrap().get(ResourceType::CLUSTER, "a").unwrap().clone();
    assert!(Arc::ptr_eq(&get(groups.store_or_new("edge")), &get(groups.common())));
}

#[test]
fn a_change_of_one_group_is_not_published_in_another() {
    let groups = Groups::default();
    groups.update_common(Update::setting(vec![cluster("a", 0)]));
    let other = groups.store_or_new("other").subscribe();
    groups.update("edge", Update::setting(vec![cluster("b", 0)]));
    assert!(!other.has_changed().unwrap());
    groups.update_common(Update::setting(vec![cluster("a", 1)]));
    assert!(other.has_changed().unwrap());
}

#[test]
fn streams_end_when_their_group_is_removed() {
    let groups = Groups::default();
    groups.update("edge", Update::setting(vec![cluster("a", 0)]));
    let edge = groups.store("edge").unwrap().subscribe();
    groups.remove("edge");
    assert!(edge.has_changed().is_err(), "nobody will publish there again");
    assert!(groups.store("edge").is_none());
}

/// A change of a group, or of the common resources.
#[derive(Debug, Clone)]
struct Step {
    group: Option<usize>,
    replace: bool,
    set: Vec<(usize, u32)>,
    remove: Vec<usize>,
}

fn step() -> impl Strategy<Value = Step> {
    let set = prop::collection::vec((0..NAMES.len(), 0..3_u32), 0..3);
    let remove = prop::collection::vec(0..NAMES.len(), 0..3);
    (prop::option::of(0..2_usize), prop::bool::weighted(0.2), set, remove)
        .prop_map(|(group, replace, set, remove)| Step { group, replace, set, remove })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn groups_match_a_simple_model(steps in prop::collection::vec(step(), 1..12)) {
        let groups = Groups::default();
        // The common resources, and the resources of each of two groups.
        let mut own = [Content::new(), Content::new(), Content::new()];
        for Step { group, replace, set, remove } in steps {
            let model = &mut own[group.map_or(0, |group| group + 1)];
            let resources: Vec<Resource> = set.iter().map(|(name, variation)| cluster(NAMES[*name], *variation)).collect();
            let remove: Vec<&str> = remove.iter().map(|name| NAMES[*name]).collect();
            if replace {
                model.clear();
            }
            model.retain(|name, _| !remove.contains(&&**name));
            model.extend(resources.iter().map(|resource| (resource.name().to_string(), resource.version())));
            let update = Update { set: resources, remove: removing(&remove).remove };
            match (group.map(|group| NAMES[group]), replace) {
                (Some(group), true) => groups.replace(group, update.set),
                (Some(group), false) => groups.update(group, update),
                (None, true) => groups.replace_common(update.set),
                (None, false) => groups.update_common(update),
            };
            let common = &own[0];
            prop_assert_eq!(&served(&groups.common()).unwrap_or_default(), common);
            for (own, name) in own[1..].iter().zip(NAMES) {
                let Some(store) = groups.store(name) else { continue };
                let mut expected = common.clone();
                expected.extend(own.clone());
                prop_assert_eq!(served(&store).unwrap_or_default(), expected);
            }
        }
        let names: BTreeSet<String> = groups.names().into_iter().collect();
        prop_assert!(names.iter().all(|name| NAMES[..2].contains(&&**name)));
    }
}
