package main

import (
	"strings"

	"github.com/spf13/cobra"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion(c *common) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Write a completion script for bash, zsh, fish or powershell",
		Long:  "completion writes a script that completes commands, flags and their values in your shell.",
		Example: `  source <(weir completion bash)
  weir completion zsh > "${fpath[1]}/_weir"`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return bad("weir completion: expected one of %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return complete(cmd.Root(), args[0], c) },
	}
}

func complete(root *cobra.Command, shell string, c *common) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(c.out, true)
	case "zsh":
		return root.GenZshCompletion(c.out)
	case "fish":
		return root.GenFishCompletion(c.out, true)
	case "powershell":
		return root.GenPowerShellCompletionWithDesc(c.out)
	}
	return bad("weir completion: unknown shell %q, expected one of %s%s", shell, strings.Join(shells, ", "), didYouMean(shell, shells, ""))
}
