//! The clients that an HTTPPolicy admits: addresses, users with passwords, clients with API keys, and web pages.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::references::permit;
use crate::model::{
    AddressRange, ApiKeys, BasicAuthentication, ClientAddresses, ClientRange, Confidential, Csrf, HeaderName, Host,
    KeySource, OriginHost,
};
use crate::objects::gateway::{
    ApiKeySourceSpec, ApiKeysSpec, BasicAuthenticationSpec, ClientAddressesSpec, CsrfSpec, PolicySecret,
};
use crate::objects::{API_KEYS_TYPE, CredentialKind, Credentials, Kind, ObjectKey};
use crate::translate::dialect::Resolver;
use crate::translate::fault::FieldFault;
use crate::translate::host;

/// The maximum numbers of Secrets, of sources, and of origins. Source: CustomResourceDefinition. Manifests are not validated against it.
const SECRETS: usize = 16;
const SOURCES: usize = 4;
const ORIGINS: usize = 32;
/// The longest name of a parameter of the query.
const PARAMETER: usize = 253;

/// The maximum number of address ranges. Source: CustomResourceDefinition. Manifests are not validated against it.
const RANGES: usize = 256;

/// Parses the addresses of the clients that may, and may not, send requests.
pub fn client_addresses(spec: &ClientAddressesSpec) -> Result<Arc<ClientAddresses>, FieldFault> {
    let ranges = |field: &str, texts: &[String]| {
        if texts.len() > RANGES {
            return Err(FieldFault::new(format!(".{field}"), format!("more than {} ranges", RANGES)));
        }
        let range = |(i, text): (usize, &String)| {
            let fault = || {
                FieldFault::new(
                    format!(".{field}[{i}]"),
                    format!("{text:?} is not an IP address or a range such as 192.0.2.0/24"),
                )
            };
            AddressRange::parse(text).map(ClientRange::from).ok_or_else(fault)
        };
        texts.iter().enumerate().map(range).collect::<Result<Vec<_>, _>>()
    };
    let ClientAddressesSpec { allow, deny } = spec;
    Ok(Arc::new(ClientAddresses { allow: ranges("allow", allow)?, deny: ranges("deny", deny)? }))
}

/// Parses the users that requests need the password of. The faults of single users are added to `faulty`.
pub fn basic_authentication(
    spec: &BasicAuthenticationSpec,
    namespace: &Arc<str>,
    resolver: &mut Resolver,
    faulty: &mut Vec<FieldFault>,
) -> Result<Arc<BasicAuthentication>, FieldFault> {
    let BasicAuthenticationSpec { secret_ref, user_header } = spec;
    let user_header = header(user_header.as_ref(), ".userHeader")?;
    let at = ".secretRef";
    let (key, credentials) = secret(secret_ref, at, CredentialKind::Passwords, namespace, resolver)?;
    report("basicAuthentication", at, &key, &credentials, faulty);
    if credentials.clients.is_empty() {
        return Err(FieldFault::new(at, nobody(&key, &credentials)));
    }
    Ok(Arc::new(BasicAuthentication { users: credentials.clients.clone(), user_header }))
}

/// Parses the API keys of which requests need one. The faults of single keys are added to `faulty`.
pub fn api_keys(
    spec: &ApiKeysSpec,
    namespace: &Arc<str>,
    resolver: &mut Resolver,
    faulty: &mut Vec<FieldFault>,
) -> Result<Arc<ApiKeys>, FieldFault> {
    let ApiKeysSpec { secret_refs, sources, client_header } = spec;
    let client_header = header(client_header.as_ref(), ".clientHeader")?;
    if secret_refs.is_empty() || secret_refs.len() > SECRETS {
        return Err(FieldFault::new(".secretRefs", format!("not between 1 and {SECRETS} Secrets")));
    }
    if sources.is_empty() || sources.len() > SOURCES {
        return Err(FieldFault::new(".sources", format!("not between 1 and {SOURCES} sources")));
    }
    let sources = sources.iter().enumerate().map(|(i, source)| self::source(source, &format!(".sources[{i}]")));
    let sources = sources.collect::<Result<_, _>>()?;
    let (mut clients, mut seen) = (Vec::<(Arc<str>, Confidential)>::new(), BTreeSet::new());
    for (i, reference) in secret_refs.iter().enumerate() {
        let at = format!(".secretRefs[{i}]");
        let (key, credentials) = secret(reference, &at, CredentialKind::ApiKeys, namespace, resolver)?;
        report("apiKeys", &at, &key, &credentials, faulty);
        for (client, api_key) in &credentials.clients {
            match seen.insert(api_key.clone()) {
                true => clients.push((client.clone(), api_key.clone())),
                // Envoy rejects a key that occurs twice.
                false => {
                    let message = format!("Secret \"{key}\": the client {client:?} has the key of another client");
                    faulty.push(FieldFault::new(format!("apiKeys{at}"), message));
                }
            }
        }
        if clients.is_empty() && i + 1 == secret_refs.len() {
            return Err(FieldFault::new(at, nobody(&key, &credentials)));
        }
    }
    Ok(Arc::new(ApiKeys { clients, sources, client_header }))
}

