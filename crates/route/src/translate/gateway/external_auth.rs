//! The filter `ExternalAuth` of HTTPRoutes.

use super::backend;
use super::parser::Parser;
use crate::model::{
    Authorization, AuthorizationCheck, AuthorizationHttp, AuthorizationProtocol, HeaderName, RequestBody,
    UpstreamProtocol,
};
use crate::objects::gateway::{ExternalAuthFilter, ForwardBody, HttpAuthConfig};

/// Parses the filter. Returns `None` if its server is not valid, which is reported. The error is the reason why the filter is not valid.
/// Source: Gateway API, GEP-1494, `HTTPExternalAuthFilter`.
pub fn parse(field: &str, filter: &ExternalAuthFilter, parser: &mut Parser) -> Result<Option<Authorization>, String> {
    let ExternalAuthFilter { protocol, backend_ref, grpc, http, forward_body } = filter;
    let (protocol, over) = match protocol.as_str() {
        "GRPC" => (AuthorizationProtocol::Grpc, Some(UpstreamProtocol::H2c)),
        "HTTP" => (AuthorizationProtocol::Http, None),
        other => return Err(format!("protocol {other:?} is neither \"GRPC\" nor \"HTTP\"")),
    };
    let names = |texts: &[String], parse: &dyn Fn(&str) -> Result<HeaderName, String>| {
        texts.iter().map(|text| parse(text).map(|name| name.to_string())).collect::<Result<Vec<_>, _>>()
    };
    let read = |text: &str| HeaderName::parse(text).ok_or_else(|| format!("{text:?} is not a header"));
    let default = HttpAuthConfig::default();
    let HttpAuthConfig { path, allowed_headers, allowed_response_headers } = http.as_ref().unwrap_or(&default);
    if let Some(text) = path.as_ref().filter(|text| !is_path(text)) {
        return Err(format!("path {text:?} is not the beginning of a path"));
    }
    let of_http = AuthorizationHttp {
        path_prefix: path.clone().filter(|text| text != "/"),
        allowed_request_headers: names(allowed_headers, &read)?,
        allowed_upstream_headers: names(allowed_response_headers, &HeaderName::parse_changeable)?,
        ..AuthorizationHttp::default()
    };
    let grpc_headers = grpc.as_ref().map(|grpc| names(&grpc.allowed_headers, &read)).transpose()?.unwrap_or_default();
    let size = forward_body.as_ref().map_or(0, |ForwardBody { max_size }| *max_size);
    let body = u16::try_from(size).map_err(|_| format!("forwardBody.maxSize {size} is not between 0 and 65535"))?;
    let request_body =
        RequestBody { max_bytes: (body > 0).then(|| body.into()), allow_partial: true, pack_as_bytes: false };
    let cluster = match backend::asked(backend_ref, over, parser) {
        Ok(cluster) => cluster,
        Err(fault) => {
            fault.report(&format!("{field}.externalAuth.backendRef"), parser, "requests of the rule are answered 500");
            return Ok(None);
        }
    };
    let check = AuthorizationCheck { protocol, request_body, http: of_http, ..AuthorizationCheck::default() };
    Ok(Some(Authorization {
        cluster,
        shares: Vec::new(),
        check,
        grpc_headers,
        copies_answer: allowed_response_headers.is_empty(),
        context: Default::default(),
    }))
}

fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte))
}
