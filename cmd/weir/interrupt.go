package main

import (
	"github.com/spf13/cobra"
)

func newInterrupt(c *common) *cobra.Command {
	return group("interrupt", "Ask about interruption events",
		"interrupt answers questions about the events by which AWS announces that it takes machines away.",
		newInterruptExplain(c))
}
