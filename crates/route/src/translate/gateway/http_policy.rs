//! The parser of a single HTTPPolicy.

mod authorization;
mod cors;
mod credentials;
mod error_responses;
mod faults;
mod features;
mod global_rate_limit;
mod grpc_json;
mod headers;
mod host_of_path;
mod limits;
mod mirrors;
mod oidc;
mod processing;
mod references;
mod regex_rewrite;
mod rewrite;
mod targets;
mod tokens;
mod wasm;

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{CompressionAlgorithm, HostRewrite};
use crate::objects::gateway::{
    CompressionAlgorithmSpec, CompressionSpec, ErrorResponseSpec, HttpFeaturesSpec, HttpPolicy, Lenient, MirrorSpec,
};
use crate::objects::{Kind, ObjectId, Precedence, Revision};
use crate::translate::dialect::Resolver;
use crate::translate::fault::FieldFault;
use crate::translate::problem::{Problem, Reason};
use crate::translate::source::Dependencies;
use crate::translate::verdict::ConditionFault;

pub(in crate::translate) use features::{Shared, Unenforceable};

use features::{Feature, WAITS};
pub use features::{Features, Layers, over};
pub use targets::{SectionTarget, of_namespace};

/// An HTTPPolicy, parsed.
#[derive(Debug, PartialEq)]
pub struct ParsedHttpPolicy {
    /// A reference to it.
    pub origin: ObjectRef,
    /// The hash of its content.
    pub revision: Revision,
    /// Its rank among policies with the same target.
    pub precedence: Precedence,
    /// The targets in the order of the spec.
    pub targets: Box<[Result<SectionTarget, ConditionFault>]>,
    /// The features.
    pub layers: Layers,
    /// The faults of the features. Their routes are closed.
    pub problems: Box<[Arc<Problem>]>,
    /// The faults of parts of features. The parts are left out, and the rest of the feature is enforced.
    pub left_out: Box<[Arc<Problem>]>,
    /// The inputs that it depends on.
    pub dependencies: Dependencies,
}

impl ParsedHttpPolicy {
    /// Returns the objects that it targets.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectId> {
        self.targets.iter().flatten().map(|target| &target.object)
    }
}

/// The consequence of a feature that cannot be enforced.
const CONSEQUENCE: &str = "requests to its targets are answered 403";

/// The path of the features that no other policy can replace.
const OVERRIDES: &str = "spec.overrides.";

/// Parses a policy.
pub fn parse(policy: &HttpPolicy, mut resolver: Resolver) -> ParsedHttpPolicy {
    let HttpPolicy { meta, spec, status: _, version: _ } = policy;
    let origin = meta.object_ref(Kind::HTTP_POLICY);
    let mut parser = Parser { origin: &origin, at: "spec.", problems: Vec::new(), left_out: Vec::new() };
    let mut features = parser.features(&spec.features, &meta.key.namespace, &mut resolver);
    let mut part = |at: &'static str, part: &Option<Lenient<HttpFeaturesSpec>>| {
        parser.at = at;
        match part.as_ref()? {
            Lenient::Valid(part) => Some(parser.features(part, &meta.key.namespace, &mut resolver)),
            Lenient::Invalid(fault) => {
                parser.problem(at.trim_end_matches('.').to_owned(), fault.clone());
                Some(Features::unknown())
            }
        }
    };
    if let Some(defaults) = part("spec.defaults.", &spec.defaults) {
        features = features.or(&defaults);
    }
    let overrides = part(OVERRIDES, &spec.overrides).unwrap_or_default().decided_by(&origin);
    // The origin of a policy counts once.
    let features = Features { origins: vec![origin.clone()], ..features.decided_by(&origin) };
    let layers = Layers { features, overrides };
    let problems = parser.problems.into_iter().map(Arc::new).collect();
    let left_out = parser.left_out.into_iter().map(Arc::new).collect();
    let targets = spec.target_refs.iter().map(|target| targets::parse(target, &meta.key.namespace, &mut resolver));
    let targets = targets.collect();
    ParsedHttpPolicy {
        revision: Revision::new(meta, spec),
        precedence: resolver.context.objects.precedence(Kind::HTTP_POLICY, meta),
        targets,
        layers,
        problems,
        left_out,
        dependencies: resolver.into_dependencies(),
        origin,
    }
}

/// The state of parsing one policy.
struct Parser<'p> {
    origin: &'p ObjectRef,
    /// The path of the features, with a period.
    at: &'static str,
    problems: Vec<Problem>,
    left_out: Vec<Problem>,
}

