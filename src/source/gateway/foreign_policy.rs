//! Policies of Envoy Gateway.

use std::sync::Arc;

use lockgate_route::objects::{FOREIGN_POLICIES, ForeignPolicy, Kind, Meta, Object};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::Spec;

/// The spec of a policy of Envoy Gateway, of the kind at this index of [`FOREIGN_POLICIES`]. Any fields are accepted: their schema
/// belongs to Envoy Gateway.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct ForeignPolicySpec<const INDEX: usize>(Map<String, Value>);

impl<const INDEX: usize> Spec for ForeignPolicySpec<INDEX> {
    type Status = IgnoredAny;

    const KIND: Kind = FOREIGN_POLICIES[INDEX];

    fn object(self, meta: Meta, _: Arc<str>, _: IgnoredAny) -> Object {
        Object::new(ForeignPolicy::new(Self::KIND, meta, &self.0))
    }
}
