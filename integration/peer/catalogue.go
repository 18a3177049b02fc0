package main

import (
	"bytes"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/weir-project/weir/core/model"
	amounts "github.com/weir-project/weir/core/model/resource"
	"github.com/weir-project/weir/integration/bench/measure"
)

// instanceTypes are what can be bought with the node class of the manifests in a
// folder, as Karpenter's providers describe it: the very offerings that Weir sees.
func instanceTypes(dir string) ([]*cloudprovider.InstanceType, error) {
	in, err := measure.Read(dir)
	if err != nil {
		return nil, err
	}
	cfg, err := measure.Settings()
	if err != nil {
		return nil, err
	}
	w := measure.World(in, cfg)
	var out []*cloudprovider.InstanceType
	keys := map[string]bool{}
	for _, offerings := range w.Offerings {
		for _, o := range offerings {
			for k := range o.Type.Labels {
				keys[k] = true
			}
		}
		byType := map[string][]*model.Offering{}
		for _, o := range offerings {
			byType[o.Type.Name] = append(byType[o.Type.Name], o)
		}
		// A provider registers its labels, and its types say of each that they do not
		// have it where they do not.
		karpv1.WellKnownLabels.Insert(slices.Collect(maps.Keys(keys))...)
		for _, name := range slices.Sorted(maps.Keys(byType)) {
			out = append(out, instanceType(byType[name], keys))
		}
	}
	return out, nil
}

func instanceType(offerings []*model.Offering, keys map[string]bool) *cloudprovider.InstanceType {
	t := offerings[0].Type
	it := &cloudprovider.InstanceType{Name: t.Name, Requirements: scheduling.NewRequirements(), Capacity: list(t.Capacity),
		Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: list(t.Capacity.Sub(t.Allocatable))}}
	for k := range keys {
		if v, ok := t.Labels[k]; ok {
			it.Requirements.Add(scheduling.NewRequirement(k, corev1.NodeSelectorOpIn, v))
		} else {
			it.Requirements.Add(scheduling.NewRequirement(k, corev1.NodeSelectorOpDoesNotExist))
		}
	}
	zones, kinds := map[string]bool{}, map[string]bool{}
	for _, o := range offerings {
		zones[o.Zone], kinds[o.CapacityType] = true, true
		it.Offerings = append(it.Offerings, &cloudprovider.Offering{Price: o.USDPerHour, Available: o.Available, Requirements: scheduling.NewLabelRequirements(map[string]string{
			corev1.LabelTopologyZone: o.Zone, karpv1.CapacityTypeLabelKey: o.CapacityType})})
	}
	it.Requirements.Add(
		scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, t.Name),
		scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, slices.Sorted(maps.Keys(zones))...),
		scheduling.NewRequirement(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, slices.Sorted(maps.Keys(kinds))...),
		scheduling.NewRequirement(corev1.LabelWindowsBuild, corev1.NodeSelectorOpDoesNotExist),
	)
	return it
}

// list writes amounts as a resource list.
func list(v amounts.Vector) corev1.ResourceList {
	out := corev1.ResourceList{}
	v.Each(func(name string, n int64) {
		if name == string(corev1.ResourceCPU) {
			out[corev1.ResourceCPU] = *resource.NewMilliQuantity(n, resource.DecimalSI)
			return
		}
		out[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.BinarySI)
	})
	return out
}

// splitDocuments cuts YAML at its document separators.
func splitDocuments(data []byte) [][]byte { return bytes.Split(data, []byte("\n---\n")) }
