//! The server of external authorization of an HTTPPolicy.

use std::sync::Arc;
use std::time::Duration;

use super::limits::buffered_part;
use super::references::backend;
use crate::duration;
use crate::model::{
    Authorization, AuthorizationCheck, AuthorizationHttp, AuthorizationProtocol, HeaderName, RequestBody,
    UpstreamProtocol,
};
use crate::objects::gateway::{AuthorizationBody, AuthorizationHttpSpec, ExternalAuthorizationSpec};
use crate::translate::dialect::Resolver;
use crate::translate::fault::FieldFault;
use crate::translate::gateway::backend::Called;

/// The maximum time that a request waits for authorization.
const LONGEST: Duration = Duration::from_secs(60);

/// Parses the server.
pub fn parse(
    spec: &ExternalAuthorizationSpec,
    namespace: &Arc<str>,
    resolver: &mut Resolver,
) -> Result<Arc<Authorization>, FieldFault> {
    let ExternalAuthorizationSpec { backend_ref, protocol, timeout, fail_open, request_body, http } = spec;
    let protocol = match protocol.as_deref() {
        None | Some("grpc") => AuthorizationProtocol::Grpc,
        Some("http") => AuthorizationProtocol::Http,
        Some(other) => return Err(FieldFault::new(".protocol", format!("{other:?} is neither \"grpc\" nor \"http\""))),
    };
    let default = AuthorizationCheck::default();
    let timeout = match timeout {
        None => default.timeout,
        Some(text) => {
            let limit = duration::parse(text).filter(|limit| (Duration::from_millis(1)..=LONGEST).contains(limit));
            limit.ok_or_else(|| {
                FieldFault::new(".timeout", format!("{text:?} is not a time from 1ms to 1m, such as 500ms"))
            })?
        }
    };
    let request_body = match request_body {
        None => RequestBody::default(),
        Some(AuthorizationBody { max_bytes, allow_partial, pack_as_bytes }) => RequestBody {
            max_bytes: Some(
                buffered_part(max_bytes, resolver)
                    .map_err(|message| FieldFault::new(".requestBody.maxBytes", message))?,
            ),
            allow_partial: *allow_partial,
            pack_as_bytes: *pack_as_bytes,
        },
    };
    let http = http.as_ref().map(self::http).transpose()?.unwrap_or_default();
    let over = (protocol == AuthorizationProtocol::Grpc).then_some(UpstreamProtocol::H2c);
    let Called { cluster, .. } = backend(backend_ref, over, namespace, resolver)?;
    let check = AuthorizationCheck { protocol, timeout, fail_open: *fail_open, request_body, http };
    Ok(Arc::new(Authorization {
        cluster,
        shares: Vec::new(),
        check,
        grpc_headers: Vec::new(),
        copies_answer: false,
        context: Arc::default(),
    }))
}

fn http(spec: &AuthorizationHttpSpec) -> Result<AuthorizationHttp, FieldFault> {
    let AuthorizationHttpSpec { path_prefix, allowed_request_headers, allowed_upstream_headers } = spec;
    let is_prefix = |text: &String| {
        text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte))
    };
    if let Some(text) = path_prefix.as_ref().filter(|text| !is_prefix(text)) {
        return Err(FieldFault::new(".http.pathPrefix", format!("{text:?} is not the beginning of a path")));
    }
    let read = |text: &str| HeaderName::parse(text).ok_or_else(|| format!("{text:?} is not a header"));
    let names = |field: &str, texts: &[String], parse: &dyn Fn(&str) -> Result<HeaderName, String>| {
        let name = |(i, text): (usize, &String)| {
            let name = parse(text).map(|name| name.to_string());
            name.map_err(|reason| FieldFault::new(format!(".http.{field}[{i}]"), reason))
        };
        texts.iter().enumerate().map(name).collect::<Result<Vec<_>, _>>()
    };
    Ok(AuthorizationHttp {
        path_prefix: path_prefix.clone(),
        allowed_request_headers: names("allowedRequestHeaders", allowed_request_headers, &read)?,
        allowed_upstream_headers: names(
            "allowedUpstreamHeaders",
            allowed_upstream_headers,
            &HeaderName::parse_changeable,
        )?,
        ..AuthorizationHttp::default()
    })
}
