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

{{- /* The ConfigMap with swaps by command; what runs is told in the one of this name and -status. */ -}}
{{- define "weir.strategies" -}}
{{ include "weir.name" . }}-strategies
{{- end -}}

{{- /* The bolt ledger is a file that one process has open; a table serves two, of which one leads. */ -}}
{{- define "weir.replicas" -}}
{{ eq .Values.ledger "dynamodb" | ternary 2 1 }}
{{- end -}}

{{- define "weir.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "weir.image" -}}
{{- $i := .Values.image -}}
{{- $repository := required "image.repository is missing: the chart has no public image; make image builds one" $i.repository -}}
{{- if $i.digest -}}{{ $repository }}@{{ $i.digest }}
{{- else if $i.tag -}}{{ $repository }}:{{ $i.tag }}
{{- else -}}{{ fail "image.digest is missing: set it, or image.tag" }}
{{- end -}}
{{- end -}}

{{- /* Where the strategy in a container of its own serves. */ -}}
{{- define "weir.sidecarSocket" -}}
/run/weir/{{ . }}/strategy.sock
{{- end -}}

{{- /* Users of the containers of strategies, by name: that of the values, else by their order. */ -}}
{{- define "weir.sidecarUsers" -}}
{{- range $i, $name := keys .Values.strategySidecars | sortAlpha }}
{{ $name }}: {{ (get $.Values.strategySidecars $name).user | default (add 65540 $i) | int }}
{{- end }}
{{- end -}}

{{- define "weir.sidecarResources" -}}
requests: {cpu: 50m, memory: 64Mi}
limits: {memory: 256Mi}
{{- end -}}

{{- /* Containers that are to have no AWS role: everything but the scaler. */ -}}
{{- define "weir.withoutRole" -}}
{{- $names := list -}}
{{- range $name, $_ := .Values.strategySidecars }}{{ $names = append $names (printf "sidecar-%s" $name) }}{{ end -}}
{{- range $name, $s := .Values.strategyImages }}{{ if eq $s.source "init" }}{{ $names = append $names (printf "strategy-%s" $name) }}{{ end }}{{ end -}}
{{- with get .Values.podAnnotations "eks.amazonaws.com/skip-containers" }}{{ $names = append $names . }}{{ end -}}
{{- join "," $names -}}
{{- end -}}

{{- /* What this release cannot do is said here rather than by a pod that does not start. */ -}}
{{- define "weir.check" -}}
{{- if not .Values.clusterName }}{{ fail "clusterName is missing: the name of the cluster, as the tags of its machines have it" }}{{ end -}}
{{- if eq .Values.ledger "dynamodb" }}
{{- if not .Values.ledgerTable }}{{ fail "ledgerTable is missing: the name of the DynamoDB table, which the stack of infra/cdk makes (output TableName)" }}{{ end -}}
{{- if not .Values.config.region }}{{ fail "config.region is missing: the region of the DynamoDB table, such as eu-west-1" }}{{ end -}}
{{- else if .Values.ledgerTable }}{{ fail "ledgerTable is set and ledger is bolt: the table is for ledger=dynamodb" }}{{ end -}}
{{- if eq .Values.cloud.kind "aws" }}
{{- if not .Values.config.region }}{{ fail "config.region is missing: the region to buy machines in, such as eu-west-1" }}{{ end -}}
{{- if .Values.cloud.address }}{{ fail "cloud.address is set and cloud.kind is aws: the address is that of a simulated EC2, for cloud.kind=sim" }}{{ end -}}
{{- else if not .Values.cloud.address }}{{ fail "cloud.address is missing: the URL of the simulated EC2" }}{{ end -}}
{{- $kube := .Capabilities.KubeVersion.Version -}}
{{- range $name, $s := .Values.strategyImages }}
{{- if and (eq $s.source "volume") (semverCompare "<1.33.0-0" $kube) }}{{ fail (printf "strategyImages.%s.source is volume, and this cluster is %s: image volumes are for Kubernetes 1.33 and later; init is for any" $name $kube) }}{{ end -}}
{{- end -}}
{{- $users := dict -}}
{{- range $name, $user := include "weir.sidecarUsers" . | fromYaml }}
{{- $key := toString $user }}
{{- if hasKey $users $key }}{{ fail (printf "strategySidecars.%s.user is %s, as that of %s: each strategy has its own" $name $key (get $users $key)) }}{{ end -}}
{{- $_ := set $users $key $name -}}
{{- $c := dig "strategies" $name (dict) $.Values.config | default dict -}}
{{- if not $c.kind }}{{ fail (printf "config.strategies.%s.kind is missing: of the strategy in strategySidecars.%s, instance-selection or consolidation" $name $name) }}{{ end -}}
{{- range $field := list "path" "args" "env" "sha256" "image" "socket" "isolation" "memoryLimit" "allowUnsandboxed" }}
{{- if hasKey $c $field }}{{ fail (printf "config.strategies.%s.%s is set, and strategySidecars.%s says how it runs" $name $field $name) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- range $name, $s := .Values.config.strategies }}
{{- if and (eq ($s.isolation | default "process") "container") (not (hasKey $.Values.strategySidecars $name)) }}{{ fail (printf "config.strategies.%s.isolation is container, and there is no strategySidecars.%s" $name $name) }}{{ end -}}
{{- $path := get $s "path" | default "" -}}
{{- if and (hasPrefix "/strategies/" $path) (not (get $s "image")) }}
{{- $image := index (splitList "/" $path) 2 -}}
{{- if not (hasKey $.Values.strategyImages $image) }}{{ fail (printf "config.strategies.%s.path is %s, and there is no strategyImages.%s" $name $path $image) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* What of the configuration a running scaler does not take in (docs/reference/configuration.md, column "while running"):
another value needs another pod. */ -}}
{{- define "weir.fixed" -}}
{{- $c := include "weir.config" . | fromYaml -}}
{{- $c = pick $c "cluster" "clusterEndpoint" "clusterCABundle" "region" "account" "replicas" "cloud" "ledger" "interruption"
  "schedulerConfig" "leaderElection" "kube" "log" "metrics" "health" "memoryLimit" "admin" "strategyFolder" "strategyRecords" -}}
{{- if $c.log }}{{ $_ := unset $c.log "level" }}{{ if not $c.log }}{{ $_ := unset $c "log" }}{{ end }}{{ end -}}
{{ toYaml $c }}
{{- end -}}

{{- /* The configuration of the scaler: config, and what other values say. */ -}}
{{- define "weir.config" -}}
{{- $ledger := dict "kind" "bolt" "path" "/var/lib/weir/ledger.db" -}}
{{- $shared := eq .Values.ledger "dynamodb" -}}
{{- if $shared }}{{ $ledger = dict "kind" "dynamodb" "table" .Values.ledgerTable }}{{ end -}}
{{- $given := dict
  "apiVersion" "config.weir.dev/v1alpha1" "kind" "ScalerConfiguration"
  "cluster" .Values.clusterName "replicas" (include "weir.replicas" . | int)
  "cloud" (dict "kind" .Values.cloud.kind "address" .Values.cloud.address)
  "ledger" $ledger
  "strategyBinary" "/weir-strategy" "strategyFolder" "/var/cache/weir/strategies"
  "admin" (dict "enabled" .Values.admin.enabled "port" 8082 "configMap" (include "weir.strategies" .))
  "leaderElection" (dict "name" (printf "%s-leader-election" (include "weir.name" .)) "namespace" .Release.Namespace
    "karpenterName" .Values.karpenterLease.name "karpenterNamespace" .Values.karpenterLease.namespace)
  "metrics" (dict "port" 8080) "health" (dict "port" 8081)
-}}
{{- $sidecars := dict -}}
{{- range $name, $_ := .Values.strategySidecars }}{{ $_ := set $sidecars $name (dict "isolation" "container" "socket" (include "weir.sidecarSocket" $name)) }}{{ end -}}
{{- with $sidecars }}{{ $_ := set $given "strategies" . }}{{ end -}}
{{- if $shared }}{{ $_ := set $given "interruption" (dict "lambda" .Values.interruption.enabled) }}{{ end -}}
{{ toYaml (mergeOverwrite (deepCopy .Values.config) $given) }}
{{- end -}}

{{- /* The port of the simulated EC2's URL. */ -}}
{{- define "weir.simPort" -}}
{{- $url := urlParse .Values.cloud.address -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{ $port | default (eq $url.scheme "https" | ternary "443" "80") }}
{{- end -}}
