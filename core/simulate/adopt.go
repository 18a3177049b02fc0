package simulate

import (
	"cmp"
	"fmt"
	"maps"

	ec2 "github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/model"
)

// adopt takes in a node of the files: the Node object with a kubelet that runs, its
// claim, and the machine under both. A claim that has not joined yet brings its
// machine, if it has one, which joins later.
func (s *sim) adopt(n *model.Node) error {
	c := n.Claim
	if c != nil {
		claim := *c
		claim.UID = cmp.Or(claim.UID, s.api.uid())
		claim.ResourceVersion = s.api.version()
		if claim.Created.IsZero() {
			claim.Created = s.now
		}
		if _, taken := s.api.claims.get(claim.Name); taken {
			return fmt.Errorf("NodeClaim %s is there already", claim.Name)
		}
		s.api.claims.put(claim.Name, &claim)
		s.api.watch(cluster.UpsertClaim{Claim: &claim})
		c = &claim
	}
	k := &kubelet{alive: true, joined: n.Joined(), machine: ec2.Machine{NodeName: n.Name}}
	if c != nil && c.ProviderID != "" {
		m, err := s.adoptMachine(n, c)
		if err != nil {
			return err
		}
		k.machine = m
		s.kubelets[m.ID], s.byMachine[m.NodeName] = k, m.ID
		s.bills[m.ID] = &NodeBill{Launched: s.now, Registered: s.now}
	}
	if !n.Joined() {
		if k.machine.ID != "" {
			s.byNode[k.machine.NodeName] = k
			s.in(s.delays.Join, func() {
				if k.alive {
					s.join(k)
				}
			})
		}
		return nil
	}
	s.byNode[n.Name] = k
	node := *n
	node.Claim, node.Pods = nil, nil
	node.UID = cmp.Or(node.UID, s.api.uid())
	if c != nil {
		s.api.nodeOwner[node.Name] = c.UID
	}
	s.api.putNode(&node)
	return nil
}

// adoptMachine makes the instance that claim and node say they stand on.
func (s *sim) adoptMachine(n *model.Node, c *model.Claim) (ec2.Machine, error) {
	label := func(key string) string { return cmp.Or(n.Labels[key], c.Labels[key]) }
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	id := model.InstanceID(c.ProviderID)
	name := cmp.Or(n.Name, c.NodeName, "node-of-"+c.Name)
	labels[model.LabelHostname], labels[model.LabelInstanceID] = name, id
	launch := c.Annotations[model.AnnotationLaunch]
	m := ec2.Machine{Claim: c.Name, NodeName: name, LaunchID: launch, Labels: labels, Taints: append(append([]model.Taint{}, c.Taints...), c.StartupTaints...),
		Capacity: n.Capacity.Map(), Allocatable: n.Allocatable.Map()}
	m.ID, m.ImageID, m.Launched = id, c.ImageID, c.Created
	m.Type, m.Zone, m.CapacityType = label(model.LabelInstanceType), label(model.LabelZone), label(model.LabelCapacityType)
	m.Tags = map[string]string{ec2.TagCluster: s.opts.Cluster, model.LabelPool: c.Pool, model.LabelNodeClass: c.NodeClass.Name}
	known, err := s.cloud.Adopt(m)
	if err != nil {
		return m, fmt.Errorf("NodeClaim %s: %w", c.Name, err)
	}
	if !known {
		s.report.Warnings = append(s.report.Warnings, fmt.Sprintf("node %s: %s in %s, %s: not sold, so its price is taken as 0", name, m.Type, m.Zone, m.CapacityType))
	}
	got, _ := s.cloud.Machine(id)
	return got, nil
}
