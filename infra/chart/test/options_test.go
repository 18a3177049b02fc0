package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// choice is one way to set one thing.
type choice struct {
	name   string
	values map[string]any
}

// choices are, for each thing that the chart lets one choose, the ways to do so.
var choices = [][]choice{
	{{"sim", nil}, {"aws", map[string]any{"cloud": map[string]any{"kind": "aws", "address": ""}, "config": map[string]any{"region": "eu-west-1"}}}},
	{{"bolt", nil}, {"dynamodb", map[string]any{"ledger": "dynamodb", "ledgerTable": "weir-demo", "config": map[string]any{"region": "eu-west-1"}}}},
	{{"alone", nil}, {"functions", map[string]any{"interruption": map[string]any{"enabled": true}}}},
	{{"digest", nil}, {"tag", map[string]any{"image": map[string]any{"digest": "", "tag": "v1"}}}},
	{{"open", nil}, {"policy", map[string]any{"networkPolicy": map[string]any{
		"enabled":     true,
		"metricsFrom": []any{map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"team": "observability"}}}},
		"egress":      []any{map[string]any{"ports": []any{map[string]any{"protocol": "TCP", "port": 3128}}}},
	}}}},
	{{"unwatched", nil}, {"monitor", map[string]any{"serviceMonitor": map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}}}}},
	{{"built-ins", nil}, {"volume", strategyImage("volume", nil)}, {"init", strategyImage("init", []any{"cp", "/carbon", "/strategies/carbon/"})}, {"sidecar", sidecars()}},
	{{"plain", nil}, {"dressed", map[string]any{
		"pullSecrets": []any{map[string]any{"name": "registry"}}, "env": []any{map[string]any{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}},
		"podLabels": map[string]any{"team": "a"}, "podAnnotations": map[string]any{"note": "b"}, "dnsPolicy": "Default",
		"serviceAccount":    map[string]any{"name": "other", "annotations": map[string]any{"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/weir"}},
		"priorityClassName": "", "nodeSelector": map[string]any{"pool": "system"}, "tolerations": []any{},
		"resources": map[string]any{"requests": map[string]any{"cpu": "2"}, "limits": nil},
		"config":    map[string]any{"schedulerConfig": spreadDefaults, "log": map[string]any{"level": "debug"}},
	}}},
}

func strategyImage(source string, command []any) map[string]any {
	s := map[string]any{"image": "registry.example/carbon@sha256:" + strings.Repeat("b", 64), "source": source}
	if command != nil {
		s["command"] = command
	}
	return map[string]any{"strategyImages": map[string]any{"carbon": s}, "config": map[string]any{"strategies": map[string]any{"carbon": map[string]any{
		"kind": "instance-selection", "path": "/strategies/carbon/carbon", "sha256": strings.Repeat("c", 64), "allowUnsandboxed": true,
	}}}}
}

// sidecars are two strategies in containers of their own, one with everything that can be set.
func sidecars() map[string]any {
	return map[string]any{
		"strategySidecars": map[string]any{
			"carbon": map[string]any{"image": "registry.example/carbon@sha256:" + strings.Repeat("b", 64)},
			"wind": map[string]any{
				"image": "registry.example/wind@sha256:" + strings.Repeat("d", 64), "pullPolicy": "Always", "command": []any{"/wind"}, "args": []any{"--calm"},
				"env": []any{map[string]any{"name": "ZONE", "value": "eu"}}, "user": 7000, "resources": map[string]any{"limits": map[string]any{"cpu": "1", "memory": "64Mi"}},
			},
		},
		"config": map[string]any{"strategies": map[string]any{
			"carbon": map[string]any{"kind": "instance-selection", "callTimeout": "300ms"}, "wind": map[string]any{"kind": "consolidation"},
		}},
	}
}

// combinations calls f with every combination of the choices and its name.
func combinations(f func(name string, values map[string]any)) {
	var walk func(i int, name []string, values map[string]any)
	walk = func(i int, name []string, values map[string]any) {
		if i == len(choices) {
			f(strings.Join(name, ","), with(values))
			return
		}
		for _, c := range choices[i] {
			// The charts' own merge changes what it is given.
			walk(i+1, append(name[:len(name):len(name)], c.name), chartutil.CoalesceTables(copied(values), copied(c.values)))
		}
	}
	walk(0, nil, map[string]any{})
}

func copied(m map[string]any) map[string]any {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // literals of this file
	}
	out := map[string]any{}
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

