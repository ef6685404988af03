//! The feature `grpcJson`: requests with JSON call the methods of gRPC services.
//!
//! Envoy 1.40 crashes on some responses that are not valid: those of streams, and those with maps. So methods with them are left out. See
//! `docs/decisions/0080-policies-are-applied-to-hosts.md`.

mod paths;
#[cfg(test)]
mod tests;
mod types;
mod wire;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use prost::Message;

use self::paths::Binding;
use self::types::{FILES, Messages, PACKAGE, is_identifier, shown};
use self::wire::{
    DescribedTypes, DescriptorSet, FileDescriptor, HttpRule, MethodDescriptor, MethodOptions, ServiceDescriptor,
};
use crate::model::GrpcJson;
use crate::objects::gateway::GrpcJsonSpec;
use crate::translate::fault::FieldFault;

/// The maximum number of services, and the maximum size of the text with the descriptors. Source: CustomResourceDefinition. Manifests are not
/// validated against it.
const SERVICES: usize = 16;
const TEXT: usize = 512 << 10;
/// The maximum size of the descriptors of a policy, in bytes, without the parts that JSON does not need. Each route has a copy.
const SIZE: usize = 64 << 10;
/// The number of methods that a message names.
const NAMED: usize = 5;
/// The packages of the descriptors that Envoy or Lockgate add.
const TAKEN: [&str; 3] = [PACKAGE, "google.api", "google.protobuf"];

/// Parses the feature. `most` is the maximum size of a body in bytes, of the settings. The parts are methods that cannot be called.
pub fn parse(spec: &GrpcJsonSpec, most: u32, left_out: &mut Vec<FieldFault>) -> Result<Arc<GrpcJson>, FieldFault> {
    let GrpcJsonSpec { descriptors, services: wanted } = spec;
    if most == 0 {
        return Err(FieldFault::new("", "the setting tenants.maxGrpcJsonBytes does not allow it"));
    }
    let set = decoded(descriptors).map_err(|message| FieldFault::new(".descriptors", message))?;
    let types = DescribedTypes::of(&set);
    let services = selected(&set, wanted)?;
    let mut writer = Writer { messages: Messages::new(&types), types: &types, keys: HashSet::new() };
    let mut files: BTreeMap<&str, Vec<ServiceDescriptor>> = BTreeMap::new();
    let mut uncalled = Vec::new();
    for (name, (i, package, service)) in &services {
        let (written, without) = writer.service(name, service);
        uncalled.extend(without.into_iter().map(|one| (*i, one)));
        files.entry(package).or_default().push(written);
    }
    if !files.values().flatten().any(|service| !service.method.is_empty()) {
        let texts: Vec<&str> = uncalled.iter().map(|(_, one)| &*one.text).collect();
        let message = if texts.is_empty() { "the services have no methods".to_owned() } else { summary(&texts) };
        return Err(FieldFault::new(".services", message));
    }
    let descriptors = encoded(writer.messages, files);
    if descriptors.len() > SIZE {
        let message = format!(
            "the services take {} KiB, without comments and options, and more than {} KiB are not allowed",
            descriptors.len() >> 10,
            SIZE >> 10
        );
        return Err(FieldFault::new(".services", message));
    }
    // Many services have streams. The author of a path expects that requests can call the method.
    uncalled.retain(|(_, one)| one.has_path);
    left_out.extend(uncalled.chunk_by(|(i, _), (other, _)| i == other).filter_map(|of_service| {
        let texts: Vec<&str> = of_service.iter().map(|(_, one)| &*one.text).collect();
        of_service.first().map(|(i, _)| FieldFault::new(format!(".services[{i}]"), summary(&texts)))
    }));
    let services = services.into_keys().map(Arc::from).collect();
    Ok(Arc::new(GrpcJson { descriptors: descriptors.into(), services, max_bytes: most }))
}

/// Decodes the text of a policy, which may have line breaks.
fn decoded(text: &str) -> Result<DescriptorSet, String> {
    if text.len() > TEXT {
        return Err(format!("more than {} KiB", TEXT >> 10));
    }
    let text: String = text.split_ascii_whitespace().collect();
    let bytes = BASE64_STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))?;
    DescriptorSet::decode(&*bytes).map_err(|_| "not a FileDescriptorSet".to_owned())
}

/// A service: its place in the policy, its package, and its descriptor.
type Selected<'s> = (usize, &'s str, &'s ServiceDescriptor);

