//! Revisions: a hash of the content that the translation reads from an object.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::meta::Meta;

/// A hash of the content that the translation reads from an object, equal in all processes.
///
/// It changes with the spec, with an annotation that the translation reads, with the start of a deletion, and with the
/// uid. In contrast, `metadata.generation` changes only with the spec. Revisions have no order; they can only be
/// compared for equality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Revision(pub u64);

/// The hashed content of an object.
#[derive(Serialize)]
struct Hashed<'a, S> {
    uid: &'a str,
    terminating: bool,
    annotations: &'a BTreeMap<String, String>,
    spec: &'a S,
}

impl Revision {
    /// Returns the revision of the object with this metadata and spec. `spec` contains all fields that the translation
    /// reads and no others.
    ///
    /// The hash covers the JSON of the content, which is unambiguous: strings are quoted, fields have names, and absent
    /// fields are absent or `null`. `spec` must have a JSON form, as all types of the Kubernetes API do.
    pub fn new(meta: &Meta, spec: &impl Serialize) -> Self {
        // No `..`, so that a new field of the metadata does not compile until it is considered here.
        // Labels only decide which policies apply, and policies do not change the revision of their targets either.
        let Meta { key: _, uid, generation: _, created: _, terminating, annotations, labels: _ } = meta;
        let content = Hashed { uid, terminating: *terminating, annotations, spec };
        let json = serde_json::to_vec(&content);
        debug_assert!(json.is_ok(), "{json:?}");
        Self(xxh3_64(&json.unwrap_or_default()))
    }
}

/// Displays `1f3870be274f6c49`.
impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use k8s_openapi::api::networking::v1::IngressSpec;

    use crate::objects::{Ingress, Object};
    use crate::testing::objects::ingress;

    use super::*;

    fn cart() -> Ingress {
        let object: Object = ingress("cart").host("shop.example.com").path("Prefix", "/", "cart:80").into();
        object.get::<Ingress>().expect("an Ingress").clone()
    }

    fn revision(ingress: &Ingress) -> Revision {
        Revision::new(&ingress.meta, &ingress.spec)
    }

    #[test]
    fn every_field_that_the_translation_reads_changes_the_revision() {
        let changes: [fn(&mut Ingress); 8] = [
            |ingress| ingress.meta.uid = "other".into(),
            |ingress| ingress.meta.terminating = true,
            |ingress| drop(ingress.meta.annotations.insert("lockgate.dev/delegate-to".into(), "a".into())),
            |ingress| drop(ingress.meta.annotations.insert("lockgate.dev/delegate-to".into(), "b".into())),
            |ingress| ingress.spec.ingress_class_name = Some(String::new()),
            |ingress| ingress.spec.rules = None,
            |ingress| ingress.spec.rules = Some(Vec::new()),
            |ingress| ingress.spec.tls = Some(Vec::new()),
        ];
        let mut revisions = vec![revision(&cart())];
        for change in changes {
            let mut ingress = cart();
            change(&mut ingress);
            revisions.push(revision(&ingress));
        }
        let all = revisions.len();
        revisions.sort();
        revisions.dedup();
        assert_eq!(revisions.len(), all);
    }

    #[test]
    fn the_time_of_a_write_and_the_status_do_not_change_the_revision() {
        let mut other = cart();
        other.meta.generation += 1;
        other.status.version = "77".into();
        assert_eq!(revision(&other), revision(&cart()));
    }

    #[test]
    fn the_revision_is_the_same_in_every_process() {
        let meta = Meta { annotations: BTreeMap::new(), uid: "u".into(), ..cart().meta };
        assert_eq!(Revision::new(&meta, &IngressSpec::default()).to_string(), "d10f3e2593146f22");
    }
}