// typed are the kinds that the chart may make; anything else fails the test.
var typed = map[string]func() any{
	"apps/v1/Deployment":                              func() any { return &appsv1.Deployment{} },
	"v1/ConfigMap":                                    func() any { return &corev1.ConfigMap{} },
	"v1/Service":                                      func() any { return &corev1.Service{} },
	"v1/ServiceAccount":                               func() any { return &corev1.ServiceAccount{} },
	"networking.k8s.io/v1/NetworkPolicy":              func() any { return &networkingv1.NetworkPolicy{} },
	"policy/v1/PodDisruptionBudget":                   func() any { return &policyv1.PodDisruptionBudget{} },
	"rbac.authorization.k8s.io/v1/ClusterRole":        func() any { return &rbacv1.ClusterRole{} },
	"rbac.authorization.k8s.io/v1/ClusterRoleBinding": func() any { return &rbacv1.ClusterRoleBinding{} },
	"rbac.authorization.k8s.io/v1/Role":               func() any { return &rbacv1.Role{} },
	"rbac.authorization.k8s.io/v1/RoleBinding":        func() any { return &rbacv1.RoleBinding{} },
	"monitoring.coreos.com/v1/ServiceMonitor":         func() any { return &monitoringv1.ServiceMonitor{} },
}

// decode reads an object strictly into the type of its kind.
func decode(u *unstructured.Unstructured) (any, error) {
	kind := u.GetAPIVersion() + "/" + u.GetKind()
	fresh := typed[kind]
	if fresh == nil {
		return nil, fmt.Errorf("kind %s is not one that the chart makes", kind)
	}
	b, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	out := fresh()
	return out, yaml.UnmarshalStrict(b, out)
}

// TestEveryCombination renders all combinations of options and looks at what must hold in each.
func TestEveryCombination(t *testing.T) {
	t.Parallel()
	n, checked := 0, map[string]bool{}
	combinations(func(name string, values map[string]any) {
		n++
		objects, err := render(chartDir, values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if err := sound(objects, values); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := at(t, find(t, objects, "ConfigMap", "weir"), "data", "config.yaml").(string)
		if !checked[text] {
			checked[text] = true
			validConfig(t, text)
		}
	})
	if n != 512 {
		t.Errorf("%d combinations, expected 512", n)
	}
}

// sound says what is wrong with the objects of a release.
func sound(objects []*unstructured.Unstructured, values map[string]any) error {
	var d *appsv1.Deployment
	selectors := map[string]map[string]string{}
	seen := map[string]bool{}
	for _, u := range objects {
		o, err := decode(u)
		if err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
		id := u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
		if seen[id] {
			return fmt.Errorf("%s is there twice", id)
		}
		seen[id] = true
		if u.GetLabels()["app.kubernetes.io/instance"] != release {
			return fmt.Errorf("%s has labels %v", id, u.GetLabels())
		}
		switch o := o.(type) {
		case *appsv1.Deployment:
			d, selectors[id] = o, o.Spec.Selector.MatchLabels
		case *corev1.Service:
			selectors[id] = o.Spec.Selector
		case *networkingv1.NetworkPolicy:
			selectors[id] = o.Spec.PodSelector.MatchLabels
		case *policyv1.PodDisruptionBudget:
			selectors[id] = o.Spec.Selector.MatchLabels
		}
	}
	if d == nil {
		return fmt.Errorf("no Deployment among %v", seen)
	}
	for id, s := range selectors {
		if len(s) == 0 || !labels.SelectorFromSet(s).Matches(labels.Set(d.Spec.Template.Labels)) {
			return fmt.Errorf("%s selects %v, the pods have %v", id, s, d.Spec.Template.Labels)
		}
	}
	return soundPods(d, values)
}

func soundPods(d *appsv1.Deployment, values map[string]any) error {
	pod := d.Spec.Template.Spec
	shared := values["ledger"] == "dynamodb"
	if two := *d.Spec.Replicas == 2; two != shared || (d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType) == shared {
		return fmt.Errorf("%d replicas and strategy %s with ledger %v", *d.Spec.Replicas, d.Spec.Strategy.Type, values["ledger"])
	}
	if shared != (len(pod.TopologySpreadConstraints) == 2) {
		return fmt.Errorf("%d spread constraints with ledger %v", len(pod.TopologySpreadConstraints), values["ledger"])
	}
	s := pod.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		return fmt.Errorf("the pod's security is %+v", s)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
			s.Capabilities == nil || len(s.Capabilities.Add) > 0 || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" || s.Privileged != nil {
			return fmt.Errorf("container %s has security %+v", c.Name, s)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				return fmt.Errorf("container %s mounts %s, which is no volume", c.Name, m.Name)
			}
		}
	}
	if err := soundTokens(d); err != nil {
		return err
	}
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for _, term := range terms { // any of them admits a node
		off := false
		for _, e := range term.MatchExpressions {
			off = off || e.Key == "karpenter.sh/nodepool" && e.Operator == corev1.NodeSelectorOpDoesNotExist
		}
		if !off {
			return fmt.Errorf("the scaler may run on machines that it manages: %+v", term)
		}
	}
	if len(terms) == 0 {
		return fmt.Errorf("no node affinity")
	}
	return nil
}

