//! The feature of HTTPPolicies for scripts of web pages of other origins.

use serde::{Deserialize, Serialize};

/// The permissions of scripts of web pages of other origins. Source: the Fetch standard, "CORS protocol".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "testing",
    derive(schemars::JsonSchema),
    schemars(extend("x-kubernetes-validations" = [{
        "rule": "!has(self.allowCredentials) || !self.allowCredentials || !self.allowOrigins.exists(origin, origin == '*')",
        "message": "allowCredentials needs a list of origins",
    }]))
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CorsSpec {
    /// The origins of the pages: `https://app.example.com`, with a port unless it is the default of the scheme; `https://*.example.com` for
    /// all subdomains; `*` for all origins.
    #[cfg_attr(
        feature = "testing",
        schemars(
            length(min = 1, max = 32),
            inner(length(min = 1, max = 270), regex(pattern = r"^(\*|[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#@ ]+)$"))
        )
    )]
    pub allow_origins: Vec<String>,
    /// The methods of requests, in addition to GET, HEAD, and POST, which browsers send without a question; `*` for all methods.
    #[cfg_attr(feature = "testing", schemars(length(max = 16), inner(length(min = 1, max = 32))))]
    #[serde(default)]
    pub allow_methods: Vec<String>,
    /// The headers of requests; `*` for all headers.
    #[cfg_attr(feature = "testing", schemars(length(max = 32), inner(length(min = 1, max = 253))))]
    #[serde(default)]
    pub allow_headers: Vec<String>,
    /// The headers of responses that scripts may read; `*` for all headers.
    #[cfg_attr(feature = "testing", schemars(length(max = 32), inner(length(min = 1, max = 253))))]
    #[serde(default)]
    pub expose_headers: Vec<String>,
    /// Lets scripts send cookies and other credentials. Not with the origin `*`: every page could read what a user may read.
    #[serde(default)]
    pub allow_credentials: bool,
    /// How long browsers keep the answer to a preflight request, such as `10m`; 5 s if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<String>,
}
