//! The JSON Web Tokens of an HTTPPolicy.

use std::collections::BTreeSet;

use lockgate_route::model::{Jwks, Jwt, JwtIssuer, RemoteJwks};
use serde_json::{Value, json};

use super::super::losses::Losses;
use super::super::rules::{RuleFault, RulePlace, duration};
use super::authorization::{backend, is_targeted};
use crate::check::Translated;

/// The part of a route that requires a token.
const PART: &str = "jwtVerificationPolicy";

/// Returns the feature. The error is the reason why it cannot be expressed.
pub fn written(
    source: &Translated,
    jwt: &Jwt,
    place: RulePlace,
    losses: &mut Losses,
) -> Result<Value, Option<RuleFault>> {
    let mut issuers = BTreeSet::new();
    let mut providers = Vec::new();
    for provider in &jwt.providers {
        let JwtIssuer { issuer, audiences, jwks, forwards, reads_query } = provider;
        if issuer.is_empty() || !issuers.insert(issuer) {
            return Err(Some(RuleFault {
                part: PART,
                message: "each provider of an HTTPPolicy needs an issuer of its own".to_owned(),
                remedy: "Set the issuer of the provider, and migrate again.".to_owned(),
            }));
        }
        if *reads_query {
            let texts = [
                "HTTPPolicies do not read tokens from the query parameter \"access_token\"",
                "requests with such a token are answered 401",
                "Let clients send the header Authorization.",
            ];
            place.report_change(losses, PART, texts);
        }
        if !*forwards {
            let texts = [
                "HTTPPolicies leave the token in the request",
                "the Services receive it",
                "Remove the header Authorization with a filter of the HTTPRoute if the Services must not see it.",
            ];
            place.report_change(losses, PART, texts);
        }
        let mut provider = json!({ "issuer": &**issuer, "jwks": keys(source, jwks, place, losses)? });
        if !audiences.is_empty() {
            provider["audiences"] = audiences.iter().map(|audience| json!(&**audience)).collect();
        }
        providers.push(provider);
    }
    Ok(json!({ "providers": providers }))
}

fn keys(source: &Translated, jwks: &Jwks, place: RulePlace, losses: &mut Losses) -> Result<Value, Option<RuleFault>> {
    let RemoteJwks { uri, cluster, timeout, refresh, fallback } = match jwks {
        Jwks::Inline(keys) => {
            let texts = [
                "an HTTPPolicy contains the keys themselves, not the name of a Secret",
                "a later change of the Secret has no effect",
                "Write new keys to the HTTPPolicy when they change, or let it fetch them with jwks.remote.",
            ];
            place.report_change(losses, PART, texts);
            return Ok(json!({ "inline": &**keys }));
        }
        Jwks::Remote(remote) => remote,
    };
    if uri.starts_with("https:") && !is_targeted(source, cluster.port.service()) {
        return Err(Some(RuleFault {
            part: PART,
            message: format!("HTTPPolicies fetch {uri:?} only with a BackendTLSPolicy, which verifies the server"),
            remedy: format!("Write a BackendTLSPolicy for Service {}, and migrate again.", cluster.port.service()),
        }));
    }
    let mut written = json!({ "remote": {
        "uri": &**uri,
        "backendRef": backend(source, cluster, place),
        "timeout": duration(Some(*timeout)),
        "refreshInterval": duration(Some(*refresh)),
    } });
    if let Some(fallback) = fallback {
        written["inline"] = json!(&**fallback);
    }
    Ok(written)
}
