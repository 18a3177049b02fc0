package main

import (
	"github.com/spf13/cobra"
)

func newSimulate(c *common) *cobra.Command {
	return group("simulate", "Plan without a cluster",
		`simulate runs the planners of the controller on manifests: the same code, the same
strategies, nothing is bought and nothing is removed.`,
		newSimulateProvision(c), newSimulateConsolidate(c), newSimulateRun(c))
}
