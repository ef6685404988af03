{{/* The template of the Deployments of dedicated fleets: the pods of the shared Envoys with another component,
and with the Secret of the key pairs of fleets. The pods have the same host ports as the shared Envoys. */}}
{{- define "lockgate.fleetDeployment" -}}
{{- $name := include "lockgate.fullname" . -}}
{{- $selector := include "lockgate.selector" (list . "fleet") | fromYaml -}}
{{- $pod := include "lockgate.envoyPod" . | fromYaml -}}
{{- $_ := set $pod.metadata.labels "app.kubernetes.io/component" "fleet" -}}
{{- range $pod.spec.topologySpreadConstraints -}}
{{- $labels := dig "matchLabels" (dict) .labelSelector -}}
{{- if eq (get $labels "app.kubernetes.io/component") "envoy" -}}
{{- $_ := set $labels "app.kubernetes.io/component" "fleet" -}}
{{- end -}}
{{- end -}}
{{- range $pod.spec.volumes -}}
{{- if eq .name "certs" -}}
{{- $_ := set .secret "secretName" (printf "%s-xds-fleets" $name) -}}
{{- end -}}
{{- end -}}
{{- range $pod.spec.containers -}}
{{- range .ports -}}
{{- $_ := unset . "hostPort" -}}
{{- end -}}
{{- end -}}
{{- $_ := unset $pod.spec "hostNetwork" -}}
{{- if eq (get $pod.spec "dnsPolicy") "ClusterFirstWithHostNet" -}}
{{- $_ := unset $pod.spec "dnsPolicy" -}}
{{- end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}-fleet
  labels:
    {{- toYaml $selector | nindent 4 }}
    app.kubernetes.io/managed-by: lockgate
    {{- with .Values.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- with .Values.envoy.minReadySeconds }}
  minReadySeconds: {{ . }}
  {{- end }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  selector:
    matchLabels:
      {{- toYaml $selector | nindent 6 }}
  template:
    {{- toYaml $pod | nindent 4 }}
{{- end -}}

{{/* Whether Gateways may have dedicated fleets. */}}
{{- define "lockgate.fleets" -}}
{{- if .Values.gatewayAPI.dedicatedFleets.enabled -}}
{{- if not .Values.gatewayAPI.enabled -}}
{{- fail "gatewayAPI.dedicatedFleets.enabled: needs gatewayAPI.enabled" -}}
{{- end -}}
{{- if ne .Values.xdsTls.mode "auto" -}}
{{- fail "gatewayAPI.dedicatedFleets.enabled: needs xdsTls.mode auto, because each dedicated fleet has a key pair" -}}
{{- end -}}
true
{{- end -}}
{{- end -}}