/// Returns the services of a policy by their full names. No two descriptors that are written have one name.
fn selected<'s>(set: &'s DescriptorSet, wanted: &'s [String]) -> Result<BTreeMap<&'s str, Selected<'s>>, FieldFault> {
    if wanted.is_empty() || wanted.len() > SERVICES {
        return Err(FieldFault::new(".services", format!("{} services, not 1 to {SERVICES}", wanted.len())));
    }
    let known =
        set.file.iter().flat_map(|file| file.service.iter().map(move |one| (full_name(file, one), (file, one))));
    let known: HashMap<_, _> = known.collect();
    let mut services = BTreeMap::new();
    for (i, name) in wanted.iter().enumerate() {
        let fault = |message: String| Err(FieldFault::new(format!(".services[{i}]"), message));
        let Some((file, service)) = known.get(name) else {
            return fault(format!("the descriptors have no service {:?}", shown(name)));
        };
        let is_within =
            |outer: &str| name.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        if !name.split('.').all(is_identifier) || TAKEN.into_iter().any(is_within) {
            return fault(format!("{:?} is not a valid name of a service", shown(name)));
        }
        services.insert(name.as_str(), (i, file.package(), *service));
    }
    let scopes = services.keys().copied().chain(TAKEN);
    let scopes: HashSet<&str> = scopes.flat_map(|name| name.match_indices('.').map(|(at, _)| &name[..at])).collect();
    match services.iter().find(|(name, _)| scopes.contains(*name)) {
        Some((name, (i, ..))) => {
            Err(FieldFault::new(format!(".services[{i}]"), format!("{name:?} is the name of a package, too")))
        }
        None => Ok(services),
    }
}

/// Returns the set with these messages, and the services of each package.
fn encoded(messages: Messages, services: BTreeMap<&str, Vec<ServiceDescriptor>>) -> Vec<u8> {
    let of_services = services.into_iter().enumerate().map(|(i, (package, service))| FileDescriptor {
        name: Some(format!("lockgate/services{i}.proto")),
        package: (!package.is_empty()).then(|| package.to_owned()),
        dependency: FILES.map(str::to_owned).to_vec(),
        service,
        syntax: Some("proto3".to_owned()),
        ..FileDescriptor::default()
    });
    let file = messages.into_files().into_iter().chain(of_services).collect();
    DescriptorSet { file }.encode_to_vec()
}

/// Returns the first texts, and the number of the others.
fn summary(texts: &[&str]) -> String {
    let named = texts.iter().take(NAMED).copied().collect::<Vec<_>>().join("; ");
    match texts.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

fn full_name(file: &FileDescriptor, service: &ServiceDescriptor) -> String {
    match file.package() {
        "" => service.name().to_owned(),
        package => format!("{package}.{}", service.name()),
    }
}

/// A method that cannot be called.
struct Uncalled {
    /// The method, and why.
    text: String,
    /// Whether it has a path of `google.api.http`.
    has_path: bool,
}

/// The services that are written.
struct Writer<'s> {
    messages: Messages<'s>,
    types: &'s DescribedTypes<'s>,
    /// The keys of all requests.
    keys: HashSet<String>,
}

impl Writer<'_> {
    /// Returns a service with the methods that Envoy can call, and why it cannot call the others.
    fn service(&mut self, name: &str, service: &ServiceDescriptor) -> (ServiceDescriptor, Vec<Uncalled>) {
        let (mut method, mut without, mut names) = (Vec::new(), Vec::new(), HashSet::new());
        for one in &service.method {
            let written = match names.insert(one.name()) {
                true => self.method(name, one),
                false => Err("has the name of another method".to_owned()),
            };
            match written {
                Ok(written) => method.push(written),
                Err(fault) => without.push(Uncalled {
                    text: format!("method {:?} of {:?} {fault}", shown(one.name()), shown(name)),
                    has_path: one.options.as_ref().is_some_and(|options| options.http.is_some()),
                }),
            }
        }
        (ServiceDescriptor { name: service.name.clone(), method }, without)
    }

    fn method(&mut self, service: &str, method: &MethodDescriptor) -> Result<MethodDescriptor, String> {
        if !is_identifier(method.name()) {
            return Err("has a name that is not valid".to_owned());
        }
        if method.client_streaming() || method.server_streaming() {
            return Err("is a stream".to_owned());
        }
        self.messages.check(method.input_type())?;
        self.messages.check(method.output_type())?;
        let path = format!("/{service}/{}", method.name());
        let default = HttpRule { post: Some(path), body: Some("*".to_owned()), ..HttpRule::default() };
        let rule = method.options.as_ref().and_then(|options| options.http.as_ref()).unwrap_or(&default);
        let bindings = paths::bindings(rule, method.input_type(), self.types)?;
        let mut own = HashSet::new();
        for Binding { key, .. } in &bindings {
            if self.keys.contains(key) {
                return Err(format!("has the path {key:?} of another method"));
            }
            if !own.insert(key) {
                return Err(format!("has the path {key:?} twice"));
            }
        }
        self.keys.extend(bindings.iter().map(|binding| binding.key.clone()));
        let mut rules = bindings.into_iter().map(|Binding { rule, .. }| rule);
        let http = rules.next().map(|rule| HttpRule { additional_bindings: rules.collect(), ..rule });
        Ok(MethodDescriptor {
            name: method.name.clone(),
            input_type: Some(self.messages.write(method.input_type())),
            output_type: Some(self.messages.write(method.output_type())),
            options: Some(MethodOptions { http }),
            client_streaming: None,
            server_streaming: None,
        })
    }
}