impl Parser<'_> {
    fn features(&mut self, spec: &HttpFeaturesSpec, namespace: &Arc<str>, resolver: &mut Resolver) -> Features {
        // Without `..`, so that a new feature does not compile until it is parsed.
        let HttpFeaturesSpec {
            client_addresses,
            basic_authentication,
            api_keys,
            jwt,
            oidc,
            csrf,
            cors,
            external_authorization,
            local_rate_limit,
            global_rate_limit,
            max_request_body,
            request_buffering,
            external_processing,
            wasm,
            grpc_json,
            max_response_body,
            faults,
            retries,
            timeouts,
            url_rewrite,
            mirrors,
            request_headers,
            response_headers,
            error_responses,
            compression,
            unknown,
        } = spec;
        let (replaces, origin) = (self.at == OVERRIDES, self.origin);
        let settings = resolver.context.settings;
        let tenants = &settings.tenants;
        let error_responses = error_responses.as_ref().filter(|_| settings.http.error_responses).cloned();
        let has_unallowed_answers = spec.error_responses.is_some() && error_responses.is_none();
        let (most_retries, most_buffered) = (tenants.max_retries, tenants.max_buffered_bytes);
        let (mut unheld, mut harmless, mut uncalled) = (None, Vec::new(), Vec::new());
        let (mut faulty, mut excess, mut unsent, mut kept) = (Vec::new(), None, Vec::new(), Vec::new());
        let mut features = Features {
            client_addresses: self.feature("clientAddresses", client_addresses, credentials::client_addresses),
            basic_authentication: self.feature("basicAuthentication", basic_authentication, |spec| {
                credentials::basic_authentication(spec, namespace, resolver, &mut faulty)
            }),
            api_keys: self
                .feature("apiKeys", api_keys, |spec| credentials::api_keys(spec, namespace, resolver, &mut faulty)),
            jwt: self.feature("jwt", jwt, |spec| tokens::jwt(spec, namespace, resolver)),
            oidc: self.feature("oidc", oidc, |spec| oidc::parse(spec, origin, namespace, resolver)),
            csrf: self.feature("csrf", csrf, credentials::csrf),
            cors: self.feature("cors", cors, |spec| Ok(Shared { value: cors::parse(spec)?, replaces })),
            authorization: self.feature("externalAuthorization", external_authorization, |spec| {
                authorization::parse(spec, namespace, resolver)
            }),
            local_rate_limit: self.feature("localRateLimit", local_rate_limit, limits::local_rate_limit),
            global_rate_limit: self.feature("globalRateLimit", global_rate_limit, |spec| {
                global_rate_limit::parse(spec, namespace, settings)
            }),
            max_request_body_bytes: self
                .feature("maxRequestBody", max_request_body, |text: &String| limits::body(text)),
            buffered_request_bytes: self.feature("requestBuffering", request_buffering, |spec| {
                let (bytes, more) = limits::buffered(spec, most_buffered)?;
                unheld = more;
                Ok(bytes)
            }),
            processing: self.feature("externalProcessing", external_processing, |spec| {
                processing::parse(spec, namespace, resolver)
            }),
            wasm: self.feature("wasm", wasm, |spec| wasm::parse(spec, namespace, &settings.wasm)),
            grpc_json: self.feature("grpcJson", grpc_json, |spec| {
                grpc_json::parse(spec, tenants.max_grpc_json_bytes, &mut uncalled)
            }),
            max_response_body: self.feature("maxResponseBody", max_response_body, limits::response),
            faults: self.feature("faults", faults, |spec| Ok(faults::parse(spec, &mut harmless))),
            retries: self.feature("retries", retries, |spec| {
                let (value, more) = limits::retries(spec, most_retries)?;
                excess = more;
                Ok(Shared { value, replaces })
            }),
            timeouts: self
                .feature("timeouts", timeouts, |spec| Ok(Shared { value: limits::timeouts(spec)?, replaces })),
            rewrite: self.feature("urlRewrite", url_rewrite, |spec| {
                Ok(Shared { value: rewrite::parse(spec, &mut resolver.patterns)?, replaces })
            }),
            mirrors: self.feature("mirrors", mirrors, |specs: &Vec<MirrorSpec>| {
                mirrors::parse(specs, namespace, resolver, &mut unsent)
            }),
            request_headers: self.feature("requestHeaders", request_headers, headers::changes),
            response_headers: self.feature("responseHeaders", response_headers, headers::changes),
            error_responses: self.feature("errorResponses", &error_responses, |specs: &Vec<ErrorResponseSpec>| {
                Ok(error_responses::parse(specs, &mut kept))
            }),
            compression: self.feature("compression", compression, |spec| Ok(self::compression(spec))),
            unknown: unknown.keys().next().map(|name| {
                self.problem(format!("{}{name}", self.at), "this feature is not known".to_owned());
                Err(Unenforceable)
            }),
            counted_for: None,
            origins: Vec::new(),
            decided: Vec::new(),
        };
        for FieldFault { field, message } in faulty {
            let problem = self.fault(format!("{}{field}", self.at), message, "this client is not authenticated");
            self.left_out.push(problem);
        }
        // A route with more is closed. The features of several policies can add up to as many.
        if features.resolve().is_ok_and(|policy| policy.waiting().count() > WAITS) {
            let message =
                "a request can wait for two servers, not also for externalAuthorization and for jwt with remote keys";
            self.problem(format!("{}oidc", self.at), message.to_owned());
            features.oidc = Some(Err(Unenforceable));
        }
        if let Some((field, message)) = features.excluded() {
            self.problem(format!("{}{field}", self.at), message.to_owned());
            match features.processing {
                Some(_) => features.processing = Some(Err(Unenforceable)),
                None => features.grpc_json = Some(Err(Unenforceable)),
            }
        }
        let has_excess_delay =
            features.resolve().is_ok_and(|policy| policy.delays_held_bodies() && policy.waiting().count() >= WAITS);
        for FieldFault { field, message } in uncalled {
            let problem = self.fault(
                format!("{}grpcJson{field}", self.at),
                message,
                "requests with JSON do not call these methods",
            );
            self.left_out.push(problem);
        }
        for FieldFault { field, message } in unsent {
            let problem = self.fault(format!("{}mirrors{field}", self.at), message, "requests are not copied to it");
            self.left_out.push(problem);
        }
        if let (Some(Ok(rewrite)), Some(Ok(changes))) = (&features.rewrite, &features.request_headers)
            && let Some(HostRewrite::Header(name)) = &rewrite.value.rewrite.host
            && changes.iter().any(|change| change.may_replace_host_in(name))
        {
            let message = format!("\"requestHeaders\" sets header \"{name}\" to something else than a host");
            self.problem(format!("{}urlRewrite.hostnameFrom.header", self.at), message);
            features.rewrite = Some(Err(Unenforceable));
        }
        if has_unallowed_answers {
            let message = "the setting http.errorResponses does not allow it".to_owned();
            let problem = self.fault(format!("{}errorResponses", self.at), message, "no responses are replaced");
            self.left_out.push(problem);
        }
        for FieldFault { field, message } in kept {
            let problem =
                self.fault(format!("{}errorResponses{field}", self.at), message, "this answer replaces no responses");
            self.left_out.push(problem);
        }
        if let Some(Ok(faults)) = features.faults.as_mut().filter(|_| has_excess_delay) {
            faults.delay = None;
            harmless.push(FieldFault::new(
                ".delay",
                "a request can wait for two servers, not also for a delay in front of requestBuffering",
            ));
        }
        for FieldFault { field, message } in harmless {
            let problem = self.fault(format!("{}faults{field}", self.at), message, "this fault is not injected");
            self.left_out.push(problem);
        }
        if let Some(FieldFault { field, message }) = unheld {
            let consequence = format!("{most_buffered} bytes applied");
            let problem = self.fault(format!("{}requestBuffering{field}", self.at), message, &consequence);
            self.left_out.push(problem);
        }
        if let Some(FieldFault { field, message }) = excess {
            let consequence = format!("{most_retries} attempts applied");
            let problem = self.fault(format!("{}retries{field}", self.at), message, &consequence);
            self.left_out.push(problem);
        }
        features
    }

    /// Parses a feature.
    fn feature<S, T>(
        &mut self,
        field: &str,
        spec: &Option<Lenient<S>>,
        parse: impl FnOnce(&S) -> Result<T, FieldFault>,
    ) -> Feature<T> {
        let parsed = match spec.as_ref()? {
            Lenient::Valid(spec) => parse(spec),
            Lenient::Invalid(fault) => Err(FieldFault::new("", fault.clone())),
        };
        Some(parsed.map_err(|fault| {
            let FieldFault { field, message } = fault.within(field);
            self.problem(format!("{}{field}", self.at), message);
            Unenforceable
        }))
    }

    fn problem(&mut self, field: String, message: String) {
        let problem = self.fault(field, message, CONSEQUENCE);
        self.problems.push(problem);
    }

    fn fault(&self, field: String, message: String, consequence: &str) -> Problem {
        let (object, consequence) = (self.origin.clone(), consequence.to_owned());
        Problem { object, field, reason: Reason::PolicyNotValid, message: message.into(), consequence }
    }
}

fn compression(spec: &CompressionSpec) -> Arc<[CompressionAlgorithm]> {
    let algorithm = |one: &CompressionAlgorithmSpec| match one {
        CompressionAlgorithmSpec::Gzip => CompressionAlgorithm::Gzip,
        CompressionAlgorithmSpec::Brotli => CompressionAlgorithm::Brotli,
        CompressionAlgorithmSpec::Zstd => CompressionAlgorithm::Zstd,
    };
    spec.algorithms.iter().map(algorithm).collect()
}
