{{- define "weir.selector" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "weir.name" -}}
{{ .Release.Name | trunc 53 | trimSuffix "-" }}
{{- end -}}

{{- /* Names of cluster-wide objects: two releases must not share them. */ -}}
{{- define "weir.clusterName" -}}
{{ printf "%s:%s" .Release.Namespace (include "weir.name" .) }}
{{- end -}}

{{- define "weir.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "weir.name" .) }}
{{- end -}}

{{- define "weir.image" -}}
{{- $i := .Values.image -}}
{{- $repository := required "image.repository is missing: the chart has no public image; make image builds one" $i.repository -}}
{{- if $i.digest -}}{{ $repository }}@{{ $i.digest }}
{{- else if $i.tag -}}{{ $repository }}:{{ $i.tag }}
{{- else -}}{{ fail "image.digest is missing: set it, or image.tag" }}
{{- end -}}
{{- end -}}

{{- /* What this release cannot do is said here rather than by a pod that does not start. */ -}}
{{- define "weir.check" -}}
{{- if not .Values.clusterName }}{{ fail "clusterName is missing: the name of the cluster, as the tags of its machines have it" }}{{ end -}}
{{- if eq .Values.ledger "dynamodb" }}{{ fail "ledger: dynamodb is not in this release: the scaler has no such store yet; use bolt (one replica)" }}{{ end -}}
{{- if eq .Values.cloud.kind "aws" }}{{ fail "cloud.kind: aws is not in this release: the scaler cannot buy at AWS yet; sim with cloud.address (a simulated EC2) is there" }}{{ end -}}
{{- if not .Values.cloud.address }}{{ fail "cloud.address is missing: the URL of the simulated EC2" }}{{ end -}}
{{- end -}}

{{- /* The configuration of the scaler: config, and what other values say. */ -}}
{{- define "weir.config" -}}
{{- $given := dict
  "apiVersion" "config.weir.dev/v1alpha1" "kind" "ScalerConfiguration"
  "cluster" .Values.clusterName "replicas" 1
  "cloud" (dict "kind" .Values.cloud.kind "address" .Values.cloud.address)
  "ledger" (dict "kind" .Values.ledger "path" "/var/lib/weir/ledger.db")
  "strategyBinary" "/weir-strategy"
  "leaderElection" (dict "name" (printf "%s-leader-election" (include "weir.name" .)) "namespace" .Release.Namespace
    "karpenterName" .Values.karpenterLease.name "karpenterNamespace" .Values.karpenterLease.namespace)
  "metrics" (dict "port" 8080) "health" (dict "port" 8081)
-}}
{{ toYaml (mergeOverwrite (deepCopy .Values.config) $given) }}
{{- end -}}
