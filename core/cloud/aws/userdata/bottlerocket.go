package userdata

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"k8s.io/apimachinery/pkg/util/version"
)

// bottlerocket writes settings into the user's TOML; everything else in it stays.
func bottlerocket(in *Input) (Output, error) {
	doc := map[string]any{}
	// To TOML such a line is a comment, and a script of nothing else would be taken for settings.
	if strings.HasPrefix(strings.TrimSpace(in.User), "#!") {
		return Output{}, bad("not TOML, which Bottlerocket reads: it begins as a script does")
	}
	if err := toml.Unmarshal([]byte(in.User), &doc); err != nil {
		return Output{}, bad("not TOML, which Bottlerocket reads: %v", err)
	}
	settings, err := table(doc, "settings", "settings")
	if err != nil {
		return Output{}, err
	}
	kubernetes, err := table(settings, "kubernetes", "settings.kubernetes")
	if err != nil {
		return Output{}, err
	}
	var out Output
	set := func(key string, value any) {
		if have, ok := kubernetes[key]; ok && fmt.Sprint(have) != fmt.Sprint(value) {
			out.Warnings = append(out.Warnings, fmt.Sprintf("spec.userData: settings.kubernetes.%s is %v, nodes run with %v", key, have, value))
		}
		kubernetes[key] = value
	}
	set("cluster-name", in.Cluster.Name)
	set("api-server", in.Cluster.Endpoint)
	set("cluster-certificate", in.Cluster.CA)
	set("max-pods", int64(in.MaxPods))
	if dns := in.dns(); len(dns) > 0 {
		set("cluster-dns-ip", dns[0])
	}
	labels, err := table(kubernetes, "node-labels", "settings.kubernetes.node-labels")
	if err != nil {
		return Output{}, err
	}
	for k, v := range in.labels() {
		labels[k] = v
	}
	taints := map[string][]string{}
	for _, t := range in.taints() {
		taints[t.Key] = append(taints[t.Key], effects(t))
	}
	if _, ok := kubernetes["node-taints"]; ok {
		out.Warnings = append(out.Warnings, "spec.userData: settings.kubernetes.node-taints is replaced by the taints of the NodePool")
	}
	kubernetes["node-taints"] = taints
	in.bottlerocketKubelet(set)
	if in.RAID0 {
		if err := mountDisks(settings, in.ImageVersion); err != nil {
			return Output{}, err
		}
	}
	out.Text, err = toml.Marshal(doc)
	if err != nil {
		return Output{}, fmt.Errorf("bottlerocket settings: %w", err)
	}
	slices.Sort(out.Warnings)
	return out, nil
}

// table finds or makes a table inside another.
func table(in map[string]any, key, path string) (map[string]any, error) {
	v, ok := in[key]
	if !ok {
		v = map[string]any{}
		in[key] = v
	}
	t, ok := v.(map[string]any)
	if !ok {
		return nil, bad("%s is %T, expected a table", path, v)
	}
	return t, nil
}

func (in *Input) bottlerocketKubelet(set func(string, any)) {
	k := in.Kubelet
	for key, m := range map[string]map[string]string{
		"system-reserved": k.SystemReserved, "kube-reserved": k.KubeReserved, "eviction-hard": k.EvictionHard,
		"eviction-soft": k.EvictionSoft, "eviction-soft-grace-period": k.EvictionSoftGracePeriod,
	} {
		if len(m) > 0 {
			set(key, maps.Clone(m))
		}
	}
	if k.EvictionMaxPodGracePeriod > 0 {
		set("eviction-max-pod-grace-period", int64(k.EvictionMaxPodGracePeriod))
	}
	for key, n := range map[string]*int32{"image-gc-high-threshold-percent": k.ImageGCHighThresholdPercent, "image-gc-low-threshold-percent": k.ImageGCLowThresholdPercent} {
		if n != nil {
			set(key, strconv.Itoa(int(*n)))
		}
	}
	if k.CPUCFSQuota != nil {
		set("cpu-cfs-quota-enforced", *k.CPUCFSQuota)
	}
}

// mountDisks makes one array of the local disks at each boot. Images before 1.46.0 have to be told what to put there.
func mountDisks(settings map[string]any, image string) error {
	bind := []string{"apiclient", "ephemeral-storage", "bind"}
	if image = strings.TrimPrefix(image, "v"); image != "" && image != "latest" {
		v, err := version.ParseGeneric(image)
		if err != nil {
			return &Error{Field: "spec.amiSelectorTerms", Message: fmt.Sprintf("version %q of Bottlerocket: %v", image, err)}
		}
		if v.LessThan(version.MustParseGeneric("1.22.0")) {
			return &Error{Field: "spec.instanceStorePolicy", Message: fmt.Sprintf("RAID0 needs Bottlerocket 1.22.0 or later, the image is %s", image)}
		}
		if v.LessThan(version.MustParseGeneric("1.46.0")) {
			bind = append(bind, "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
		}
	}
	commands, err := table(settings, "bootstrap-commands", "settings.bootstrap-commands")
	if err != nil {
		return err
	}
	commands["000-mount-instance-storage"] = map[string]any{
		"commands": [][]string{{"apiclient", "ephemeral-storage", "init"}, bind}, "mode": "always", "essential": true,
	}
	return nil
}