// soundTokens says which container other than the scaler has a token, an AWS role or the
// scaler's user, and whether the scaler has its token.
func soundTokens(d *appsv1.Deployment) error {
	pod := d.Spec.Template.Spec
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		return fmt.Errorf("every container gets a token by itself")
	}
	if pod.ShareProcessNamespace != nil || pod.HostPID || pod.HostNetwork || pod.HostIPC {
		return fmt.Errorf("the pod shares namespaces")
	}
	token, secret := map[string]bool{}, map[string]bool{}
	for _, v := range pod.Volumes {
		for _, s := range deref(v.Projected).Sources {
			token[v.Name] = token[v.Name] || s.ServiceAccountToken != nil
		}
		secret[v.Name] = v.Secret != nil
	}
	skipped := strings.Split(d.Spec.Template.Annotations["eks.amazonaws.com/skip-containers"], ",")
	users := map[int64]string{65532: "scaler"}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		tokens := 0
		for _, m := range c.VolumeMounts {
			if token[m.Name] || secret[m.Name] && c.Name != "scaler" {
				tokens++
			}
		}
		if c.Name == "scaler" {
			if tokens != 1 || slices.Contains(skipped, c.Name) {
				return fmt.Errorf("the scaler mounts %d tokens; without a role are %v", tokens, skipped)
			}
			continue
		}
		if tokens > 0 || !slices.Contains(skipped, c.Name) {
			return fmt.Errorf("container %s mounts %d tokens; without a role are %v", c.Name, tokens, skipped)
		}
		if !strings.HasPrefix(c.Name, "sidecar-") {
			continue
		}
		u := c.SecurityContext.RunAsUser
		if u == nil || users[*u] != "" {
			return fmt.Errorf("container %s runs as %v, users are %v", c.Name, u, users)
		}
		users[*u] = c.Name
	}
	return nil
}

func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

func decoded[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) T {
	t.Helper()
	o, err := decode(find(t, objects, kind, name))
	if err != nil {
		t.Fatal(err)
	}
	return o.(T)
}

func TestStrategyImages(t *testing.T) {
	t.Parallel()
	for source, tc := range map[string]struct {
		values map[string]any
		init   int
	}{
		"volume": {strategyImage("volume", nil), 0},
		"init":   {strategyImage("init", []any{"cp", "/carbon", "/strategies/carbon/"}), 1},
	} {
		d := decoded[*appsv1.Deployment](t, must(t, chartDir, with(tc.values)), "Deployment", "weir")
		pod := d.Spec.Template.Spec
		var volume *corev1.Volume
		for i, v := range pod.Volumes {
			if v.Name == "strategy-carbon" {
				volume = &pod.Volumes[i]
			}
		}
		const image = "registry.example/carbon@sha256:bbbb"
		if volume == nil || (volume.Image != nil) != (source == "volume") || (volume.EmptyDir != nil) != (source == "init") {
			t.Errorf("%s: volume is %+v", source, volume)
		} else if volume.Image != nil && !strings.HasPrefix(volume.Image.Reference, image) {
			t.Errorf("%s: image of the volume is %s", source, volume.Image.Reference)
		}
		if len(pod.InitContainers) != tc.init {
			t.Fatalf("%s: %d init containers, expected %d", source, len(pod.InitContainers), tc.init)
		}
		for _, c := range pod.InitContainers {
			if !strings.HasPrefix(c.Image, image) || strings.Join(c.Command, " ") != "cp /carbon /strategies/carbon/" || c.VolumeMounts[0].ReadOnly {
				t.Errorf("init container is %+v", c)
			}
		}
		mounted := false
		for _, m := range pod.Containers[0].VolumeMounts {
			mounted = mounted || m.Name == "strategy-carbon" && m.MountPath == "/strategies/carbon" && m.ReadOnly
		}
		if !mounted {
			t.Errorf("%s: the scaler mounts %+v", source, pod.Containers[0].VolumeMounts)
		}
	}
}