fn source(spec: &ApiKeySourceSpec, at: &str) -> Result<KeySource, FieldFault> {
    match spec {
        ApiKeySourceSpec { header: Some(text), query: None, cookie: None } => {
            let name = HeaderName::parse(text).map(KeySource::Header);
            name.ok_or_else(|| FieldFault::new(format!("{at}.header"), format!("{text:?} is not a header")))
        }
        ApiKeySourceSpec { header: None, query: Some(text), cookie: None } => {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            match (1..=PARAMETER).contains(&text.len()) && text.bytes().all(is_plain) {
                true => Ok(KeySource::Query(text.as_str().into())),
                false => Err(FieldFault::new(
                    format!("{at}.query"),
                    format!("{text:?} is not a parameter of letters, digits, \"-\", \".\", \"_\", and \"~\""),
                )),
            }
        }
        ApiKeySourceSpec { header: None, query: None, cookie: Some(text) } => match HeaderName::is_token(text) {
            true => Ok(KeySource::Cookie(text.as_str().into())),
            false => Err(FieldFault::new(format!("{at}.cookie"), format!("{text:?} is not the name of a cookie"))),
        },
        _ => Err(FieldFault::new(at, "not exactly one of header, query, and cookie")),
    }
}

/// Parses the web pages whose requests may change something.
pub fn csrf(spec: &CsrfSpec) -> Result<Arc<Csrf>, FieldFault> {
    let CsrfSpec { additional_origins } = spec;
    if additional_origins.len() > ORIGINS {
        return Err(FieldFault::new(".additionalOrigins", format!("more than {ORIGINS} hosts")));
    }
    let origin = |(i, text): (usize, &String)| {
        let fault = || {
            let message =
                format!("{text:?} is not a host such as app.example.com, app.example.com:8443, or *.example.com");
            FieldFault::new(format!(".additionalOrigins[{i}]"), message)
        };
        origin_host(text).ok_or_else(fault)
    };
    let additional_origins = additional_origins.iter().enumerate().map(origin).collect::<Result<_, _>>()?;
    Ok(Arc::new(Csrf { additional_origins }))
}

fn origin_host(text: &str) -> Option<OriginHost> {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => {
            (name, Some(port.parse::<u16>().ok().filter(|number| number.to_string() == port && *number > 0)?))
        }
        None => (text, None),
    };
    match (host::parse(name).ok()?, port) {
        (Host::Exact(name), None) => Some(OriginHost::Exact(name)),
        (Host::Exact(name), Some(port)) => Some(OriginHost::Exact(format!("{name}:{port}").into())),
        (Host::Wildcard(name), None) => Some(OriginHost::Suffix(format!(".{name}").into())),
        _ => None,
    }
}

/// Returns a Secret with credentials of this kind. `at` is the field of the reference.
fn secret(
    reference: &PolicySecret,
    at: &str,
    kind: CredentialKind,
    namespace: &Arc<str>,
    resolver: &mut Resolver,
) -> Result<(ObjectKey, Arc<Credentials>), FieldFault> {
    let PolicySecret { name, namespace: of } = reference;
    let key = ObjectKey::new(of.as_deref().unwrap_or(namespace), name);
    permit(Kind::SECRET, &key, namespace, resolver)
        .map_err(|message| FieldFault::new(format!("{at}.namespace"), message))?;
    let found = resolver.secret(key.clone()).and_then(|secret| secret.credentials.clone());
    let missing = match kind {
        CredentialKind::Passwords => {
            format!("Secret \"{key}\" does not exist, or has neither \".htpasswd\" nor \"auth\"")
        }
        CredentialKind::ApiKeys => format!("Secret \"{key}\" of type {API_KEYS_TYPE:?} does not exist"),
    };
    let credentials = found.filter(|found| found.kind == kind).ok_or_else(|| FieldFault::new(at, missing))?;
    Ok((key, credentials))
}

fn report(feature: &str, at: &str, key: &ObjectKey, credentials: &Credentials, faulty: &mut Vec<FieldFault>) {
    let fault = |fault: &String| FieldFault::new(format!("{feature}{at}"), format!("Secret \"{key}\": {fault}"));
    faulty.extend(credentials.faults.iter().map(fault));
}

fn nobody(key: &ObjectKey, credentials: &Credentials) -> String {
    match credentials.faults.first() {
        Some(fault) => format!("Secret \"{key}\" has no usable entry: {fault}"),
        None => format!("Secret \"{key}\" has no entry"),
    }
}

/// Parses the name of a header for the backend.
fn header(text: Option<&String>, at: &str) -> Result<Option<HeaderName>, FieldFault> {
    text.map(|text| HeaderName::parse_changeable(text)).transpose().map_err(|message| FieldFault::new(at, message))
}
