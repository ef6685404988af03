//! Invalid values, each with the expected error of helm.

use e2e::process::repository;

use super::{lab, run, template};

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
    assert_refused(&["settings.listeners.readiness.port=8003"], &["settings.listeners.readiness.port", "8003"]);
    assert_refused(&["settings.listeners.stats.tls.port=8003"], &["settings.listeners.stats.tls.port", "8003"]);
    for key in ["tls.defaultSecret", "tls.fallbackSecret", "upstream.clientCertificate", "listeners.stats.tls.clientCa"]
    {
        assert_refused(
            &["watchNamespaces={shop}", &format!("settings.{key}=edge/a")],
            &[key, "edge/a is not in watch"],
        );
    }
    assert_refused(&["envoy.resources.limits.memory=1.5Gi"], &["envoy.resources.limits.memory", "1.5Gi"]);
    assert_refused(&["envoy.resources.limits.cpu=two"], &["envoy.resources.limits.cpu", "two"]);
    assert_refused(&["envoy.hostNetwork=true", "envoy.hostPorts.enabled=true"], &["envoy.hostNetwork", "settings"]);
    assert_refused(&["envoy.drain.deadlineSeconds=10"], &["envoy.drain.minSeconds: 10", "deadlineSeconds, 10"]);
    assert_refused(
        &["envoy.terminationGracePeriodSeconds=300"],
        &["envoy.terminationGracePeriodSeconds: 300 is not more than envoy.drain.deadlineSeconds, 300"],
    );
    assert_refused(&["envoy.service.ipFamilies={v4}"], &["/envoy/service/ipFamilies/0", "'IPv4'"]);
}