// TestStrategySidecars: a container for each, with its own user, limits and folder, that
// the scaler meets at the socket that its configuration names.
func TestStrategySidecars(t *testing.T) {
	t.Parallel()
	objects := must(t, chartDir, with(sidecars()))
	pod := decoded[*appsv1.Deployment](t, objects, "Deployment", "weir").Spec.Template.Spec
	if len(pod.Containers) != 3 {
		t.Fatalf("%d containers, expected 3", len(pod.Containers))
	}
	carbon, wind := pod.Containers[1], pod.Containers[2]
	const want = `args:
- --calm
command:
- /wind
env:
- name: WEIR_STRATEGY_SOCKET
  value: /run/weir/wind/strategy.sock
- name: ZONE
  value: eu
image: registry.example/wind@sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd
imagePullPolicy: Always
name: sidecar-wind
resources:
  limits:
    cpu: "1"
    memory: 64Mi
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop:
    - ALL
  readOnlyRootFilesystem: true
  runAsGroup: 7000
  runAsUser: 7000
volumeMounts:
- mountPath: /run/weir/wind
  name: sidecar-wind
`
	if diff := cmp.Diff(want, yamlOf(t, wind)); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	if *carbon.SecurityContext.RunAsUser != 65540 || carbon.Resources.Limits.Memory().String() != "256Mi" {
		t.Errorf("container without settings runs as %d with %v", *carbon.SecurityContext.RunAsUser, carbon.Resources)
	}
	for _, name := range []string{"sidecar-carbon", "sidecar-wind"} {
		mounted := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == name && m.MountPath == "/run/weir/"+strings.TrimPrefix(name, "sidecar-") && !m.ReadOnly
		})
		shared := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name && v.EmptyDir != nil })
		if !mounted || !shared {
			t.Errorf("%s: the scaler mounts it: %t, it is an emptyDir: %t", name, mounted, shared)
		}
	}
	var c struct {
		Strategies map[string]map[string]any `json:"strategies"`
	}
	text := at(t, find(t, objects, "ConfigMap", "weir"), "data", "config.yaml").(string)
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]map[string]any{
		"carbon": {"kind": "instance-selection", "callTimeout": "300ms", "isolation": "container", "socket": "/run/weir/carbon/strategy.sock"},
		"wind":   {"kind": "consolidation", "isolation": "container", "socket": "/run/weir/wind/strategy.sock"},
	}, c.Strategies); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	// What somebody has the webhooks of EKS skip already stays.
	d := decoded[*appsv1.Deployment](t, must(t, chartDir, with(chartutil.CoalesceTables(sidecars(), map[string]any{
		"podAnnotations": map[string]any{"eks.amazonaws.com/skip-containers": "mesh"},
	}))), "Deployment", "weir")
	if got := d.Spec.Template.Annotations["eks.amazonaws.com/skip-containers"]; got != "sidecar-carbon,sidecar-wind,mesh" {
		t.Errorf("without a role are %s", got)
	}
}

// TestImageVolumesNeedANewCluster: the API server of an older one would drop them silently.
func TestImageVolumesNeedANewCluster(t *testing.T) {
	t.Parallel()
	old := capabilities("v1.32.9")
	if _, err := renderOn(old, chartDir, with(strategyImage("volume", nil))); err == nil || !strings.Contains(err.Error(), "this cluster is v1.32.9") {
		t.Errorf("error %v, expected one that names the cluster's version", err)
	}
	if _, err := renderOn(old, chartDir, with(strategyImage("init", []any{"cp"}))); err != nil {
		t.Error(err)
	}
}

func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	on := map[string]any{"networkPolicy": map[string]any{"enabled": true}}
	for name, tc := range map[string]struct {
		values map[string]any
		want   string
	}{
		"aws":           {onEC2(copied(on)), "53 53 443 6443 80@169.254.170.23/32@fd00:ec2::23/128"},
		"sim":           {with(copied(on)), "53 53 443 6443 8090"},
		"sim, no port":  {with(chartutil.CoalesceTables(map[string]any{"cloud": map[string]any{"address": "http://simcloud.example/x"}}, copied(on))), "53 53 443 6443 80"},
		"sim, by https": {with(chartutil.CoalesceTables(map[string]any{"cloud": map[string]any{"address": "https://simcloud.example"}}, copied(on))), "53 53 443 6443 443"},
	} {
		p := decoded[*networkingv1.NetworkPolicy](t, must(t, chartDir, tc.values), "NetworkPolicy", "weir")
		var got []string
		for _, r := range p.Spec.Egress {
			for _, port := range r.Ports {
				text := port.Port.String()
				for _, to := range r.To {
					text += "@" + to.IPBlock.CIDR
				}
				got = append(got, text)
			}
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%s: egress to %s, expected %s", name, s, tc.want)
		}
		if len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Ingress) != 2 {
			t.Errorf("%s: policy types %v, ingress %+v", name, p.Spec.PolicyTypes, p.Spec.Ingress)
		}
	}
}

