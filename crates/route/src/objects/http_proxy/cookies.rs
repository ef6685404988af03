//! The changes of cookies by HTTPProxies.

use serde::{Deserialize, Serialize};

use super::rest::Rest;

/// The change of the attributes of a cookie that a Service sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct CookieRewritePolicy {
    /// The name of the cookie.
    pub name: String,
    /// The new value of `Path`.
    pub path_rewrite: Option<CookieValue>,
    /// The new value of `Domain`.
    pub domain_rewrite: Option<CookieValue>,
    /// Whether the cookie has the attribute `Secure`.
    pub secure: Option<bool>,
    /// The new value of `SameSite`.
    pub same_site: Option<String>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The new value of an attribute of a cookie.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct CookieValue {
    /// The value.
    pub value: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}