/// Settings that the chart sets by a flag, which would override them, or that other objects of the chart depend on.
#[test]
fn a_setting_that_is_the_charts_own_is_told_where_it_belongs() {
    for (value, instead) in [
        ("settings.watch.namespaces={shop}", "watchNamespaces"),
        ("settings.watch.gatewayApi=false", "gatewayAPI.enabled"),
        ("settings.xds.address=0.0.0.0:19000", "port 18000"),
        ("settings.xds.tls=off", "xdsTls.mode"),
        ("settings.xds.secrets=edge", "fullnameOverride"),
        ("settings.xds.service=edge", "fullnameOverride"),
        ("settings.xds.peers=edge:18000", "Service of the chart"),
        ("settings.admin.address=127.0.0.1:19001", "[::]:18001"),
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

/// Returns the documents of a kind, rendered with `values`.
fn documents(kind: &str, values: &[&str]) -> Vec<String> {
    let rendered = template(values).unwrap_or_else(|error| panic!("{values:?}: {error}"));
    let kind = format!("\nkind: {kind}\n");
    rendered.split("\n---\n").filter(|document| document.contains(&kind)).map(str::to_owned).collect()
}

#[test]
fn envoy_has_as_many_workers_as_its_limit_has_cpus() {
    let workers = |values: &[&str]| {
        let pod =
            documents("Deployment", values).into_iter().find(|pod| pod.contains("command: [envoy]")).expect("Envoy");
        let next =
            pod.split("- --concurrency\n").nth(1).map(|rest| rest.lines().next().unwrap_or_default().trim().to_owned());
        next.unwrap_or_default()
    };
    assert_eq!(workers(&[]), "", "without a limit, Envoy decides");
    for (limit, expected) in [("2", "2"), ("500m", "1"), ("1500m", "2"), ("2.5", "3"), ("100m", "1")] {
        assert_eq!(workers(&[&format!("envoy.resources.limits.cpu={limit}")]), format!("- \"{expected}\""), "{limit}");
    }
    assert_eq!(workers(&["envoy.concurrency=4", "envoy.resources.limits.cpu=2"]), "- \"4\"");
    let own = ["envoy.resources.limits.cpu=2", "envoy.extraArgs={--concurrency,7}"];
    assert_eq!(workers(&own), "", "a flag of the user's own wins");
}

#[test]
fn an_existing_service_account_gets_the_roles() {
    let own = ["serviceAccount.create=false", "serviceAccount.name=edge"];
    assert!(documents("ServiceAccount", &own).is_empty());
    let bindings = [documents("ClusterRoleBinding", &own), documents("RoleBinding", &own)].concat();
    assert!(bindings.len() >= 2 && bindings.iter().all(|binding| binding.contains("\n    name: edge")), "{bindings:?}");
    let none = ["rbac.create=false"];
    assert_eq!(documents("ServiceAccount", &none).len(), 1);
    for kind in ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
        assert!(documents(kind, &none).is_empty(), "{kind}");
    }
}

#[test]
fn pods_at_ports_of_their_node_replace_each_other_one_by_one() {
    for values in [["envoy.hostNetwork=true", "controller.hostNetwork=true"]] {
        let pods = documents("Deployment", &values);
        assert_eq!(pods.len(), 2);
        for pod in pods {
            for part in ["hostNetwork: true", "dnsPolicy: ClusterFirstWithHostNet", "maxSurge: 0"] {
                assert!(pod.contains(part), "{part}: {pod}");
            }
        }
    }
}

#[test]
fn a_gateway_class_is_made_if_its_kind_is_installed() {
    let classes = |flags: &[&str]| {
        let mut command = lab("helm");
        command.args(["template", "lockgate", "charts/lockgate", "--namespace", "lockgate"]).args(flags);
        let rendered = run(&mut command, "").unwrap_or_else(|error| panic!("{flags:?}: {error}"));
        rendered.matches("\nkind: GatewayClass\n").count()
    };
    let (auto, installed) =
        ("--set=gatewayAPI.gatewayClass.create=auto", "--api-versions=gateway.networking.k8s.io/v1");
    assert_eq!((classes(&[]), classes(&[installed])), (0, 0), "only on request");
    assert_eq!((classes(&[auto]), classes(&[auto, installed])), (0, 1));
    let create = "--set=gatewayAPI.gatewayClass.create=true";
    assert_eq!((classes(&[create]), classes(&[create, "--set=gatewayAPI.enabled=false"])), (1, 0));
    assert_refused(&["gatewayAPI.gatewayClass.create=maybe"], &["/gatewayAPI/gatewayClass/create"]);
}

#[test]
fn without_gateway_api_the_controller_neither_watches_nor_writes_it() {
    let off = ["gatewayAPI.enabled=false"];
    let rendered = template(&off).unwrap_or_else(|error| panic!("{error}"));
    assert!(!rendered.contains("gateway.networking.k8s.io") && !rendered.contains("endPort"), "{rendered}");
    assert!(documents("ConfigMap", &off).concat().contains("\n      gatewayApi: false\n"));
    let verbs = "verbs: [create, patch, delete]";
    let on = ["gatewayAPI.manageServices=true"];
    assert!(!documents("ClusterRole", &off)[0].contains(verbs) && documents("ClusterRole", &on)[0].contains(verbs));
    let pods = |values: &[&str]| documents("Deployment", values);
    let controller = |pods: &[String]| pods.iter().find(|pod| pod.contains("- serve\n")).cloned();
    assert_ne!(controller(&pods(&off)), controller(&pods(&[])), "the controller needs a restart");
}

#[test]
fn the_permissions_for_dedicated_fleets_are_granted_on_request_only() {
    let on = ["gatewayAPI.dedicatedFleets.enabled=true", "networkPolicy.enabled=true", "envoy.hostPorts.enabled=true"];
    let roles = |values: &[&str]| documents("Role", values).concat();
    assert!(roles(&on).contains("lockgate-xds-fleets"));
    for kind in ["deployments", "poddisruptionbudgets", "horizontalpodautoscalers"] {
        let permission = format!("resources: [{kind}]");
        assert!(roles(&on).contains(&permission) && !roles(&[]).contains(&permission), "{kind}");
    }
    let rendered = template(&[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(!rendered.contains("[deployments]") && !rendered.contains("-fleet"), "{rendered}");
    // The template has the labels of shared Envoys, which the Service must not select.
    let template =
        documents("ConfigMap", &on).into_iter().find(|map| map.contains("deployment.yaml: |")).expect("a template");
    assert!(template.contains("secretName: lockgate-xds-fleets") && !template.contains("hostPort"), "{template}");
    assert!(template.contains("component: fleet") && !template.contains("component: envoy"), "{template}");
    let policies = documents("NetworkPolicy", &on);
    assert!(policies.iter().all(|policy| policy.contains("fleet")), "both ends know these pods: {policies:?}");
    let more = "envoy.logLevel=debug";
    let controller =
        |values: &[&str]| documents("Deployment", values).into_iter().find(|pod| pod.contains("- serve\n"));
    assert_ne!(controller(&on), controller(&[&on[..], &[more]].concat()), "the controller needs a restart");
    for (value, message) in
        [("xdsTls.mode=cert-manager", "xdsTls.mode auto"), ("gatewayAPI.enabled=false", "gatewayAPI")]
    {
        assert_refused(&[on[0], value], &["gatewayAPI.dedicatedFleets.enabled", message]);
    }
}

/// Values in the documentation can be copied unchanged.
#[test]
fn the_values_of_the_documentation_are_taken() {
    let page = std::fs::read_to_string(repository().join("docs/install.md")).expect("the page");
    let blocks: Vec<&str> = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let mut command = lab("helm");
        command.args(["template", "lockgate", "charts/lockgate", "--namespace", "lockgate", "--values", "-"]);
        run(&mut command, block).unwrap_or_else(|error| panic!("{block}\n{error}"));
    }
}

/// Each alert leads to its section in docs/alerts.md, which has the same expression.
#[test]
fn alerts_lead_to_their_documentation() {
    let read =
        |path: &str| std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (alerts, page, certificates) =
        (read("charts/lockgate/alerts.yaml"), read("docs/alerts.md"), read("docs/certificates.md"));
    let alerts: Vec<&str> = alerts.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 10);
    for alert in &alerts {
        let name = alert.lines().next().unwrap_or_default();
        let field = |field: &str| {
            let found = alert.lines().find_map(|line| line.trim().strip_prefix(field)?.strip_prefix(": "));
            found.unwrap_or_else(|| panic!("{name} has no {field}")).trim_matches('\'')
        };
        let anchor = name.to_lowercase();
        let url = format!("https://github.com/lockgate/lockgate/blob/main/docs/alerts.md#{anchor}");
        assert_eq!(field("runbook_url"), url);
        let section = page.split("\n## ").skip(1).find(|section| section.lines().next() == Some(name));
        let section = section.unwrap_or_else(|| panic!("docs/alerts.md has no section {name}, so {url} leads nowhere"));
        let expression = field("expr");
        assert!(section.contains(&format!("\n`{expression}`")), "{name}: {expression} is not in its section");
        for part in ["**Effect.**", "**What to do.**"] {
            assert!(section.contains(part), "{name}: no {part}");
        }
    }
    assert_eq!(
        page.matches("\n## ").count(),
        alerts.len(),
        "docs/alerts.md has a section for each alert, and no others"
    );
    let threshold = "min by (certificate) (lockgate_xds_certificate_expiry_timestamp_seconds) - time() < 15 * 86400";
    assert!(certificates.contains(threshold));
    let rule = documents("PrometheusRule", &["prometheusRule.enabled=true", "namespaceOverride=edge"]).concat();
    assert!(!rule.contains("null") && rule.contains("absent(lockgate_build_info{namespace=\"edge\"})"), "{rule}");
}

#[test]
fn on_openshift_pods_have_no_fixed_user() {
    let fixed = ["runAsUser", "runAsGroup", "fsGroup"];
    let on = ["openshift=true", "gatewayAPI.dedicatedFleets.enabled=true", "serviceMonitor.enabled=true"];
    let rendered = template(&on).unwrap_or_else(|error| panic!("{error}"));
    for field in fixed {
        assert!(!rendered.contains(field), "{field}");
    }
    // The other requirements of `restricted-v2`: controller, Envoy with three containers, the template of fleets, and the test.
    let count = |text: &str| rendered.matches(text).count();
    let (pods, containers) = (4, 1 + 3 + 3 + 1);
    assert_eq!((count("runAsNonRoot: true"), count("type: RuntimeDefault")), (pods, pods));
    assert_eq!((count("allowPrivilegeEscalation: false"), count("- ALL")), (containers, containers));
    for forbidden in ["hostPath", "hostPort", "hostNetwork", "privileged: true"] {
        assert_eq!(count(forbidden), 0, "{forbidden}");
    }
    // The same without the value `openshift`: field by field, or detected.
    let null: Vec<String> = ["controller", "envoy"]
        .iter()
        .flat_map(|who| fixed.map(|field| format!("{who}.podSecurityContext.{field}=null")))
        .collect();
    let null: Vec<&str> = null.iter().map(String::as_str).collect();
    let by_field = template(&[&null[..], &on[1..]].concat()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(by_field, rendered);
    let mut command = lab("helm");
    command.args(["template", "lockgate", "charts/lockgate", "--namespace", "lockgate"]);
    command.args(["--api-versions=security.openshift.io/v1", "--set", on[1], "--set", on[2]]);
    assert_eq!(run(&mut command, "").as_deref(), Ok(&*rendered));
    assert_refused(&["openshift=maybe"], &["/openshift"]);
}

#[test]
fn the_permission_to_write_services_needs_gateway_api() {
    let verbs = "verbs: [create, patch, delete]";
    let may = |flags: &[&str]| {
        let mut command = lab("helm");
        command.args(["template", "lockgate", "charts/lockgate", "--namespace", "lockgate"]).args(flags);
        run(&mut command, "").unwrap_or_else(|error| panic!("{flags:?}: {error}")).contains(verbs)
    };
    assert!(!may(&[]), "nothing uses Gateway API");
    let installed = "--api-versions=gateway.networking.k8s.io/v1";
    assert!(may(&[installed]));
    assert!(may(&["--set=gatewayAPI.gatewayClass.create=true"]));
    assert!(may(&["--set=gatewayAPI.dedicatedFleets.enabled=true"]));
    assert!(may(&["--set=gatewayAPI.manageServices=true"]));
    assert!(!may(&[installed, "--set=gatewayAPI.manageServices=false"]));
    assert!(!may(&[installed, "--set=gatewayAPI.enabled=false"]));
    assert!(!may(&["--set=gatewayAPI.manageServices=true", "--set=gatewayAPI.enabled=false"]));
}

#[test]
fn another_autoscaler_may_set_the_number_of_envoys() {
    let envoy = |values: &[&str]| {
        let pods = documents("Deployment", values).into_iter().find(|pod| pod.contains("command: [envoy]"));
        pods.expect("Envoy").contains("\n  replicas:")
    };
    let external = "envoy.autoscaling.external=true";
    assert!(envoy(&[]) && !envoy(&[external]) && !envoy(&["envoy.autoscaling.enabled=true"]));
    assert!(documents("HorizontalPodAutoscaler", &[external]).is_empty());
    assert_refused(&[external, "envoy.autoscaling.enabled=true"], &["envoy.autoscaling.external", "must be false"]);
}

#[test]
fn a_service_monitor_replaces_the_annotations_for_scrapers() {
    let rendered = |values: &[&str]| template(values).unwrap_or_else(|error| panic!("{error}"));
    let fleets = "gatewayAPI.dedicatedFleets.enabled=true";
    assert_eq!(rendered(&[fleets]).matches("prometheus.io/scrape").count(), 3, "the controller, Envoy, and fleets");
    let own = "envoy.podAnnotations.team=edge";
    let monitored = rendered(&[fleets, "serviceMonitor.enabled=true", own]);
    assert!(!monitored.contains("prometheus.io/") && monitored.contains("team: edge"), "{monitored}");
    // Each component has a ServiceMonitor, and a Service that it selects.
    for component in ["controller", "envoy", "fleet"] {
        let label = format!("app.kubernetes.io/component: {component}");
        let of = |kind: &str| {
            documents(kind, &[fleets, "serviceMonitor.enabled=true"])
                .into_iter()
                .filter(|one| one.contains(&label))
                .count()
        };
        assert_eq!(of("ServiceMonitor"), 1, "{component}");
        assert!(of("Service") > 0, "{component}");
    }
}

#[test]
fn every_object_is_in_the_namespace_that_is_asked_for() {
    let all = [
        "namespaceOverride=edge",
        "serviceMonitor.enabled=true",
        "dashboard.enabled=true",
        "prometheusRule.enabled=true",
    ];
    let rendered = template(&all).unwrap_or_else(|error| panic!("{error}"));
    for line in rendered.lines().filter(|line| line.trim_start().starts_with("namespace: ")) {
        assert_eq!(line.trim(), "namespace: edge");
    }
    for part in [
        "--peers=lockgate-peers.edge.svc:18000",
        "--xds-address=lockgate.edge:18000",
        "envoyService: edge/lockgate-envoy",
    ] {
        assert!(rendered.contains(part), "{part}");
    }
}

/// The notes name the GatewayClass, and what a cluster without load balancers needs.
#[test]
fn the_notes_fit_the_values() {
    let notes = |values: &[&str]| {
        let mut command = lab("helm");
        command.args(["install", "lockgate", "charts/lockgate", "--namespace", "lockgate", "--dry-run=client"]);
        command.args(values.iter().map(|value| format!("--set={value}")));
        let text = run(&mut command, "").unwrap_or_else(|error| panic!("{values:?}: {error}"));
        text.split_once("\nNOTES:\n").expect("notes").1.to_owned()
    };
    let defaults = notes(&[]);
    for part in [
        "examples/kind.yaml",
        "<pending>",
        "Gateway API: its CustomResourceDefinitions are not installed",
        "docs/upgrade.md",
    ] {
        assert!(defaults.contains(part), "{part}: {defaults}");
    }
    let create = "gatewayAPI.gatewayClass.create=true";
    let named = notes(&[create, "gatewayAPI.gatewayClass.name=edge", "namespaceOverride=shop"]);
    assert!(
        named.contains("Gateways use the GatewayClass \"edge\".") && named.contains("--namespace shop "),
        "{named}"
    );
    let own = notes(&["gatewayAPI.manageServices=true"]);
    assert!(
        own.contains("which this release does not create") && own.contains("lockgate.dev/gateway-controller"),
        "{own}"
    );
    assert!(notes(&["gatewayAPI.manageServices=false"]).contains("Gateways are not programmed"));
    assert!(!notes(&["gatewayAPI.enabled=false"]).contains("Gateway"));
}

/// Values that only a new process applies restart the pods of the controller, and no others.
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
