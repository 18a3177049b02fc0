package strategy

import (
	"github.com/weir-project/weir/core/strategy/sandbox"
)

// noFence is a kernel that has no fences, on which a strategy can start processes.
func noFence() *sandbox.Kernel { return &sandbox.Kernel{} }
