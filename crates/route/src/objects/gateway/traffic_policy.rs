//! XBackendTrafficPolicies: the retry budget and the session persistence of Services.
//!
//! A field that cannot be decoded is left out, and the other fields apply.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy_parts::Lenient;
use super::route::SessionPersistence;
use super::status::PolicyStatus;
use crate::objects::backend_policy::BackendPolicyTarget;
use crate::objects::meta::Meta;

/// An XBackendTrafficPolicy.
#[derive(Debug, Clone, PartialEq)]
pub struct XBackendTrafficPolicy {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: XBackendTrafficPolicySpec,
    /// The status. The translation does not read it.
    pub status: PolicyStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The spec of an XBackendTrafficPolicy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct XBackendTrafficPolicySpec {
    /// The Services that it applies to, in its namespace. The API has no `sectionName`, so decoding removes it.
    pub target_refs: Vec<BackendPolicyTarget>,
    /// The limit of retries.
    pub retry_constraint: Option<Lenient<RetryConstraint>>,
    /// The session persistence of routes that have none of their own.
    pub session_persistence: Option<Lenient<SessionPersistence>>,
}

/// The limit of retries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryConstraint {
    /// The share of retries.
    pub budget: Option<BudgetDetails>,
    /// The rate of retries that is always allowed.
    pub min_retry_rate: Option<RequestRate>,
}

/// The share of retries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetDetails {
    /// The percentage of the requests that may be retries; 20 if not set.
    pub percent: Option<u32>,
    /// The time for which a request counts; `10s` if not set.
    pub interval: Option<String>,
}

/// A rate of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestRate {
    /// The number of requests in an interval.
    pub count: Option<u32>,
    /// The interval.
    pub interval: Option<String>,
}
