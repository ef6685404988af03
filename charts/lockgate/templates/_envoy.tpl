{{/* The pods of Envoy, whichever workload makes them. */}}
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
    {{- with include "lockgate.scrapedAt" (list .Values.envoy.podAnnotations "8002" (include "lockgate.statsTlsPort" .)) }}
    {{- . | nindent 4 }}
    {{- end }}
spec:
  # It talks to the controller, and not to the API server.
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: {{ add .Values.envoy.drain.deadlineSeconds 30 }}
  securityContext:
    {{- include "lockgate.podSecurity" . | nindent 4 }}
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
    # Writes what Envoy starts with, and beside it the files by which Envoy takes up new certificates.
    - name: bootstrap
      image: {{ include "lockgate.image" (list . .Values.image) }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - bootstrap
        - --xds-address={{ $name }}.{{ .Release.Namespace }}:18000
        - --xds-tls=/certs
        - --node-id=$(POD_NAME)
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
      resources:
        requests: {cpu: 10m, memory: 16Mi}
        limits: {memory: 64Mi}
      securityContext:
        {{- include "lockgate.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - name: config
          mountPath: /config
        - name: settings
          mountPath: /etc/lockgate/config
          readOnly: true
        - name: certs
          mountPath: /certs
          readOnly: true
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
        {{- with include "lockgate.concurrency" . }}
        - --concurrency
        - {{ . | quote }}
        {{- end }}
        {{- range .Values.envoy.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      {{- with .Values.envoy.extraEnv }}
      env:
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
      # Answered by a listener that comes over xDS: an Envoy with no world of its own does not become ready. There is no
      # liveness probe on purpose: one that waits for its first configuration, or drains, must not be started anew.
      readinessProbe:
        httpGet:
          path: /ready
          port: stats
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 3
      lifecycle:
        preStop:
          # Answered by the container `drain`, once Envoy has drained and ended.
          httpGet:
            path: /drained
            port: 8003
      resources:
        {{- toYaml .Values.envoy.resources | nindent 8 }}
      securityContext:
        {{- include "lockgate.containerSecurity" . | nindent 8 }}
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
    # Ends Envoy in good order. Its own SIGTERM, when the pod is deleted, is what begins it, so it is an ordinary
    # container: a sidecar among the init containers would be told only when Envoy has ended. No liveness probe here either,
    # for its restart would be taken for the end of the pod.
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
        {{- include "lockgate.containerSecurity" . | nindent 8 }}
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
    # A Secret or a key that is not there yet keeps the pod in ContainerCreating.
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
