package cluster

import "github.com/weir-project/weir/core/model"

// Change is one thing that happened to the cluster; it is one of the types below.
// Values handed over belong to the mirror and must not be written to afterwards.
type Change interface{ change() }

// UpsertPod and DeletePod: ID is namespace/name.
type (
	UpsertPod struct{ Pod *model.Pod }
	DeletePod struct{ ID string }
)

// UpsertNode carries what the Node object says; Claim, Pods and the price are the
// mirror's to fill in.
type (
	UpsertNode struct{ Node *model.Node }
	DeleteNode struct{ Name string }
)

// UpsertClaim carries a NodeClaim.
type (
	UpsertClaim struct{ Claim *model.Claim }
	DeleteClaim struct{ Name string }
)

// UpsertPool carries a NodePool.
type (
	UpsertPool struct{ Pool *model.Pool }
	DeletePool struct{ Name string }
)

// UpsertNodeClass carries an EC2NodeClass.
type (
	UpsertNodeClass struct{ NodeClass *model.NodeClass }
	DeleteNodeClass struct{ Name string }
)

// UpsertDaemonSet and DeleteDaemonSet: ID is namespace/name.
type (
	UpsertDaemonSet struct{ DaemonSet *model.DaemonSet }
	DeleteDaemonSet struct{ ID string }
)

// UpsertPDB and DeletePDB: ID is namespace/name.
type (
	UpsertPDB struct{ PDB *model.PDB }
	DeletePDB struct{ ID string }
)

// UpsertVolumeLimits carries how many volumes may be attached to a node, by CSI driver,
// as its CSINode says; Limits is not nil.
type (
	UpsertVolumeLimits struct {
		Node   string
		Limits map[string]int64
	}
	DeleteVolumeLimits struct{ Node string }
)

// UpsertAttachment carries a VolumeAttachment: the volume of that name is, or is about
// to be, attached to the node. Attachments without a PersistentVolume are not told.
type (
	UpsertAttachment struct{ Name, Node, Volume string }
	DeleteAttachment struct{ Name string }
)

// Offerings replaces what can be bought with a node class.
type Offerings struct {
	Class string
	List  []*model.Offering
}

// Synced says that every kind has been listed once: the mirror is complete.
type Synced struct{}

func (UpsertPod) change()       {}
func (DeletePod) change()       {}
func (UpsertNode) change()      {}
func (DeleteNode) change()      {}
func (UpsertClaim) change()     {}
func (DeleteClaim) change()     {}
func (UpsertPool) change()      {}
func (DeletePool) change()      {}
func (UpsertNodeClass) change() {}
func (DeleteNodeClass) change() {}
func (UpsertDaemonSet) change() {}
func (DeleteDaemonSet) change() {}
func (UpsertPDB) change()       {}
func (DeletePDB) change()       {}
func (Offerings) change()       {}
func (Synced) change()          {}

func (UpsertVolumeLimits) change() {}
func (DeleteVolumeLimits) change() {}
func (UpsertAttachment) change()   {}
func (DeleteAttachment) change()   {}
