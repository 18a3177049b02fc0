package userdata

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/model"
)

const (
	nodeConfigGroup = "node.eks.aws/"
	typeNodeConfig  = "application/node.eks.aws"
)

type nodeConfig struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Spec       nodeConfigSpec `json:"spec"`
}

type nodeConfigSpec struct {
	Cluster  nodeConfigCluster   `json:"cluster"`
	Instance *nodeConfigInstance `json:"instance,omitempty"`
	Kubelet  nodeConfigKubelet   `json:"kubelet"`
}

type nodeConfigCluster struct {
	Name                 string `json:"name"`
	APIServerEndpoint    string `json:"apiServerEndpoint"`
	CertificateAuthority string `json:"certificateAuthority"`
	CIDR                 string `json:"cidr"`
}

type nodeConfigInstance struct {
	LocalStorage struct {
		Strategy string `json:"strategy"`
	} `json:"localStorage"`
}

type nodeConfigKubelet struct {
	Config map[string]any `json:"config"`
	Flags  []string       `json:"flags"`
}

// al2023 is a MIME archive with what nodeadm reads last: it merges its documents in order, later ones win.
func al2023(in *Input) (Output, error) {
	if in.Cluster.ServiceCIDR == "" {
		return Output{}, &Error{Field: FieldServiceCIDR, Message: "is not known; nodeadm of AL2023 needs it"}
	}
	var out Output
	parts, err := userParts(in.User, true)
	if err != nil {
		return Output{}, err
	}
	config, err := in.kubeletConfig()
	if err != nil {
		return Output{}, err
	}
	for _, p := range parts {
		if p.kind == typeNodeConfig {
			out.Warnings = append(out.Warnings, overridden(p.body, config)...)
		}
	}
	doc := nodeConfig{APIVersion: nodeConfigGroup + "v1alpha1", Kind: "NodeConfig", Spec: nodeConfigSpec{
		Cluster: nodeConfigCluster{in.Cluster.Name, in.Cluster.Endpoint, in.Cluster.CA, in.Cluster.ServiceCIDR},
		Kubelet: nodeConfigKubelet{Config: config, Flags: []string{fmt.Sprintf("--node-labels=%q", in.nodeLabels())}},
	}}
	if in.RAID0 {
		doc.Spec.Instance = &nodeConfigInstance{}
		doc.Spec.Instance.LocalStorage.Strategy = "RAID0"
	}
	text, err := yaml.Marshal(doc)
	if err != nil {
		return Output{}, fmt.Errorf("NodeConfig: %w", err)
	}
	out.Text = archive(append(parts, part{kind: typeNodeConfig, body: string(text)}))
	return out, nil
}

// kubeletConfig is the user's settings as written, with those that are decided here on top.
func (in *Input) kubeletConfig() (map[string]any, error) {
	config := map[string]any{}
	if len(in.KubeletRaw) > 0 {
		if err := json.Unmarshal(in.KubeletRaw, &config); err != nil {
			return nil, &Error{Field: "spec.kubelet", Message: err.Error()}
		}
	}
	config["maxPods"] = in.MaxPods
	if dns := in.dns(); len(dns) > 0 {
		config["clusterDNS"] = dns
	}
	var taints []map[string]string
	for _, t := range in.taints() {
		one := map[string]string{"key": t.Key, "effect": string(t.Effect)}
		if t.Value != "" {
			one["value"] = t.Value
		}
		taints = append(taints, one)
	}
	config["registerWithTaints"] = taints
	return config, nil
}

// overridden warns of settings in a NodeConfig of the user that the generated one replaces with another value.
func overridden(body string, config map[string]any) []string {
	var doc struct {
		Spec struct {
			Kubelet struct {
				Config map[string]any `json:"config"`
			} `json:"kubelet"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(body), &doc); err != nil {
		return nil // userParts has refused what is no YAML
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(doc.Spec.Kubelet.Config)) {
		ours, ok := config[k]
		if !ok {
			continue
		}
		a, errA := json.Marshal(doc.Spec.Kubelet.Config[k])
		b, errB := json.Marshal(ours)
		if errA == nil && errB == nil && string(a) != string(b) {
			out = append(out, fmt.Sprintf("spec.userData: NodeConfig sets kubelet.config.%s to %s, nodes run with %s of spec.kubelet and the planner", k, a, b))
		}
	}
	return out
}

// nodeConfigOf says whether a text is a NodeConfig; an error where it is some other YAML object.
func nodeConfigOf(text string) (bool, error) {
	var doc map[string]any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || doc == nil {
		return false, nil // a script
	}
	version, _ := doc["apiVersion"].(string)
	if !strings.HasPrefix(version, nodeConfigGroup) || doc["kind"] != "NodeConfig" {
		return false, bad("a YAML object with apiVersion %q and kind %v, expected a NodeConfig of %sv1alpha1, a MIME archive or a script", version, doc["kind"], nodeConfigGroup)
	}
	return true, nil
}

// effects writes a taint as Bottlerocket and the kubelet's flag have it behind the key.
func effects(t model.Taint) string { return t.Value + ":" + string(t.Effect) }
