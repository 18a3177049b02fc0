package attach

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// Prefix of the resources that stand for places for volumes; the name of the CSI
// driver follows.
const Prefix = "attachable-volumes.weir.dev/"

// EBS is the CSI driver of EBS volumes, the only one whose limit follows from the type
// of the machine.
const EBS = "ebs.csi.aws.com"

// Unlimited stands for a driver without a limit. Sums of it do not overflow.
const Unlimited int64 = 1 << 40

// Resource is the name of the resource of a driver.
func Resource(driver string) string { return Prefix + driver }

// AddDrivers adds the drivers of which a request asks places to a sorted list, and says
// whether there were new ones. The list is not modified in place.
func AddDrivers(list []string, v resource.Vector) (out []string, added bool) {
	for _, a := range v.Ext {
		d, ok := strings.CutPrefix(a.Name, Prefix)
		if !ok {
			continue
		}
		if i, found := slices.BinarySearch(list, d); !found {
			list, added = slices.Insert(slices.Clone(list), i, d), true
		}
	}
	return list, added
}

// Strip is the vector without places for volumes, as it may be written into an object.
func Strip(v resource.Vector) resource.Vector {
	ours := func(a resource.Amount) bool { return strings.HasPrefix(a.Name, Prefix) }
	if !slices.ContainsFunc(v.Ext, ours) {
		return v
	}
	v.Ext = slices.DeleteFunc(slices.Clone(v.Ext), ours)
	if len(v.Ext) == 0 {
		v.Ext = nil
	}
	return v
}

// Known is what nodes have reported, by instance type and driver: the least of it.
type Known map[string]map[string]int64

// Note takes in what a node reports, and says whether that changed what is known.
func (k Known) Note(instanceType string, limits map[string]int64) bool {
	if instanceType == "" {
		return false
	}
	changed := false
	for driver, n := range limits {
		have, ok := k[instanceType][driver]
		if ok && have <= n {
			continue
		}
		if k[instanceType] == nil {
			k[instanceType] = map[string]int64{}
		}
		k[instanceType][driver], changed = n, true
	}
	return changed
}

// Limits of EC2, in attachments. Nitro machines share them between network interfaces,
// EBS volumes, local NVMe disks, GPUs and accelerators; some later families have a
// larger limit for volumes alone, which is not counted on before a node reports it.
const (
	nitroAttachments = 28
	xenVolumes       = 39
	rootVolumes      = 1
	interfaces       = 2   // the first, and the one that the network plugin keeps warm
	diskGB           = 600 // the smallest disk of a machine with several
	mostDisks        = 8
	denseDisks       = 24 // of d3 and d3en
)

// Slots is how many EBS volumes besides its root volume a machine holds that has not
// reported yet, by the labels of its type; false where the labels do not tell its
// hypervisor. On Nitro: 28 less the root volume, 2 network interfaces, GPUs,
// accelerators and local disks, at least 1; local disks are guessed from their total
// size, rather too many than too few. On Xen: 39.
func Slots(labels map[string]string) (int64, bool) {
	number := func(label string) int64 {
		n, err := strconv.ParseInt(labels[model.AWSLabelDomain+"/"+label], 10, 64)
		if err != nil {
			return 0
		}
		return max(n, 0)
	}
	hypervisor, ok := labels[model.AWSLabelDomain+"/instance-hypervisor"]
	switch {
	case !ok && !strings.Contains(labels[model.AWSLabelDomain+"/instance-size"], "metal"): // those have none
		return 0, false
	case hypervisor == "xen":
		return xenVolumes, true
	}
	var disks int64
	if gb := number("instance-local-nvme"); gb > 0 {
		disks = min((gb+diskGB-1)/diskGB, mostDisks)
		if f := labels[model.AWSLabelDomain+"/instance-family"]; f == "d3" || f == "d3en" {
			disks = denseDisks
		}
	}
	left := nitroAttachments - rootVolumes - interfaces - disks - number("instance-gpu-count") - number("instance-accelerator-count")
	return max(left, 1), true
}

// limit is what a machine of a type holds that has not reported itself.
func limit(instanceType string, labels map[string]string, driver string, known Known) int64 {
	if n, ok := known[instanceType][driver]; ok {
		return n
	}
	if driver == EBS {
		if n, ok := Slots(labels); ok {
			return n
		}
	}
	return Unlimited
}

// Allocatable is what a node offers, places for the volumes of the given drivers
// included: what the node reports; a driver that a running node does not report is
// without limit, as for kube-scheduler; a node that reports nothing yet is judged by
// its type. A node that has more volumes than that already takes no more of them, and
// other pods as before.
func Allocatable(n *model.Node, drivers []string, known Known) resource.Vector {
	out := n.Allocatable
	if len(drivers) == 0 {
		return out
	}
	used := n.Used()
	for _, d := range drivers {
		most, ok := n.VolumeLimits[d]
		switch {
		case ok:
		case n.VolumeLimits != nil && n.Joined() && n.Initialized():
			most = Unlimited
		default:
			most = limit(n.InstanceType(), n.Labels, d, known)
		}
		out = out.With(Resource(d), max(most, used.Get(Resource(d))))
	}
	return out
}

// Offerings is the list with places for volumes on every type. Types are copied, and
// shared as before.
func Offerings(list []*model.Offering, drivers []string, known Known) []*model.Offering {
	if len(drivers) == 0 {
		return list
	}
	types := map[*model.InstanceType]*model.InstanceType{}
	offers := make([]model.Offering, len(list))
	out := make([]*model.Offering, len(list))
	for i, o := range list {
		t := types[o.Type]
		if t == nil {
			c := *o.Type
			for _, d := range drivers {
				c.Allocatable = c.Allocatable.With(Resource(d), limit(c.Name, c.Labels, d, known))
			}
			t = &c
			types[o.Type] = t
		}
		offers[i] = *o
		offers[i].Type, out[i] = t, &offers[i]
	}
	return out
}

// World gives the nodes and offerings of a world places for the volumes that its pods
// have, waiting or running. It changes the world and nothing that hangs on it. A world
// whose pods have no volumes stays as it is.
func World(w *model.World) {
	var drivers []string
	for _, p := range w.Pods {
		drivers, _ = AddDrivers(drivers, p.Requests)
	}
	for _, n := range w.Nodes {
		for _, p := range n.Pods {
			drivers, _ = AddDrivers(drivers, p.Requests)
		}
	}
	if len(drivers) == 0 {
		return
	}
	known := Known{}
	for _, n := range w.Nodes {
		known.Note(n.InstanceType(), n.VolumeLimits)
	}
	nodes := make([]*model.Node, len(w.Nodes))
	for i, n := range w.Nodes {
		c := *n
		c.Allocatable = Allocatable(n, drivers, known)
		nodes[i] = &c
	}
	w.Nodes = nodes
	w.Offerings = maps.Clone(w.Offerings)
	for class, list := range w.Offerings {
		w.Offerings[class] = Offerings(list, drivers, known)
	}
}
