package load

import (
	"time"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/model"
)

// Input is what was read, in model form, ready to be planned with.
type Input struct {
	Pools       []*model.Pool // by name
	NodeClasses map[string]*model.NodeClass
	Nodes       []*model.Node      // joined with claims, with their pods; by name, then claims that have not joined
	Pods        []*model.Pod       // waiting ones, in the order of the input
	DaemonSets  []*model.DaemonSet // in the order of the input
	PDBs        []*model.PDB       // in the order of the input
	Aside       []*model.Pod       // neither waiting nor on a node: gated, nominated, of a DaemonSet or kubelet, ending, ended, or on a node that is not there
	Warnings    []string

	Conditions map[string][]model.Condition // of the NodePools, by name, as the controller last wrote them

	Classes map[string]*awsv1.EC2NodeClass // of NodeClasses, as they were written

	// For those who let time pass; planners look at the pods.
	Workloads []Workload
	Budgets   []*policyv1.PodDisruptionBudget // of PDBs, as they were written
}

// World is the input as planners take it; offerings and settings are the caller's to
// fill in.
func (in *Input) World(now time.Time) *model.World {
	return &model.World{
		Now: now, Pools: in.Pools, NodeClasses: in.NodeClasses, Nodes: in.Nodes, Pods: in.Pods,
		DaemonSets: in.DaemonSets, PDBs: in.PDBs,
	}
}
