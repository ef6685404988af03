//! Failures of requests to the API server, described for people.

use kube::runtime::watcher;
use lockgate_route::objects::{FOREIGN_POLICIES, Kind};
use lockgate_xds::provenance::ObjectRef;

/// Returns the reference to all objects of `kind`.
pub fn origin(kind: Kind) -> ObjectRef {
    ObjectRef::new(kind.as_str(), "", "*")
}

/// Describes a failure: `cannot list secrets: forbidden: User "x" cannot list …`.
pub fn describe(kind: Kind, error: &watcher::Error) -> String {
    let plural = kind.resource();
    let (verb, why) = match error {
        watcher::Error::InitialListFailed(error) => ("list", reason(error)),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => ("watch", reason(error)),
        watcher::Error::WatchError(status) => ("watch", status.message.clone()),
        watcher::Error::NoResourceVersion => ("watch", "the API server gave no resource version".into()),
    };
    let hint = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 403 => {
            match kind.info().of_gateway_api {
                _ if kind == Kind::HOST_CLAIMS => {
                    "; the claims of hosts are unknown, so the oldest Ingress owns a host; grant list, watch, and patch in the \
                     namespace of the controller"
                }
                _ if kind == Kind::CUSTOM_RESOURCE_DEFINITION => {
                    "; the version of Gateway API is unknown, and experimental features are not reported; grant list and \
                     watch in a ClusterRole"
                }
                _ if kind == Kind::BACKEND_TLS_POLICY => {
                    "; it is unknown which backends are verified, so backends of HTTPRoutes and GRPCRoutes are answered 500; grant \
                     list and watch in a ClusterRole, or set watch.gatewayApi to false"
                }
                _ if kind == Kind::BACKEND_POLICY => {
                    "; the BackendPolicies are unknown, so Services are served without them; grant list and watch in a \
                     ClusterRole"
                }
                _ if kind == Kind::X_BACKEND_TRAFFIC_POLICY => {
                    "; the XBackendTrafficPolicies are unknown, so Services are served without them; grant list and watch in a \
                     ClusterRole, or set watch.gatewayApi to false"
                }
                _ if kind == Kind::HTTP_POLICY => {
                    "; it is unknown which Ingresses and routes are restricted, so they are answered 503 and 500; grant list and watch in a \
                     ClusterRole"
                }
                _ if FOREIGN_POLICIES.contains(&kind) => {
                    "; it is unknown which routes they protect, so routes are served without them; grant list and watch in a \
                     ClusterRole"
                }
                _ if kind == Kind::HOST_GRANT => {
                    "; the HostGrants are unknown, so hosts are served as without them, or not at all with hosts.requireGrant; grant \
                     list and watch in a ClusterRole"
                }
                true => "; grant list and watch in a ClusterRole, or set watch.gatewayApi to false",
                false => "; grant list and watch in a ClusterRole",
            }
        }
        _ => "",
    };
    format!("cannot {verb} {plural}: {why}{hint}")
}

/// Describes an error with all its causes, because the last cause is the most specific.
pub fn reason(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let text = chain(error);
    match text.strip_prefix("ServiceError: client error (Connect): ") {
        Some(cause) => format!("the API server cannot be reached: {cause}"),
        None => text,
    }
}

/// Returns an error and its causes, without causes that the text before already contains.
pub fn chain(error: &dyn std::error::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
