{{/* The prefix of names: "lockgate" for the release "lockgate", otherwise "RELEASE-lockgate". */}}

{{- define "lockgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "lockgate.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "lockgate.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "lockgate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "lockgate.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The Secret that Envoy's pods mount, and the Secret of the controller if it does not create its own. */}}
{{- define "lockgate.envoySecret" -}}
{{- if eq .Values.xdsTls.mode "secrets" -}}
{{- required "xdsTls.secrets.envoy: with xdsTls.mode secrets, name the Secret with tls.crt, tls.key and ca.crt of Envoy" .Values.xdsTls.secrets.envoy -}}
{{- else -}}
{{- include "lockgate.fullname" . }}-xds-envoy
{{- end -}}
{{- end -}}

{{- define "lockgate.serverSecret" -}}
{{- if eq .Values.xdsTls.mode "secrets" -}}
{{- required "xdsTls.secrets.server: with xdsTls.mode secrets, name the Secret with tls.crt, tls.key and ca.crt of the controller" .Values.xdsTls.secrets.server -}}
{{- else -}}
{{- include "lockgate.fullname" . }}-xds-server
{{- end -}}
{{- end -}}

{{/* The host names with which Envoy may connect to the controller. */}}
{{- define "lockgate.serverNames" -}}
{{- $name := include "lockgate.fullname" . -}}
{{- $ns := include "lockgate.namespace" . -}}
{{- list $name (printf "%s.%s" $name $ns) (printf "%s.%s.svc" $name $ns) (printf "%s.%s.svc.cluster.local" $name $ns) | toYaml -}}
{{- end -}}

{{/* The names of Envoys, as JSON: from the values, otherwise the names in the certificates of the mode. */}}
{{- define "lockgate.envoyNames" -}}
{{- $name := printf "%s-envoy.%s" (include "lockgate.fullname" .) (include "lockgate.namespace" .) -}}
{{- $default := dict "auto" (list) "cert-manager" (list $name) "secrets" (list $name "envoy") -}}
{{- .Values.xdsTls.names.envoys | default (index $default .Values.xdsTls.mode) | toJson -}}
{{- end -}}

{{/* Labels: `(list . "controller")`. */}}
{{- define "lockgate.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "lockgate.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "lockgate.labels" -}}
{{- $root := index . 0 -}}
{{ include "lockgate.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of pods: `(list . "envoy" .Values.envoy)`. They do not contain the version of the chart, so that a new chart alone restarts no pods. */}}
{{- define "lockgate.podLabels" -}}
{{- $root := index . 0 -}}
{{ include "lockgate.selector" (list $root (index . 1)) }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- with (index . 2).podLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* An image: `(list . .Values.image)`. With a digest, the tag only informs readers. */}}
{{- define "lockgate.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* The security context of pods: `(list . .Values.envoy)`. OpenShift assigns the user and the groups. */}}
{{- define "lockgate.podSecurity" -}}
{{- $root := index . 0 -}}
{{- $context := (index . 1).podSecurityContext | default dict -}}
{{- if include "lockgate.openshift" $root -}}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{/* Whether the cluster is OpenShift. */}}
{{- define "lockgate.openshift" -}}
{{- $installed := .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- if ternary $installed (eq (toString .Values.openshift) "true") (eq (toString .Values.openshift) "auto") }}true{{ end -}}
{{- end -}}

{{/* The placement of pods: `(list . "envoy" .Values.envoy)`. */}}
{{- define "lockgate.scheduling" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := index . 2 -}}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $values.topologySpreadConstraints }}
{{- /* Of these pods, unless it says of which. */}}
{{- $own := dict "labelSelector" (dict "matchLabels" (include "lockgate.selector" (list $root $component) | fromYaml)) }}
topologySpreadConstraints:
  {{- range $values.topologySpreadConstraints }}
  - {{- merge (deepCopy .) $own | toYaml | nindent 4 }}
  {{- end }}
{{- else if ne $values.kind "DaemonSet" }}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "lockgate.selector" (list $root $component) | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
{{- end -}}

{{/* The network of pods: `.Values.envoy`. */}}
{{- define "lockgate.network" -}}
{{- if .hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" .hostNetwork) }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A probe of a container: `(list .Values.envoy.readinessProbe "/ready" "stats")`. A probe with its own handler replaces the request. */}}
{{- define "lockgate.probe" -}}
{{- $probe := deepCopy (index . 0) -}}
{{- if not (or $probe.httpGet $probe.tcpSocket $probe.exec $probe.grpc) -}}
{{- $_ := set $probe "httpGet" (dict "path" (index . 1) "port" (index . 2)) -}}
{{- end -}}
{{- toYaml $probe -}}
{{- end -}}

{{/* The number of Envoy's worker threads: the value, otherwise the CPU limit of its container, rounded up; empty without both. */}}
{{- define "lockgate.concurrency" -}}
{{- if .Values.envoy.concurrency -}}
{{- .Values.envoy.concurrency -}}
{{- else if not (contains "--concurrency" (join " " .Values.envoy.extraArgs)) -}}
{{- with dig "limits" "cpu" "" .Values.envoy.resources -}}
{{- $text := toString . -}}
{{- if not (regexMatch "^([0-9]+m|[0-9]+([.][0-9]+)?)$" $text) -}}
{{- fail (printf "envoy.resources.limits.cpu: %q is neither a number of CPUs nor of thousandths, such as 2 or 500m" $text) -}}
{{- end -}}
{{- $cpus := ternary (divf (trimSuffix "m" $text | float64) 1000) (trimSuffix "m" $text | float64) (hasSuffix "m" $text) -}}
{{- max 1 (ceil $cpus | int) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* 80 % of the memory limit of Envoy's container in bytes, or nothing if it has none. */}}
{{- define "lockgate.maxHeap" -}}
{{- with dig "limits" "memory" "" .Values.envoy.resources -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9]+" $text -}}
{{- $unit := trimPrefix $number $text -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- if or (not $number) (not (hasKey $units $unit)) -}}
{{- fail (printf "envoy.resources.limits.memory: %q is not a whole number with one of the units Ki, Mi, Gi, Ti, k, M, G, T" $text) -}}
{{- end -}}
{{- div (mul (int64 $number) (index $units $unit) 4) 5 -}}
{{- end -}}
{{- end -}}

{{/* A port of Envoy from the settings: `(list . "http" 8080)`. */}}
{{- define "lockgate.port" -}}
{{- $settings := (index . 0).Values.settings -}}
{{- include "lockgate.free" (list (printf "listeners.%s.port" (index . 1)) (dig "listeners" (index . 1) "port" (index . 2) $settings)) -}}
{{- end -}}

{{/* The port of Envoy for the probes of the kubelet, or nothing if they use that of its statistics. */}}
{{- define "lockgate.readinessPort" -}}
{{- with include "lockgate.port" (list . "readiness" 8006) | int -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* The port of Envoy's statistics by TLS, or nothing if they are in clear text. */}}
{{- define "lockgate.statsTlsPort" -}}
{{- with dig "listeners" "stats" "tls" "port" 0 .Values.settings | int -}}
{{- include "lockgate.free" (list "listeners.stats.tls.port" .) -}}
{{- end -}}
{{- end -}}

{{/* A port that no other container of the pod uses. */}}
{{- define "lockgate.free" -}}
{{- $port := index . 1 | int -}}
{{- if eq $port 8003 -}}
{{- fail (printf "settings.%s: 8003 is the port of the container `drain`, beside Envoy in its pods" (index . 0)) -}}
{{- end -}}
{{- $port -}}
{{- end -}}

{{/* The port of the controller's metrics by TLS, or nothing if they are in clear text. */}}
{{- define "lockgate.metricsTlsPort" -}}
{{- if .Values.controller.metrics.tlsSecret -}}
18002
{{- end -}}
{{- end -}}

{{/* Annotations of pods. The default annotations lead scrapers to the metrics over TLS:
`(list . .Values.envoy.podAnnotations "8002" "8004")`, the last port empty if the metrics are in clear text. With a ServiceMonitor,
annotations for scrapers would make Prometheus scrape each pod twice. */}}
{{- define "lockgate.scrapedAt" -}}
{{- $root := index . 0 -}}
{{- $annotations := deepCopy (index . 1) -}}
{{- $port := index . 3 -}}
{{- if $root.Values.serviceMonitor.enabled -}}
{{- range $key := keys $annotations -}}
{{- if hasPrefix "prometheus.io/" $key -}}
{{- $_ := unset $annotations $key -}}
{{- end -}}
{{- end -}}
{{- else if and $port (eq (get $annotations "prometheus.io/port") (index . 2)) -}}
{{- $annotations = merge (dict "prometheus.io/port" $port "prometheus.io/scheme" "https") $annotations -}}
{{- end -}}
{{- with $annotations -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* Rejects settings with Secrets that the controller may not read, and with ports that are in use in the pods. */}}
{{- define "lockgate.checkNamed" -}}
{{- range $name := list "admin" "readiness" "overloadProbe" -}}
{{- $_ := include "lockgate.port" (list $ $name 0) -}}
{{- end -}}
{{- $watched := .Values.watchNamespaces -}}
{{- if $watched -}}
{{- $settings := .Values.settings -}}
{{- $named := dict "tls.defaultSecret" (dig "tls" "defaultSecret" "" $settings) "tls.fallbackSecret" (dig "tls" "fallbackSecret" "" $settings) "upstream.clientCertificate" (dig "upstream" "clientCertificate" "" $settings) "listeners.stats.tls.secret" (dig "listeners" "stats" "tls" "secret" "" $settings) "listeners.stats.tls.clientCa" (dig "listeners" "stats" "tls" "clientCa" "" $settings) -}}
{{- range $key, $secret := $named -}}
{{- $namespace := splitList "/" (toString (default "" $secret)) | first -}}
{{- if and $namespace (not (has $namespace $watched)) -}}
{{- fail (printf "settings.%s: the namespace of %s is not in watchNamespaces, so it is not read" $key $secret) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether HTTP/3 is enabled. */}}
{{- define "lockgate.http3" -}}
{{- if dig "http" "http3" "enabled" false .Values.settings }}true{{ end -}}
{{- end -}}

{{/* Fails if a setting is not for `settings` to say, since other objects of the chart depend on it: its flag would hide it. */}}
{{- define "lockgate.checkSettings" -}}
{{- $settings := .Values.settings -}}
{{- $elsewhere := list
  (list "watch" "namespaces" "the roles of the controller depend on it; use the value watchNamespaces")
  (list "watch" "gatewayApi" "the roles of the controller depend on it; use the value gatewayAPI.enabled")
  (list "xds" "address" "the Services of the chart lead to port 18000 of the controller")
  (list "xds" "tls" "the pods of Envoy depend on it; use the value xdsTls.mode")
  (list "xds" "envoyNames" "use the value xdsTls.names.envoys")
  (list "xds" "grpcNames" "use the value xdsTls.names.grpc")
  (list "xds" "replicaNames" "use the value xdsTls.names.replicas")
  (list "xds" "secrets" "the pods of Envoy mount these Secrets; they are named after the release, see fullnameOverride")
  (list "xds" "service" "it is the Service of the chart, named after the release, see fullnameOverride")
  (list "xds" "peers" "it is the Service of the chart for this purpose")
  (list "admin" "address" "the probes and the Services of the chart lead to [::]:18001")
  (list "metrics" "address" "the Services of the chart lead there; use the value controller.metrics.tlsSecret")
  (list "metrics" "tls" "the pods of the controller mount it; use the value controller.metrics.tlsSecret")
  (list "leaderElection" "lease" "it is the Lease of the chart, named after the release, see fullnameOverride") -}}
{{- range $elsewhere -}}
{{- $group := index . 0 -}}
{{- $key := index . 1 -}}
{{- if not (kindIs "invalid" (dig $group (dict) $settings | default dict | dig $key nil)) -}}
{{- fail (printf "settings.%s.%s cannot be chosen here: %s" $group $key (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- if and (eq (dig "leaderElection" (dict) $settings | default dict | dig "enabled" true | toString) "false") (gt (int .Values.controller.replicas) 1) -}}
{{- fail (printf "settings.leaderElection.enabled: false is for one replica, and controller.replicas is %d: each of them would write" (int .Values.controller.replicas)) -}}
{{- end -}}
{{- end -}}

{{/* The settings that need a restart of the controller. A change rolls its pods. */}}
{{- define "lockgate.restartSettings" -}}
{{- $settings := dict -}}
{{- range $group, $settings_of := pick .Values.settings "xds" "admin" "log" "leaderElection" "watch" -}}
{{- $_ := set $settings $group (omit ($settings_of | default dict) (ternary "level" "" (eq $group "log"))) -}}
{{- end -}}
{{- if not .Values.gatewayAPI.enabled -}}
{{- $_ := set $settings "watch" (dict "gatewayApi" false) -}}
{{- end -}}
{{- range $group, $settings_of := $settings -}}
{{- if $settings_of -}}
{{- dict $group $settings_of | toJson -}}
{{- end -}}
{{- end -}}
{{- end -}}
