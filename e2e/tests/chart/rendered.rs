//! The rendered chart, checked by a real API server.

use std::path::Path;
use std::process::Command;

use e2e::ApiServer;
use serde_json::Value;

use super::{lab, output, run, template, text};

/// The foreign kinds that the chart can render, with exactly the fields that it uses.
const CRDS: &str = include_str!("crds.yaml");

/// Sets of values that together cover each branch of each template.
const SETS: &[(&str, &[&str])] = &[
    ("defaults", &[]),
    (
        "a DaemonSet at ports of its nodes, for all who name no class",
        &[
            "envoy.kind=DaemonSet",
            "envoy.hostPorts.enabled=true",
            "envoy.service.type=ClusterIP",
            "settings.status.addresses={192.0.2.10,edge.example.com}",
            "ingressClass.default=true",
            "settings.ingress.controllerName=example.com/edge",
            "settings.http.http3.enabled=true",
            "settings.listeners.http.port=9080",
            "ingressClass.annotations.team=edge",
        ],
    ),
    (
        "NodePort, two namespaces, one replica, JSON",
        &[
            "envoy.service.type=NodePort",
            "envoy.service.nodePorts.http=30080",
            "envoy.service.nodePorts.https=30443",
            "envoy.service.externalTrafficPolicy=Cluster",
            "watchNamespaces={shop,payments,shop-2}",
            "controller.replicas=1",
            "settings.log.format=json",
            "envoy.drain.log.format=json",
            "settings.xds.maxConnectionAge=10m",
            "controller.podDisruptionBudget.enabled=false",
            "envoy.podDisruptionBudget.enabled=false",
            "ingressClass.create=false",
            "gatewayAPI.enabled=false",
        ],
    ),
    (
        "scaled, monitored, with a load balancer of its own kind",
        &[
            "envoy.autoscaling.enabled=true",
            "envoy.autoscaling.targetMemoryUtilizationPercentage=80",
            "serviceMonitor.enabled=true",
            "serviceMonitor.labels.release=prometheus",
            "dashboard.enabled=true",
            "dashboard.annotations.grafana_folder=Edge",
            "envoy.service.loadBalancerClass=example.com/lb",
            "envoy.service.loadBalancerSourceRanges={192.0.2.0/24}",
            "envoy.service.annotations.example\\.com/tier=gold",
            "envoy.autoscaling.behavior.scaleUp.stabilizationWindowSeconds=10",
        ],
    ),
    (
        "numbers by TLS",
        &[
            "controller.metrics.tlsSecret=metrics-tls",
            "serviceMonitor.controllerTlsConfig.serverName=lockgate.example.com",
            "settings.listeners.stats.tls.port=8004",
            "settings.listeners.stats.tls.secret=lockgate/stats-tls",
            "settings.listeners.stats.tls.clientCa=lockgate/scrapers",
            "serviceMonitor.enabled=true",
            "serviceMonitor.envoyTlsConfig.serverName=envoy.example.com",
            "watchNamespaces={lockgate,shop}",
        ],
    ),
    (
        "network policies with more than the default",
        &[
            "networkPolicy.xdsFrom[0].namespaceSelector.matchLabels.team=shop",
            "networkPolicy.metricsFrom[0].ipBlock.cidr=192.0.2.0/24",
            "networkPolicy.controllerIngress[0].ports[0].port=admin",
            "networkPolicy.envoyIngress[0].ports[0].port=9001",
            "settings.listeners.overloadProbe.port=8005",
            "settings.http.http3.enabled=true",
            "xdsTls.names.envoys={*.envoys.example.com}",
            "xdsTls.names.grpc={spiffe://example.com/ns/*/sa/client}",
            "xdsTls.names.replicas={lockgate}",
        ],
    ),
    (
        "more containers, volumes, Services, and objects",
        &[
            "controller.extraVolumes[0].name=more",
            "controller.extraVolumes[0].emptyDir.sizeLimit=1Mi",
            "controller.extraVolumeMounts[0].name=more",
            "controller.extraVolumeMounts[0].mountPath=/more",
            "controller.annotations.team=edge",
            "controller.strategy.type=Recreate",
            "controller.service.labels.team=edge",
            "controller.service.annotations.team=edge",
            "controller.service.ipFamilyPolicy=SingleStack",
            "controller.service.ipFamilies={IPv4}",
            "controller.dnsPolicy=Default",
            "envoy.annotations.team=edge",
            "envoy.concurrency=3",
            "envoy.strategy.type=RollingUpdate",
            "envoy.strategy.rollingUpdate.maxSurge=50%",
            "envoy.extraEnv[0].name=POD_NAMESPACE",
            "envoy.extraEnv[0].value=edge",
            "envoy.service.labels.team=edge",
            "envoy.service.ipFamilyPolicy=SingleStack",
            "envoy.service.ipFamilies={IPv4}",
            "envoy.internalService.enabled=true",
            "envoy.internalService.type=LoadBalancer",
            "envoy.internalService.annotations.example\\.com/tier=internal",
            "envoy.internalService.labels.team=edge",
            "serviceMonitor.enabled=true",
            "serviceMonitor.scrapeTimeout=10s",
            "serviceMonitor.relabelings[0].targetLabel=team",
            "serviceMonitor.metricRelabelings[0].action=drop",
            "serviceMonitor.metricRelabelings[0].regex=envoy_.*",
            "prometheusRule.enabled=true",
            "prometheusRule.labels.release=prometheus",
            "prometheusRule.extraRules[0].record=requests",
            "prometheusRule.extraRules[0].expr=sum(envoy_http_downstream_rq_total)",
            "rbac.create=false",
            "extraObjects[0].apiVersion=v1",
            "extraObjects[0].kind=ConfigMap",
            "extraObjects[0].metadata.name=more",
            "extraObjects[0].data.release=from {{.Release.Name}}",
            "settings.http.http3.enabled=true",
        ],
    ),
    ("no network policies", &["networkPolicy.enabled=false"]),
    (
        "pods and Services in detail, in another namespace",
        &[
            "namespaceOverride=shop",
            "controller.hostAliases[0].ip=192.0.2.1",
            "controller.hostAliases[0].hostnames={registry.example.com}",
            "controller.dnsConfig.options[0].name=ndots",
            "controller.startupProbe.failureThreshold=120",
            "controller.livenessProbe=null",
            "controller.readinessProbe.periodSeconds=5",
            "controller.terminationGracePeriodSeconds=60",
            "controller.minReadySeconds=5",
            "controller.podSecurityContext.supplementalGroups={2000}",
            "controller.securityContext.runAsUser=1000",
            "envoy.hostAliases[0].ip=192.0.2.1",
            "envoy.hostAliases[0].hostnames={backend.example.com}",
            "envoy.dnsConfig.nameservers={192.0.2.53}",
            "envoy.readinessProbe.failureThreshold=2",
            "envoy.livenessProbe.tcpSocket.port=stats",
            "envoy.startupProbe.failureThreshold=60",
            "envoy.terminationGracePeriodSeconds=400",
            "envoy.minReadySeconds=10",
            "envoy.service.loadBalancerIP=192.0.2.10",
            "envoy.service.externalIPs={192.0.2.11}",
            "envoy.autoscaling.external=true",
            "gatewayAPI.manageServices=true",
        ],
    ),
    (
        "external addresses, and an autoscaler by other metrics",
        &[
            "envoy.service.type=ClusterIP",
            "envoy.service.externalIPs={192.0.2.11,192.0.2.12}",
            "envoy.autoscaling.enabled=true",
            "envoy.autoscaling.targetCPUUtilizationPercentage=0",
            "envoy.autoscaling.metrics[0].type=Pods",
            "envoy.autoscaling.metrics[0].pods.metric.name=requests_per_second",
            "envoy.autoscaling.metrics[0].pods.target.type=AverageValue",
            "envoy.autoscaling.metrics[0].pods.target.averageValue=1k",
        ],
    ),
    (
        "dedicated fleets with a ServiceMonitor",
        &["gatewayAPI.dedicatedFleets.enabled=true", "serviceMonitor.enabled=true", "envoy.minReadySeconds=10"],
    ),
    (
        "a class of Gateways",
        &[
            "gatewayAPI.gatewayClass.create=true",
            "gatewayAPI.gatewayClass.name=edge",
            "gatewayAPI.gatewayClass.annotations.team=edge",
        ],
    ),
    ("the definitions of Contour's kinds", &["httpProxy.installDefinitions=true"]),
    ("certificates by cert-manager", &["xdsTls.mode=cert-manager"]),
    (
        "certificates by an issuer of the cluster",
        &[
            "xdsTls.mode=cert-manager",
            "xdsTls.certManager.issuerRef.name=ca",
            "xdsTls.certManager.issuerRef.kind=ClusterIssuer",
        ],
    ),
    (
        "certificates of one's own, and whatever can be said of pods",
        &[
            "xdsTls.mode=secrets",
            "xdsTls.secrets.server=xds-server",
            "xdsTls.secrets.envoy=xds-envoy",
            "fullnameOverride=edge",
            "commonLabels.team=edge",
            "image.repository=registry.example.com/lockgate",
            "image.tag=1",
            "envoy.image.digest=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "imagePullSecrets[0].name=registry",
            "serviceAccount.annotations.note=none",
            "controller.extraArgs={--gate-timeout=30s}",
            "controller.extraEnv[0].name=RUST_BACKTRACE",
            "controller.extraEnv[0].value=full",
            "controller.nodeSelector.kubernetes\\.io/os=linux",
            "controller.tolerations[0].operator=Exists",
            "controller.priorityClassName=system-cluster-critical",
            "controller.podLabels.team=edge",
            "envoy.podLabels.team=edge",
            "envoy.nodeSelector.kubernetes\\.io/os=linux",
            "envoy.extraArgs={--concurrency,2}",
            "envoy.resources.limits=null",
            "envoy.topologySpreadConstraints[0].maxSkew=1",
            "envoy.topologySpreadConstraints[0].topologyKey=kubernetes.io/hostname",
            "envoy.topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule",
        ],
    ),
];

