//! BackendTLSPolicies, XBackendTrafficPolicies, HTTPPolicies, and BackendPolicies.

use std::sync::Arc;

use lockgate_route::objects::gateway::{
    BackendTlsPolicy, BackendTlsPolicySpec, HttpPolicy, HttpPolicySpec, PolicyStatus, XBackendTrafficPolicy,
    XBackendTrafficPolicySpec,
};
use lockgate_route::objects::{BackendPolicy, BackendPolicySpec, Kind, Meta, Object};
use serde_json::Value;

use super::{Required, Spec, missing};
use crate::source::decode::list;

impl Spec for BackendTlsPolicySpec {
    type Status = PolicyStatus;

    const KIND: Kind = Kind::BACKEND_TLS_POLICY;

    fn refused(value: &Value) -> Option<(String, String)> {
        let spec = value.get("spec");
        let required = |path: String, item: &Value| {
            let required: [Required<'_>; 2] = ["kind", "name"].map(|field| (item.get(field), field));
            missing(&path, &required)
        };
        let targets = list(spec, "targetRefs").iter().enumerate();
        let validation = spec.and_then(|spec| spec.get("validation"));
        let authorities = list(validation, "caCertificateRefs").iter().enumerate();
        let hostname = (validation.and_then(|validation| validation.get("hostname")), "spec.validation.hostname");
        missing("", &[hostname])
            .or_else(|| targets.into_iter().find_map(|(i, item)| required(format!("spec.targetRefs[{i}]."), item)))
            .or_else(|| {
                let path = |i| format!("spec.validation.caCertificateRefs[{i}].");
                authorities.into_iter().find_map(|(i, item)| required(path(i), item))
            })
    }

    fn object(mut self, meta: Meta, version: Arc<str>, mut status: PolicyStatus) -> Object {
        self.target_refs.shrink_to_fit();
        self.validation.ca_certificate_refs.shrink_to_fit();
        self.validation.subject_alt_names.shrink_to_fit();
        shrink_status(&mut status);
        Object::new(BackendTlsPolicy { meta, spec: self, status, version })
    }
}

impl Spec for HttpPolicySpec {
    type Status = PolicyStatus;

    const KIND: Kind = Kind::HTTP_POLICY;

    fn refused(value: &Value) -> Option<(String, String)> {
        let spec = value.get("spec");
        let targets = list(spec, "targetRefs");
        let required = |(i, item): (usize, &Value)| {
            // The group of a Namespace is empty.
            let is_core = item.get("group").and_then(Value::as_str) == Some("");
            let fields = ["group", "kind", "name"].into_iter().filter(|field| !is_core || *field != "group");
            let required: Vec<Required<'_>> = fields.map(|field| (item.get(field), field)).collect();
            missing(&format!("spec.targetRefs[{i}]."), &required)
        };
        let first = (targets.first(), "spec.targetRefs");
        missing("", &[first]).or_else(|| targets.iter().enumerate().find_map(required))
    }

    fn object(mut self, meta: Meta, version: Arc<str>, mut status: PolicyStatus) -> Object {
        self.target_refs.shrink_to_fit();
        shrink_status(&mut status);
        Object::new(HttpPolicy { meta, spec: self, status, version })
    }
}

impl Spec for BackendPolicySpec {
    type Status = PolicyStatus;

    const KIND: Kind = Kind::BACKEND_POLICY;

    fn refused(value: &Value) -> Option<(String, String)> {
        without_target(value)
    }

    fn object(mut self, meta: Meta, version: Arc<str>, mut status: PolicyStatus) -> Object {
        self.target_refs.shrink_to_fit();
        shrink_status(&mut status);
        Object::new(BackendPolicy { meta, spec: self, status, version })
    }
}

impl Spec for XBackendTrafficPolicySpec {
    type Status = PolicyStatus;

    const KIND: Kind = Kind::X_BACKEND_TRAFFIC_POLICY;

    fn refused(value: &Value) -> Option<(String, String)> {
        without_target(value)
    }

    fn object(mut self, meta: Meta, version: Arc<str>, mut status: PolicyStatus) -> Object {
        // The API server removes the field.
        self.target_refs.iter_mut().for_each(|target| target.section_name = None);
        self.target_refs.shrink_to_fit();
        shrink_status(&mut status);
        Object::new(XBackendTrafficPolicy { meta, spec: self, status, version })
    }
}

/// Returns the field that a policy of Services lacks: the first target, or the kind or the name of a target.
fn without_target(value: &Value) -> Option<(String, String)> {
    let targets = list(value.get("spec"), "targetRefs");
    let required = |(i, item): (usize, &Value)| {
        let required: [Required<'_>; 2] = ["kind", "name"].map(|field| (item.get(field), field));
        missing(&format!("spec.targetRefs[{i}]."), &required)
    };
    let first = (targets.first(), "spec.targetRefs");
    missing("", &[first]).or_else(|| targets.iter().enumerate().find_map(required))
}

/// Releases spare capacity in the lists of a status.
fn shrink_status(status: &mut PolicyStatus) {
    status.ancestors.iter_mut().for_each(|ancestor| ancestor.conditions.shrink_to_fit());
    status.ancestors.shrink_to_fit();
}
