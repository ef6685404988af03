{{/* The pods of Envoy, for a Deployment or a DaemonSet. */}}
{{- define "lockgate.envoyPod" -}}
{{- $name := include "lockgate.fullname" . -}}
metadata:
  labels:
    {{- include "lockgate.podLabels" (list . "envoy" .Values.envoy) | nindent 4 }}
  annotations:
    kubectl.kubernetes.io/default-container: envoy
    {{- with .Values.settings.overload }}
    # The only settings that Envoy reads at its start: with others come other pods.
    lockgate.dev/overload: {{ toJson . | sha256sum | trunc 16 }}
    {{- end }}
    {{- with include "lockgate.scrapedAt" (list . .Values.envoy.podAnnotations "8002" (include "lockgate.statsTlsPort" .)) }}
    {{- . | nindent 4 }}
    {{- end }}
spec:
  # Envoy does not connect to the API server.
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: {{ include "lockgate.envoyGracePeriod" . }}
  securityContext:
    {{- include "lockgate.podSecurity" (list . .Values.envoy) | nindent 4 }}
  {{- with include "lockgate.network" .Values.envoy | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with include "lockgate.scheduling" (list . "envoy" .Values.envoy) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  initContainers:
    {{- with .Values.envoy.extraInitContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    # Writes the bootstrap configuration of Envoy, and the files with which Envoy reloads its certificates.
    - name: bootstrap
      image: {{ include "lockgate.image" (list . .Values.image) }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - bootstrap
        - --xds-address={{ $name }}.{{ include "lockgate.namespace" . }}:18000
        - --xds-tls=/certs
        - --node-id=$(POD_NAME)
        - --node-locality=/$(ZONE)
        - --envoy-admin-address=unix:/run/envoy/admin.sock
        - --config=/etc/lockgate/config/lockgate.yaml
        {{- if not (dig "overload" "maxHeap" "" .Values.settings) }}
        {{- with include "lockgate.maxHeap" . }}
        - --max-heap={{ . }}
        {{- end }}
        {{- end }}
        - --output-file=/config/envoy.yaml
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        # Empty on a node without zone, and before Kubernetes 1.35, which copies the label of the node to its pods.
        - name: ZONE
          valueFrom:
            fieldRef:
              fieldPath: metadata.labels['topology.kubernetes.io/zone']
      resources:
        requests: {cpu: 10m, memory: 16Mi}
        limits: {memory: 64Mi}
      securityContext:
        {{- toYaml .Values.envoy.securityContext | nindent 8 }}
      volumeMounts:
        - name: config
          mountPath: /config
        - name: settings
          mountPath: /etc/lockgate/config
          readOnly: true
        - name: certs
          mountPath: /certs
          readOnly: true
        {{- /* The files of `settings.wasm.modules` are checked. */}}
        {{- with .Values.envoy.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  containers:
    - name: envoy
      image: {{ include "lockgate.image" (list . .Values.envoy.image) }}
      imagePullPolicy: {{ .Values.envoy.image.pullPolicy }}
      command: [envoy]
      args:
        - --config-path
        - /config/envoy.yaml
        - --log-level
        - {{ .Values.envoy.logLevel }}
        {{- /* Envoy warns about each message that is work in progress, at every change of a listener with many server names. */}}
        {{- if and (has .Values.envoy.logLevel (list "trace" "debug" "info" "warning")) (not (contains "--component-log-level" (join " " .Values.envoy.extraArgs))) }}
        - --component-log-level
        - misc:error
        {{- end }}
        {{- with include "lockgate.concurrency" . }}
        - --concurrency
        - {{ . | quote }}
        {{- end }}
        {{- range .Values.envoy.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      # The tags of spans with `tracing.includePodDetail`.
      env:
        {{- $own := list }}
        {{- range .Values.envoy.extraEnv }}{{ $own = append $own .name }}{{ end }}
        {{- range $name, $path := dict "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" }}
        {{- if not (has $name $own) }}
        - name: {{ $name }}
          valueFrom:
            fieldRef:
              fieldPath: {{ $path }}
        {{- end }}
        {{- end }}
        {{- with .Values.envoy.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: http
          containerPort: {{ include "lockgate.port" (list . "http" 8080) }}
          {{- if .Values.envoy.hostPorts.enabled }}
          hostPort: {{ .Values.envoy.hostPorts.http }}
          {{- end }}
        - name: https
          containerPort: {{ include "lockgate.port" (list . "https" 8443) }}
          {{- if .Values.envoy.hostPorts.enabled }}
          hostPort: {{ .Values.envoy.hostPorts.https }}
          {{- end }}
        {{- if include "lockgate.http3" . }}
        - name: http3
          containerPort: {{ include "lockgate.port" (list . "https" 8443) }}
          protocol: UDP
          {{- if .Values.envoy.hostPorts.enabled }}
          hostPort: {{ .Values.envoy.hostPorts.https }}
          {{- end }}
        {{- end }}
        - name: stats
          containerPort: {{ include "lockgate.port" (list . "stats" 8002) }}
        {{- with include "lockgate.statsTlsPort" . }}
        - name: stats-tls
          containerPort: {{ . }}
        {{- end }}
        {{- with include "lockgate.readinessPort" . }}
        - name: readiness
          containerPort: {{ . }}
        {{- end }}
      {{- $port := ternary "readiness" "stats" (ne (include "lockgate.readinessPort" .) "") }}
      # A listener from xDS answers the probe, so an Envoy without configuration is not ready. There is no liveness probe by
      # default: an Envoy that drains, or waits for its first configuration, must not be restarted.
      readinessProbe:
        {{- include "lockgate.probe" (list .Values.envoy.readinessProbe "/ready" $port) | nindent 8 }}
      {{- range $name := list "livenessProbe" "startupProbe" }}
      {{- with index $.Values.envoy $name }}
      {{ $name }}:
        {{- include "lockgate.probe" (list . "/ready" $port) | nindent 8 }}
      {{- end }}
      {{- end }}
      lifecycle:
        preStop:
          # The container `drain` answers when Envoy has drained and exited.
          httpGet:
            path: /drained
            port: 8003
      resources:
        {{- toYaml .Values.envoy.resources | nindent 8 }}
      securityContext:
        {{- toYaml .Values.envoy.securityContext | nindent 8 }}
      volumeMounts:
        - name: config
          mountPath: /config
          readOnly: true
        - name: certs
          mountPath: /certs
          readOnly: true
        - name: admin
          mountPath: /run/envoy
        {{- with .Values.envoy.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    # Drains Envoy when it receives SIGTERM, at the deletion of the pod. It is an ordinary container, because a sidecar among the
    # init containers would receive SIGTERM only after Envoy has exited. There is no liveness probe, because a restart would look
    # like the deletion of the pod.
    - name: drain
      image: {{ include "lockgate.image" (list . .Values.image) }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - envoy-drain
        - --envoy-admin-address=unix:/run/envoy/admin.sock
        - --listen=[::]:8003
        - --min-drain-time={{ .Values.envoy.drain.minSeconds }}s
        - --deadline={{ .Values.envoy.drain.deadlineSeconds }}s
        - --min-connections={{ .Values.envoy.drain.minConnections }}
        - --log-format={{ .Values.envoy.drain.log.format }}
        - --log-level={{ .Values.envoy.drain.log.level }}
      ports:
        - name: drain
          containerPort: 8003
      resources:
        {{- toYaml .Values.envoy.drain.resources | nindent 8 }}
      securityContext:
        {{- toYaml .Values.envoy.securityContext | nindent 8 }}
      volumeMounts:
        - name: admin
          mountPath: /run/envoy
    {{- with .Values.envoy.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      emptyDir: {}
    - name: settings
      configMap:
        name: {{ $name }}
    - name: admin
      emptyDir: {}
    # While the Secret or a key is missing, the pod stays in ContainerCreating.
    - name: certs
      secret:
        secretName: {{ include "lockgate.envoySecret" . }}
        defaultMode: 0440
        items:
          {{- range $key := list "tls.crt" "tls.key" "ca.crt" }}
          - key: {{ $key }}
            path: {{ $key }}
          {{- end }}
    {{- with .Values.envoy.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* The termination grace period of Envoy's pods: longer than the drain. */}}
{{- define "lockgate.envoyGracePeriod" -}}
{{- $deadline := int .Values.envoy.drain.deadlineSeconds -}}
{{- if ge (int .Values.envoy.drain.minSeconds) $deadline -}}
{{- fail (printf "envoy.drain.minSeconds: %d is not less than envoy.drain.deadlineSeconds, %d" (int .Values.envoy.drain.minSeconds) $deadline) -}}
{{- end -}}
{{- $seconds := .Values.envoy.terminationGracePeriodSeconds | int | default (add $deadline 30) | int -}}
{{- if le $seconds $deadline -}}
{{- fail (printf "envoy.terminationGracePeriodSeconds: %d is not more than envoy.drain.deadlineSeconds, %d: the kubelet would kill Envoy before its drain ends" $seconds $deadline) -}}
{{- end -}}
{{- $seconds -}}
{{- end -}}
