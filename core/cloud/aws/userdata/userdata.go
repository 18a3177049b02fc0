package userdata

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/model"
)

// Limit is the size that EC2 takes before base64, bytes; Near is where a warning begins.
const (
	Limit = 16384
	Near  = 14745
)

// Cluster is what a kubelet must know of its cluster.
type Cluster struct {
	Name        string
	Endpoint    string // URL of the API server
	CA          string // base64 of the PEM bundle
	ServiceCIDR string // of AL2023 only
	DNS         string // address of the cluster's DNS service, empty = the kubelet's own default
}

// Input is one kind of instance.
type Input struct {
	Family       string // one of awsv1's Family constants
	Cluster      Cluster
	Labels       map[string]string // of the claim, all of them; what a kubelet may not set is left out here
	Taints       []model.Taint     // of the claim, startup taints included; that of the unregistered is added here
	MaxPods      int32
	Kubelet      *kubeletv1beta1.KubeletConfiguration // of the class, valid; nil = nothing set
	KubeletRaw   []byte                               // the same as the user wrote it, JSON; nil = nothing set
	RAID0        bool                                 // instanceStorePolicy
	User         string                               // spec.userData
	ImageVersion string                               // of Bottlerocket, such as 1.46.0; empty or latest = the newest
}

// Output is the text, and what of the user's settings will not hold.
type Output struct {
	Text     []byte
	Warnings []string
}

// Error says what is wrong with the user's part, or what of the cluster is missing.
type Error struct {
	Field   string // spec.userData, or the fact of the cluster
	Message string
	TooLong bool // beyond what EC2 takes
}

// Error is field and message.
func (e *Error) Error() string { return e.Field + ": " + e.Message }

// FieldServiceCIDR is the field of an error about that fact of the cluster.
const FieldServiceCIDR = "cluster service CIDR"

func bad(format string, args ...any) error {
	return &Error{Field: "spec.userData", Message: fmt.Sprintf(format, args...)}
}

// Render writes the user data of a family.
func Render(in Input) (Output, error) {
	if in.Kubelet == nil {
		in.Kubelet = &kubeletv1beta1.KubeletConfiguration{}
	}
	write, ok := map[string]func(*Input) (Output, error){
		awsv1.FamilyAL2023: al2023, awsv1.FamilyAL2: al2, awsv1.FamilyBottlerocket: bottlerocket,
		awsv1.FamilyWindows2019: windows, awsv1.FamilyWindows2022: windows, awsv1.FamilyWindows2025: windows,
		awsv1.FamilyCustom: custom,
	}[in.Family]
	if !ok {
		return Output{}, &Error{Field: "spec.amiFamily", Message: fmt.Sprintf("unknown family %q", in.Family)}
	}
	if in.Family != awsv1.FamilyCustom {
		for field, value := range map[string]string{"cluster name": in.Cluster.Name, "cluster endpoint": in.Cluster.Endpoint, "cluster certificate": in.Cluster.CA} {
			if value == "" {
				return Output{}, &Error{Field: field, Message: "is not known; without it no node can join"}
			}
		}
	}
	out, err := write(&in)
	if err != nil {
		return Output{}, err
	}
	switch n := len(out.Text); {
	case n > Limit:
		return Output{}, &Error{Field: "spec.userData", TooLong: true, Message: fmt.Sprintf("%d bytes with what is generated, EC2 takes at most %d", n, Limit)}
	case n >= Near:
		out.Warnings = append(out.Warnings, fmt.Sprintf("user data has %d bytes of the %d that EC2 takes", n, Limit))
	}
	return out, nil
}

func custom(in *Input) (Output, error) { return Output{Text: []byte(in.User)}, nil }

// unsettable are the domains of labels that admission keeps kubelets from setting; the scaler sets them at registration.
var unsettable = []string{"node-restriction.kubernetes.io", "kubernetes.io", "k8s.io"}

// labels is what the kubelet is told to set, in order.
func (in *Input) labels() map[string]string {
	out := map[string]string{}
	for k, v := range in.Labels {
		domain, _, has := strings.Cut(k, "/")
		if has && slices.ContainsFunc(unsettable, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) }) {
			continue
		}
		out[k] = v
	}
	out[model.LabelNoSyncTaints] = "true"
	return out
}

// nodeLabels is the labels as the kubelet's flag --node-labels wants them.
func (in *Input) nodeLabels() string {
	labels := in.labels()
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ",")
}

func (in *Input) taints() []model.Taint {
	out := slices.Clone(in.Taints)
	own := model.Taint{Key: model.TaintUnregistered, Effect: model.NoExecute}
	if !slices.ContainsFunc(out, own.Same) {
		out = append(out, own)
	}
	return out
}

// dns is the addresses of the cluster's DNS: the user's, else the service's.
func (in *Input) dns() []string {
	switch {
	case len(in.Kubelet.ClusterDNS) > 0:
		return in.Kubelet.ClusterDNS
	case in.Cluster.DNS != "":
		return []string{in.Cluster.DNS}
	}
	return nil
}

// pairs writes a map as a kubelet's flag wants it: k, separator, v, joined by commas, in order of the keys.
func pairs(m map[string]string, separator string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+separator+m[k])
	}
	return strings.Join(parts, ",")
}

// IPv6 says whether the cluster's services have addresses of that family.
func (c *Cluster) IPv6() bool {
	a, err := netip.ParseAddr(c.DNS)
	return err == nil && a.Is6()
}
