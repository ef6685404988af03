//! Enumerated values.

use std::marker::PhantomData;

use serde_json::{Value as Json, json};

use super::Scalar;
use crate::settings::{
    AccessLogFormat, AccessLogLevel, AuthorizationProtocol, CompressionAlgorithm, ConnectionBalancer, DnsLookupFamily,
    EscapedSlashes, HttpVersion, NamespaceOwnership, ProxyProtocolMode, RestrictingAnnotations, RestrictingPolicies,
    RouteDiscoveryMode, ServerHeader, Underscores,
};
use crate::telemetry;

/// An enumeration and its words.
pub trait Choice: Copy + PartialEq + 'static {
    /// The name for messages.
    const NAME: &'static str;
    /// All values with their words.
    const WORDS: &'static [(Self, &'static str)];
}

/// One of the words of a [`Choice`].
pub struct Word<C>(PhantomData<C>);

impl<C: Choice> Scalar for Word<C> {
    type Value = C;
    const NAME: &'static str = C::NAME;

    fn parse(text: &str) -> Result<C, String> {
        // Another YAML tool may have rewritten `off` as a boolean.
        let text = if text == "false" { "off" } else { text };
        let found = C::WORDS.iter().find(|(_, word)| *word == text).map(|(value, _)| *value);
        found.ok_or_else(|| format!("expected {}", words::<C>().collect::<Vec<_>>().join(", ")))
    }

    fn show(value: &C) -> Json {
        C::WORDS.iter().find(|(known, _)| known == value).map(|(_, word)| *word).into()
    }

    fn schema() -> Json {
        let off = words::<C>().any(|word| word == "off").then_some(Json::Bool(false));
        json!({"enum": words::<C>().map(Json::from).chain(off).collect::<Vec<_>>()})
    }
}

/// Returns the words of a choice.
fn words<C: Choice>() -> impl Iterator<Item = &'static str> {
    C::WORDS.iter().map(|(_, word)| *word)
}

impl Choice for AccessLogFormat {
    const NAME: &'static str = "format (`text`, `json`, `off`)";
    const WORDS: &'static [(Self, &'static str)] = &[(Self::Text, "text"), (Self::Json, "json"), (Self::Off, "off")];
}

impl Choice for AccessLogLevel {
    const NAME: &'static str = "level (`info`, `error`, `critical`)";
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Info, "info"), (Self::Error, "error"), (Self::Critical, "critical")];
}

impl Choice for AuthorizationProtocol {
    const NAME: &'static str = "protocol (`grpc`, `http`)";
    const WORDS: &'static [(Self, &'static str)] = &[(Self::Grpc, "grpc"), (Self::Http, "http")];
}

impl Choice for CompressionAlgorithm {
    const NAME: &'static str = "algorithm (`gzip`, `brotli`, `zstd`)";
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Gzip, "gzip"), (Self::Brotli, "brotli"), (Self::Zstd, "zstd")];
}

impl Choice for ConnectionBalancer {
    const NAME: &'static str = "balancer (`off`, `exact`)";
    const WORDS: &'static [(Self, &'static str)] = &[(Self::Off, "off"), (Self::Exact, "exact")];
}

impl Choice for RouteDiscoveryMode {
    const NAME: &'static str = "way (`auto`, `rds`, `vhds`, `scopes`)";
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Auto, "auto"), (Self::Rds, "rds"), (Self::Vhds, "vhds"), (Self::Scopes, "scopes")];
}

impl Choice for DnsLookupFamily {
    const NAME: &'static str = "family (`auto`, `v4`, `v6`, `v4_preferred`, `all`)";
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Auto, "auto"),
        (Self::V4, "v4"),
        (Self::V6, "v6"),
        (Self::V4Preferred, "v4_preferred"),
        (Self::All, "all"),
    ];
}

impl Choice for EscapedSlashes {
    const NAME: &'static str = "treatment (`keep`, `reject`, `unescape_and_redirect`, `unescape_and_forward`)";
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Keep, "keep"),
        (Self::Reject, "reject"),
        (Self::UnescapeAndRedirect, "unescape_and_redirect"),
        (Self::UnescapeAndForward, "unescape_and_forward"),
    ];
}

impl Choice for HttpVersion {
    const NAME: &'static str = "version (`HTTP/1.1`, `HTTP/2`)";
    const WORDS: &'static [(Self, &'static str)] = &[(Self::Http1, "HTTP/1.1"), (Self::Http2, "HTTP/2")];
}

impl Choice for NamespaceOwnership {
    const NAME: &'static str = "mode (`Strict`, `InterNamespaceAllowed`)";
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Strict, "Strict"), (Self::InterNamespaceAllowed, "InterNamespaceAllowed")];
}

impl Choice for RestrictingAnnotations {
    const NAME: &'static str = "treatment (`deny`, `ignore`)";
    const WORDS: &'static [(Self, &'static str)] = &[(Self::Deny, "deny"), (Self::Ignore, "ignore")];
}

impl Choice for RestrictingPolicies {
    const NAME: &'static str = "treatment (`deny`, `ignore`)";
    const WORDS: &'static [(Self, &'static str)] = &[(Self::Deny, "deny"), (Self::Ignore, "ignore")];
}

impl Choice for ProxyProtocolMode {
    const NAME: &'static str = "use (`off`, `required`, `optional`)";
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Off, "off"), (Self::Required, "required"), (Self::Optional, "optional")];
}

impl Choice for ServerHeader {
    const NAME: &'static str = "treatment (`overwrite`, `append_if_absent`, `pass_through`)";
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Overwrite, "overwrite"),
        (Self::AppendIfAbsent, "append_if_absent"),
        (Self::PassThrough, "pass_through"),
    ];
}

impl Choice for Underscores {
    const NAME: &'static str = "treatment (`drop`, `allow`, `reject`)";
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Drop, "drop"), (Self::Allow, "allow"), (Self::Reject, "reject")];
}

impl Choice for telemetry::LogFormat {
    const NAME: &'static str = "format (`text`, `json`)";
    const WORDS: &'static [(Self, &'static str)] = &[(Self::Text, "text"), (Self::Json, "json")];
}
