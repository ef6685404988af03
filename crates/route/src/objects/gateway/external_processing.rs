//! The feature of HTTPPolicies for a server that changes requests and responses.

use serde::{Deserialize, Serialize};

use super::policy_parts::PolicyBackend;

/// A server that changes requests and responses over gRPC, `envoy.service.ext_proc.v3.ExternalProcessor`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalProcessingSpec {
    /// The server: a port of a Service, in plain text unless a BackendTLSPolicy targets it.
    pub backend_ref: PolicyBackend,
    /// The parts of requests that the server receives; the headers if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<ProcessedSpec>,
    /// The parts of responses that the server receives; nothing if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<ProcessedSpec>,
    /// The time limit of each answer of the server, such as `500ms`; 1 s if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Lets requests and responses pass unchanged if the server does not respond, or if its answer is not valid.
    #[serde(default)]
    pub fail_open: bool,
}

/// The parts of a request or of a response that a server receives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ProcessedSpec {
    /// The headers: `Send` or `Skip`. By default, those of requests are sent, and those of responses are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<HeaderMode>,
    /// The body: `None`, the default, `Streamed` for each chunk when it arrives, or `Buffered` for the complete body.
    pub body: BodyMode,
    /// The maximum size of a `Buffered` body of a request, such as `64KiB`, at most `tenants.maxBufferedBytes` of the settings, 1MiB by
    /// default. Requests with a larger body are answered 413.
    #[cfg_attr(feature = "testing", schemars(regex(pattern = r"^[0-9]+(B|k|kB|Ki|KiB|M|MB|Mi|MiB|G|GB|Gi|GiB)?$")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<String>,
}

/// Whether a server receives headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the variants have the names of the API")]
pub enum HeaderMode {
    Send,
    Skip,
}

/// How a server receives a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the variants have the names of the API")]
pub enum BodyMode {
    #[default]
    None,
    Buffered,
    Streamed,
}
