{{- define "dray.name" -}}
{{ contains "dray" .Release.Name | ternary .Release.Name (printf "%s-dray" .Release.Name) | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "dray.labels" -}}
app.kubernetes.io/name: dray
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "dray.leaseNamespace" -}}
{{ .Values.scheduler.lease.namespace | default .Release.Namespace }}
{{- end }}

{{- /* A service account with a cluster role: dict "root" $ "part" NAME "role" FILE */}}
{{- define "dray.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "dray.name" .root }}-{{ .part }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "dray.labels" .root | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "dray.name" .root }}-{{ .part }}
  labels: {{- include "dray.labels" .root | nindent 4 }}
rules:
{{ .root.Files.Get (printf "roles/%s.yaml" .part) | trim }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ include "dray.name" .root }}-{{ .part }}
  labels: {{- include "dray.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ include "dray.name" .root }}-{{ .part }}
subjects:
- kind: ServiceAccount
  name: {{ include "dray.name" .root }}-{{ .part }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- /* What the pods of all parts have: dict "root" $ "part" NAME "annotations" DICT */}}
{{- define "dray.podMetadata" -}}
labels:
  {{- include "dray.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .part }}
{{- with merge (dict) (.root.Values.monitoring.podAnnotations | default dict) (.annotations | default dict) }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "dray.podSpec" -}}
serviceAccountName: {{ include "dray.name" .root }}-{{ .part }}
terminationGracePeriodSeconds: 10
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "dray.container" -}}
name: dray
image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
ports:
- {name: metrics, containerPort: 10259}
startupProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 15
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 15
{{- end }}
