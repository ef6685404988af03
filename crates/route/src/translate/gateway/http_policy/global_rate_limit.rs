//! The descriptors of an HTTPPolicy, for the service that counts requests for all Envoys.

use std::sync::Arc;

use crate::model::{GlobalRateLimit, HeaderName, RateLimitEntry};
use crate::objects::gateway::{DescriptorEntrySpec, DescriptorEntryType, DescriptorSpec, GlobalRateLimitSpec};
use crate::settings::Settings;
use crate::translate::fault::FieldFault;

/// The maximum numbers of descriptors and of entries, and the longest text in bytes. Source: CustomResourceDefinition. Manifests are not
/// validated against it.
const DESCRIPTORS: usize = 16;
const ENTRIES: usize = 8;
const LONGEST: usize = 253;

/// The key of the first entry. The service counts the requests of another namespace separately.
const NAMESPACE: &str = "namespace";

/// Parses the descriptors of a policy of this namespace. Those of the settings precede them.
pub fn parse(
    spec: &GlobalRateLimitSpec,
    namespace: &str,
    settings: &Settings,
) -> Result<Arc<GlobalRateLimit>, FieldFault> {
    let at_feature = |message: String| FieldFault::new("", message);
    if settings.rate_limit.endpoint.is_none() {
        return Err(at_feature("no service counts requests: the setting rateLimit.endpoint is empty".to_owned()));
    }
    if !settings.tenants.global_rate_limits {
        return Err(at_feature("the setting tenants.globalRateLimits does not allow it".to_owned()));
    }
    let GlobalRateLimitSpec { descriptors } = spec;
    if descriptors.is_empty() || descriptors.len() > DESCRIPTORS {
        return Err(FieldFault::new(".descriptors", format!("not between 1 and {DESCRIPTORS} descriptors")));
    }
    let parsed = descriptors.iter().enumerate().map(|(index, descriptor)| {
        entries(descriptor, namespace).map_err(|fault| fault.within(format_args!(".descriptors[{index}]")))
    });
    let own = parsed.collect::<Result<Vec<_>, FieldFault>>()?;
    Ok(Arc::new(GlobalRateLimit { descriptors: settings.rate_limit.descriptors.iter().cloned().chain(own).collect() }))
}

fn entries(descriptor: &DescriptorSpec, namespace: &str) -> Result<Vec<RateLimitEntry>, FieldFault> {
    let DescriptorSpec { entries } = descriptor;
    if entries.is_empty() || entries.len() > ENTRIES {
        return Err(FieldFault::new(".entries", format!("not between 1 and {ENTRIES} entries")));
    }
    let first = RateLimitEntry::GenericKey { key: Some(NAMESPACE.to_owned()), value: namespace.to_owned() };
    let parsed = entries
        .iter()
        .enumerate()
        .map(|(index, one)| entry(one).map_err(|fault| fault.within(format_args!(".entries[{index}]"))));
    std::iter::once(Ok(first)).chain(parsed).collect()
}

fn entry(spec: &DescriptorEntrySpec) -> Result<RateLimitEntry, FieldFault> {
    let DescriptorEntrySpec { r#type, key, value, header } = spec;
    let used: &[&str] = match r#type {
        DescriptorEntryType::Value => &["key", "value"],
        DescriptorEntryType::Header => &["key", "header"],
        DescriptorEntryType::ClientAddress => &[],
    };
    let given = [("key", key), ("value", value), ("header", header)].into_iter().filter(|(_, text)| text.is_some());
    if let Some((name, _)) = given.into_iter().find(|(name, _)| !used.contains(name)) {
        return Err(FieldFault::new(format!(".{name}"), format!("has no effect on an entry of the type {type:?}")));
    }
    match r#type {
        DescriptorEntryType::Value => {
            Ok(RateLimitEntry::GenericKey { key: Some(text(".key", key)?), value: text(".value", value)? })
        }
        DescriptorEntryType::Header => {
            let name = header.as_deref().unwrap_or_default();
            let header = HeaderName::parse(name)
                .ok_or_else(|| FieldFault::new(".header", format!("{name:?} is not the name of a header")))?;
            Ok(RateLimitEntry::RequestHeader { header_name: header.to_string(), descriptor_key: text(".key", key)? })
        }
        DescriptorEntryType::ClientAddress => Ok(RateLimitEntry::RemoteAddress),
    }
}

/// Returns a text without the percent sign, which begins an operator in some configurations of Envoy.
fn text(field: &str, text: &Option<String>) -> Result<String, FieldFault> {
    let text = text.as_deref().unwrap_or_default();
    let is_valid =
        (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'%');
    match is_valid {
        true => Ok(text.to_owned()),
        false => Err(FieldFault::new(
            field,
            format!("{text:?} is not a text of 1 to {LONGEST} visible characters without \"%\""),
        )),
    }
}