/// Runs `kubectl apply --dry-run=server`, which rejects unknown fields. Returns the objects and the warnings.
fn dry_run(kubeconfig: &Path, objects: &str) -> Result<(Vec<Value>, String), String> {
    let mut command = lab("kubectl");
    command.env("KUBECONFIG", kubeconfig).args([
        "apply",
        "--dry-run=server",
        "--validate=strict",
        "--output=json",
        "-f",
        "-",
    ]);
    let output = output(&mut command, objects);
    if !output.status.success() {
        return Err(text(&output.stderr));
    }
    let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    Ok((list["items"].as_array().cloned().unwrap_or_default(), text(&output.stderr)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_takes_it_with_any_values() {
    let server = ApiServer::start().await;
    server.apply(CRDS).await;
    for name in ["lockgate", "shop", "payments", "shop-2"] {
        server.kubectl(&["create", "namespace", name], "").await;
    }
    // A violation of the strictest pod security standard becomes a warning.
    let strict = ["label", "namespace", "lockgate", "pod-security.kubernetes.io/warn=restricted"];
    server.kubectl(&strict, "").await;
    let kubeconfig = server.kubeconfig("admin");
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await;

    for (name, values) in SETS {
        let rendered = template(values).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (objects, warnings) = dry_run(&kubeconfig, &rendered).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = |line: &&str| line.contains("hostPort") || line.contains("spec.loadBalancerIP");
        let warnings: Vec<&str> = warnings.lines().filter(|line| !expected(line)).collect();
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
        assert!(objects.len() > 12, "{name}: {} objects", objects.len());
        assert_flags_parse(name, &objects);
        assert_policies_fit(name, &objects, !values.contains(&"networkPolicy.enabled=false"));
        println!("{name}: {} objects", objects.len());
    }
    for (name, rendered) in examples().into_iter().chain(super::migrated::every_key()) {
        let (objects, warnings) = dry_run(&kubeconfig, &rendered).unwrap_or_else(|error| panic!("{name}: {error}"));
        // Clouds evaluate `loadBalancerIP`, and the API server warns that not all of them do.
        let expected = |line: &&str| line.contains("hostPort") || line.contains("spec.loadBalancerIP");
        let warnings: Vec<&str> = warnings.lines().filter(|line| !expected(line)).collect();
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
        assert_flags_parse(&name, &objects);
        assert_policies_fit(&name, &objects, true);
        assert_settings_are_valid(&name, &objects);
        println!("{name}: {} objects", objects.len());
    }
    let manifests =
        std::fs::read_to_string(e2e::process::repository().join("manifests/lockgate.yaml")).expect("the manifests");
    dry_run(&kubeconfig, &manifests).unwrap_or_else(|error| panic!("manifests/lockgate.yaml: {error}"));
}

/// Returns the chart with each of its files of example values: name, and rendered objects.
pub fn examples() -> Vec<(String, String)> {
    let directory = e2e::process::repository().join("charts/lockgate/examples");
    let entries = std::fs::read_dir(&directory).expect("examples").map(|entry| entry.expect("an entry").path());
    let render = |path: std::path::PathBuf| {
        let mut command = lab("helm");
        command.args(["template", "lockgate", "charts/lockgate", "--namespace", "lockgate", "--values"]).arg(&path);
        let rendered = run(&mut command, "").unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path.file_stem().expect("a name").to_string_lossy().into_owned(), rendered)
    };
    let mut examples: Vec<(String, String)> = entries.map(render).collect();
    examples.sort();
    let names: Vec<&str> = examples.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["aws", "azure", "gke", "kind", "openshift"]);
    examples
}

/// The program accepts the settings file.
fn assert_settings_are_valid(set: &str, objects: &[Value]) {
    let settings = objects.iter().find_map(|object| object["data"]["lockgate.yaml"].as_str()).expect("the settings");
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), settings).expect("the settings file");
    let checked = run(Command::new(e2e::lockgate::binary()).args(["config", "check"]).arg(file.path()), "");
    checked.unwrap_or_else(|error| panic!("{set}: {error}"));
}

