package main

import (
	"github.com/spf13/cobra"
)

func newExplain(c *common) *cobra.Command {
	return group("explain", "Ask why something is as it is",
		"explain answers why, with the code by which the controller decides.",
		newExplainNode(c))
}
