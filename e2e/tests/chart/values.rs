//! Wrong values, each with what helm must say of it.

use crate::template;

#[track_caller]
fn assert_refused(values: &[&str], parts: &[&str]) {
    let Err(error) = template(values) else { panic!("{values:?} was taken") };
    for part in parts {
        assert!(error.contains(part), "{values:?}: {part:?} is not in\n{error}");
    }
}

#[test]
fn a_value_that_does_not_exist_is_named() {
    assert_refused(&["replicaCount=3"], &["replicaCount", "additional properties"]);
    assert_refused(&["envoy.replica=3"], &["/envoy", "replica", "additional properties"]);
    assert_refused(&["envoy.service.ports.htp=80"], &["/envoy/service/ports", "htp"]);
    assert_refused(&["xdsTls.certManager.issuerRef.nam=ca"], &["/xdsTls/certManager/issuerRef", "nam"]);
}

#[test]
fn a_value_of_the_wrong_kind_is_named() {
    assert_refused(&["controller.replicas=two"], &["/controller/replicas", "want integer"]);
    assert_refused(&["controller.replicas=-1"], &["/controller/replicas", "minimum"]);
    assert_refused(&["ingressClass.default=maybe"], &["/ingressClass/default", "want boolean"]);
    assert_refused(&["ingressClass.name=My Class"], &["/ingressClass/name", "pattern"]);
    assert_refused(&["envoy.kind=StatefulSet"], &["/envoy/kind", "'Deployment'", "'DaemonSet'"]);
    assert_refused(&["envoy.service.type=Loadbalancer"], &["/envoy/service/type", "'LoadBalancer'"]);
    assert_refused(&["envoy.service.ports.http=70000"], &["/envoy/service/ports/http", "maximum"]);
    assert_refused(&["image.digest=sha256:abc"], &["/image/digest", "pattern"]);
    assert_refused(&["xdsTls.mode=off"], &["/xdsTls/mode", "'cert-manager'"]);
    assert_refused(&["watchNamespaces={shop,Shop_2}"], &["/watchNamespaces/1", "pattern"]);
    assert_refused(&["controller.log.format=logfmt"], &["/controller/log/format", "'json'"]);
}

#[test]
fn values_that_do_not_fit_each_other_are_named() {
    assert_refused(
        &["envoy.kind=DaemonSet", "envoy.autoscaling.enabled=true"],
        &["envoy.autoscaling.enabled", "DaemonSet"],
    );
    assert_refused(&["xdsTls.mode=secrets", "xdsTls.secrets.envoy=a"], &["xdsTls.secrets.server"]);
    assert_refused(&["xdsTls.mode=secrets", "xdsTls.secrets.server=a"], &["xdsTls.secrets.envoy"]);
    let scaled = "envoy.autoscaling.enabled=true";
    assert_refused(
        &[scaled, "envoy.autoscaling.minReplicas=5", "envoy.autoscaling.maxReplicas=4"],
        &["minReplicas", "5", "4"],
    );
    assert_refused(
        &[scaled, "envoy.autoscaling.targetCPUUtilizationPercentage=0"],
        &["targetMemoryUtilizationPercentage"],
    );
    assert_refused(&["envoy.resources.limits.memory=1.5Gi"], &["envoy.resources.limits.memory", "1.5Gi"]);
}