func TestServiceMonitorFindsTheService(t *testing.T) {
	t.Parallel()
	objects := must(t, chartDir, with(map[string]any{"serviceMonitor": map[string]any{"enabled": true, "interval": "10s", "labels": map[string]any{"release": "prometheus"}}}))
	m := decoded[*monitoringv1.ServiceMonitor](t, objects, "ServiceMonitor", "weir")
	service := decoded[*corev1.Service](t, objects, "Service", "weir")
	selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	if !selector.Matches(labels.Set(service.Labels)) || m.Spec.NamespaceSelector.MatchNames[0] != service.Namespace {
		t.Errorf("it selects %s in %v, the service has %v in %s", selector, m.Spec.NamespaceSelector.MatchNames, service.Labels, service.Namespace)
	}
	if e := m.Spec.Endpoints[0]; e.Port != service.Spec.Ports[0].Name || e.Interval != "10s" {
		t.Errorf("endpoint is %+v, port of the service %s", e, service.Spec.Ports[0].Name)
	}
	if m.Labels["release"] != "prometheus" {
		t.Errorf("labels are %v", m.Labels)
	}
}

// TestChangesReachTheScaler: what a running scaler takes in leaves its pod alone, what it
// does not replaces the pod. Which is which is in the configuration's reference.
func TestChangesReachTheScaler(t *testing.T) {
	t.Parallel()
	sum := func(config map[string]any) string {
		d := find(t, must(t, chartDir, with(map[string]any{"config": config})), "Deployment", "weir")
		return at(t, d, "spec", "template", "metadata", "annotations", "weir.dev/fixed-configuration").(string)
	}
	before, tried := sum(map[string]any{"region": "x"}), 0
	for field, live := range liveFields(t) {
		var config any = "sample" // what a field may be is for the scaler to say
		if strings.HasPrefix(field, "strategies.") {
			field, config = "strategies", map[string]any{"savings": map[string]any{"callTimeout": "1s"}}
		}
		for _, part := range slices.Backward(strings.Split(field, ".")) {
			config = map[string]any{part: config}
		}
		values := config.(map[string]any)
		if field != "region" {
			values["region"] = "x"
		}
		if _, err := render(chartDir, with(map[string]any{"config": values})); err != nil && strings.Contains(err.Error(), "values don't meet the specifications") {
			continue // set by other values
		}
		tried++
		if same := sum(values) == before; same != live {
			t.Errorf("%s: the pod stays: %v; a running scaler takes it in: %v; the list is weir.fixed in _helpers.tpl", field, same, live)
		}
	}
	if tried < 30 {
		t.Errorf("only %d fields were tried", tried)
	}
}

// liveFields are all fields of the configuration, and whether a running scaler takes them in.
func liveFields(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	fields, _, _ := strings.Cut(string(text), "\n## Flags")
	for line := range strings.Lines(fields) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		if live := strings.TrimSpace(cells[3]); live == "yes" || live == "no" {
			out[strings.Trim(cells[1], " `")] = live == "yes"
		}
	}
	return out
}

// TestNotes: what a person is told after an install.
func TestNotes(t *testing.T) {
	t.Parallel()
	notes := func(values map[string]any) string { return texts(t, values)["weir/templates/NOTES.txt"] }
	for name, tc := range map[string]struct {
		text, has, also, hasNot string
	}{
		"sim, bolt": {notes(with(nil)), "simulated, by http://simcloud.example:8090", "Two replicas", "Pod Identity"},
		"aws":       {notes(onEC2(nil)), "there has to be an EKS Pod\nIdentity association", "demo", "simulated"},
		"irsa, table": {notes(onEC2(map[string]any{"ledger": "dynamodb", "ledgerTable": "t-1", "serviceAccount": map[string]any{
			"annotations": map[string]any{"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/weir"}}})), "kube-system/karpenter-leader-election", "definitions of chart weir-crds.", "Pod Identity"},
	} {
		if !strings.Contains(tc.text, tc.has) || !strings.Contains(tc.text, tc.also) || strings.Contains(tc.text, tc.hasNot) {
			t.Errorf("%s: expected %q and %q, and not %q, in:\n%s", name, tc.has, tc.also, tc.hasNot, tc.text)
		}
	}
}
