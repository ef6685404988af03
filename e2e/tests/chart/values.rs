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
    assert_refused(&["settings.log.format=logfmt"], &["/settings/log/format", "'json'"]);
    assert_refused(&["settings.xds.maxConnections=1"], &["/settings/xds/maxConnections", "minimum"]);
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
    assert_refused(&["settings.listeners.https.port=8003"], &["settings.listeners.https.port", "container `drain`"]);
    assert_refused(&["settings.listeners.overloadProbe.port=8003"], &["settings.listeners.overloadProbe.port", "8003"]);
    assert_refused(&["settings.listeners.stats.tls.port=8003"], &["settings.listeners.stats.tls.port", "8003"]);
    for key in ["tls.defaultSecret", "upstream.clientCertificate", "listeners.stats.tls.clientCa"] {
        assert_refused(
            &["watchNamespaces={shop}", &format!("settings.{key}=edge/a")],
            &[key, "edge/a is not in watch"],
        );
    }
    assert_refused(&["envoy.resources.limits.memory=1.5Gi"], &["envoy.resources.limits.memory", "1.5Gi"]);
}

/// What the chart says by a flag, which would hide it, or what other objects of the chart depend on.
#[test]
fn a_setting_that_is_the_charts_own_is_told_where_it_belongs() {
    for (value, instead) in [
        ("settings.watch.namespaces={shop}", "watchNamespaces"),
        ("settings.xds.address=0.0.0.0:19000", "port 18000"),
        ("settings.xds.tls=off", "xdsTls.mode"),
        ("settings.xds.secrets=edge", "fullnameOverride"),
        ("settings.xds.service=edge", "fullnameOverride"),
        ("settings.xds.peers=edge:18000", "Service of the chart"),
        ("settings.admin.address=127.0.0.1:19001", "0.0.0.0:18001"),
        ("settings.metrics.address=0.0.0.0:19002", "controller.metrics.tlsSecret"),
        ("settings.metrics.tls=/etc/lockgate/metrics", "controller.metrics.tlsSecret"),
        ("settings.leaderElection.lease=edge", "fullnameOverride"),
    ] {
        let (key, _) = value.split_once('=').expect("a value");
        assert_refused(&[value], &[&format!("{key} cannot be chosen here"), instead]);
    }
    let alone = "settings.leaderElection.enabled=false";
    assert_refused(&[alone], &[alone.split_once('=').expect("a value").0, "controller.replicas is 2"]);
    assert!(template(&[alone, "controller.replicas=1"]).is_ok());
}

/// The pods of the controller, and nothing else, are made anew for what only a new process takes up.
#[test]
fn what_needs_a_restart_gets_new_pods() {
    let pods = |values: &[&str]| -> Vec<String> {
        let rendered = template(values).unwrap_or_else(|error| panic!("{error}"));
        let documents = rendered.split("\n---\n").filter(|document| document.contains("\nkind: Deployment\n"));
        documents.map(str::to_owned).collect()
    };
    let defaults = pods(&[]);
    assert_eq!(defaults.len(), 2, "the controller and Envoy");
    for live in ["settings.log.level=debug", "settings.timeouts.connect=3s"] {
        assert_eq!(pods(&[live]), defaults, "{live}");
    }
    let mut seen = vec![defaults];
    for restart in
        ["settings.log.format=json", "settings.xds.gateTimeout=30s", "settings.leaderElection.retryPeriod=3s"]
    {
        let changed = pods(&[restart]);
        assert!(seen.iter().all(|seen| seen[0] != changed[0] && seen[1] == changed[1]), "{restart}: {changed:?}");
        seen.push(changed);
    }
}
