{{- /* What a definition specifies, in short. The API server adds the conversion that is none. */ -}}
{{- define "crds.hash" -}}
{{- $spec := deepCopy (get . "spec" | default dict) -}}
{{- if eq (toJson (get $spec "conversion")) "{\"strategy\":\"None\"}" }}{{ $_ := unset $spec "conversion" }}{{ end -}}
{{- toJson $spec | sha256sum -}}
{{- end -}}

{{- /* Why the installed definition .have is left alone; empty where it may be applied. .hash is that of ours. */ -}}
{{- define "crds.leftAlone" -}}
{{- if .have -}}
{{- $notes := dig "metadata" "annotations" (dict) .have -}}
{{- $installed := get $notes "weir.dev/crds-version" | default "0.0.0" -}}
{{- $now := include "crds.hash" .have -}}
{{- if or (ne (get $notes "meta.helm.sh/release-name") .root.Release.Name) (ne (get $notes "meta.helm.sh/release-namespace") .root.Release.Namespace) -}}
not of this release
{{- else if semverCompare (printf ">%s" .root.Chart.Version) $installed -}}
of chart {{ $installed }}, which is newer than {{ .root.Chart.Version }}
{{- else if and (ne $now .hash) (ne $now (get $notes "weir.dev/crds-spec")) -}}
edited since this chart applied it
{{- end -}}
{{- end -}}
{{- end -}}
