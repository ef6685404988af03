//! Keys of the selection of Ingresses and Gateways.

use super::*;

/// In the order of the reference.
pub const SELECTION: &[SettingsKey] = &[
    key!(
        "ingress.controllerName",
        ControllerName,
        route.ingress.controller,
        "The value of `spec.controller` in the IngressClasses that this installation serves. Use another name for \
         each installation in one Kubernetes cluster."
    ),
    key!(
        "ingress.classNames",
        List<ClassName>,
        route.ingress.class_names,
        "Ingress classes that are served even without an IngressClass object. Classes whose object names this \
         controller are always served."
    ),
    key!(
        "ingress.withoutClass",
        Bool,
        route.ingress.classless,
        "Serves Ingresses and HTTPProxies without a class, even if no IngressClass of this controller is the default class."
    ),
    key!(
        "ingress.restrictingAnnotations",
        Word<RestrictingAnnotations>,
        route.ingress.restricting_annotations,
        "The treatment of paths with an annotation of another ingress controller that [restricts \
         access](annotations.md#annotations-that-restrict-access), such as `nginx.ingress.kubernetes.io/auth-url`. \
         `deny`: requests are answered 403. `ignore`: requests are served without the restriction. The Ingress gets \
         a Warning in both cases."
    ),
    key!(
        "ingress.ignoredAnnotations",
        List<AnnotationName>,
        route.ingress.ignored_annotations,
        "Annotations of other ingress controllers, by full name, that are ignored without a report, even if they \
         restrict access. Example: `nginx.ingress.kubernetes.io/auth-url` if `externalAuthorization` protects all \
         hosts."
    ),
    key!(
        "ingress.httpsRedirect",
        Bool,
        route.tls.redirect,
        "Redirects plain HTTP to HTTPS for all hosts of Ingresses that a rule names and that have a usable certificate. It does \
         not redirect rules without a host, and paths of rules below `/.well-known/acme-challenge`, which serve to issue \
         certificates. Annotations of an Ingress override it: `ingress.kubernetes.io/force-ssl-redirect` and \
         `nginx.ingress.kubernetes.io/ssl-redirect`. If `http.trustedHops` is above 0, requests with `x-forwarded-proto: https` \
         are served, because the proxy in front of Envoy has received them over HTTPS. Turn it off behind a load balancer that \
         terminates TLS and does not send this header: its requests would be redirected forever. Routes of Gateway API \
         redirect with a filter."
    ),
    key!(
        "ingress.httpsRedirectStatus",
        RedirectStatus,
        route.tls.redirect_status,
        "The status of redirects to HTTPS, including those by annotation. With 307 and 308, clients keep the method \
         and the body of a request."
    ),
    key!(
        "gateway.controller",
        ControllerName,
        route.gateway.controller,
        "The value of `spec.controllerName` in the GatewayClasses that this installation serves. Use another name for \
         each installation in one Kubernetes cluster."
    ),
    key!(
        "gateway.restrictingPolicies",
        Word<RestrictingPolicies>,
        route.gateway.restricting_policies,
        "The treatment of routes with a policy of Envoy Gateway that [restricts \
         access](annotations.md#policies-of-envoy-gateway), such as a SecurityPolicy with `basicAuth`. `deny`: HTTP requests are \
         answered 403, and other connections are closed. `ignore`: the routes are served without the restriction. The route gets a \
         Warning in both cases."
    ),
    key!(
        "gateway.ignoredPolicies",
        List<ObjectName>,
        route.gateway.ignored_policies,
        "Policies of Envoy Gateway that are ignored without a report, even if they restrict access. Example: `shop/login` if an \
         HTTPPolicy protects its routes, while Envoy Gateway still serves them."
    ),
    key!(
        "gateway.dedicatedFleets.max",
        FleetCount,
        route.gateway.fleets.max,
        "The maximum number of dedicated fleets: Envoys of a single Gateway, which refers to an EnvoyFleet. Younger Gateways \
         beyond it are not served. 0 disables dedicated fleets. One Secret has the key pairs of all, so there are at most \
         400. The value `gatewayAPI.dedicatedFleets` of the chart sets it, and grants the permissions that the controller needs."
    ),
    key!(
        "gateway.dedicatedFleets.maxPerNamespace",
        Count,
        route.gateway.fleets.max_per_namespace,
        "The maximum number of dedicated fleets for the Gateways of one namespace."
    ),
    key!(
        "gateway.dedicatedFleets.maxReplicas",
        Positive,
        route.gateway.fleets.max_replicas,
        "The maximum number of Envoys of a dedicated fleet, also with autoscaling. An EnvoyFleet with more replicas is not valid."
    ),
    key!(
        "gateway.dedicatedFleets.maxCpus",
        Positive,
        route.gateway.fleets.max_cpus,
        "The maximum number of CPUs that an Envoy of a dedicated fleet may request or be limited to."
    ),
    key!(
        "gateway.dedicatedFleets.maxMemory",
        Heap,
        route.gateway.fleets.max_memory,
        "The maximum memory that an Envoy of a dedicated fleet may request or be limited to."
    ),
    key!(
        "gateway.dedicatedFleets.template",
        Maybe<TemplateFile>,
        process.fleet_template,
        "A YAML file with the Deployment that is copied for each dedicated fleet. The chart writes it. Without it, the controller creates \
         no fleets. Needs `xds.tls: auto`, because each fleet has a key pair of its own.",
        Restart::Controller
    ),
];