/// The pods of each workload have a NetworkPolicy with existing ports. No port for specific clients is open to all.
fn assert_policies_fit(set: &str, objects: &[Value], wanted: bool) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let policies: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "NetworkPolicy").collect();
    assert_eq!(policies.len(), if wanted { 2 } else { 0 }, "{set}");
    for policy in policies {
        let chosen = policy["spec"]["podSelector"]["matchLabels"].as_object().expect("labels");
        let among = list(&policy["spec"]["podSelector"]["matchExpressions"]);
        let is_among = |labels: &Value| {
            among.iter().all(|one| list(&one["values"]).contains(&labels[one["key"].as_str().expect("a label")]))
        };
        let pods: Vec<&Value> = objects
            .iter()
            .map(|object| &object["spec"]["template"])
            .filter(|pod| chosen.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value))
            .filter(|pod| is_among(&pod["metadata"]["labels"]))
            .collect();
        assert_eq!(pods.len(), 1, "{set}: {chosen:?}");
        let containers = list(&pods[0]["spec"]["containers"]);
        let ports: Vec<Value> = containers.iter().flat_map(|container| list(&container["ports"])).collect();
        for rule in list(&policy["spec"]["ingress"]) {
            for port in list(&rule["ports"]) {
                let (name, protocol) = (&port["port"], &port["protocol"]);
                let named = ports.iter().any(|own| own["name"] == *name && own["protocol"] == *protocol);
                assert!(named || name.is_number(), "{set}: {name} {protocol} is no port of {ports:?}");
                let open = ["http", "https", "http3"].iter().any(|open| name == open);
                // Ports of a set of values are numbers, and a named port belongs to `controllerIngress`.
                let asked = name.is_number() || set.contains("more than the default") && name == "admin";
                assert!(rule["from"].is_array() != open || asked, "{set}: {rule}");
            }
        }
    }
}

/// The program accepts the flags of every container with its image.
fn assert_flags_parse(set: &str, objects: &[Value]) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut commands = 0;
    for pod in objects.iter().map(|object| &object["spec"]["template"]["spec"]) {
        for container in list(&pod["initContainers"]).iter().chain(&list(&pod["containers"])) {
            if container["name"] == "envoy" {
                continue;
            }
            let args: Vec<String> = list(&container["args"])
                .iter()
                .map(|arg| arg.as_str().expect("text").replace("$(POD_NAME)", "a-1"))
                .collect();
            // Flags before --help are parsed, but the command is not run.
            let parsed = run(Command::new(e2e::lockgate::binary()).args(&args).arg("--help"), "");
            parsed.unwrap_or_else(|error| panic!("{set}: {}: {error}", container["name"]));
            commands += 1;
        }
    }
    assert_eq!(commands, 3, "{set}: the controller, bootstrap and drain");
}
