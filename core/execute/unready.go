package execute

import (
	"github.com/weir-project/weir/core/cloud"
)

// A class that nothing can be launched from keeps no claim waiting: as in v1 the claim goes at once, and its pods
// are planned anew, for other pools perhaps.

// classUnready gives up the claims of a launch that have no instance. Of a class that is not ready its own conditions and
// the pool's tell; one that is being deleted counts as a shortage.
func (x *Executor) classUnready(l *launch, err error) {
	l.err = cut(err.Error())
	if codeOf(err) == cloud.CodeTerminating {
		x.giveUp(l, l.err)
		return
	}
	for _, c := range x.wanting(l) {
		x.deleteClaim(c.claim.Name, c.uid, reasonClassNotReady)
		x.m.Doom(c.claim.Name)
		x.Counters.GivenUp++
		c.dropped = "its class is not ready"
	}
	l.state = settling
}

const reasonClassNotReady = "nodeclass_not_ready"
