package main

import (
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/kube/live"
)

func newExplainRBAC(c *common) *cobra.Command {
	name := "weir-reader"
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print a ClusterRole for those who ask about a cluster",
		Long: `rbac prints a ClusterRole with the rights that explain, simulate provision and simulate
consolidate need to read a cluster: to list each kind that they look at, and nothing else.
Secrets and ConfigMaps are not among them. Pods are read with their specs.`,
		Example: `  weir explain rbac | kubectl apply -f -
  kubectl create clusterrolebinding weir-reader --clusterrole weir-reader --group team:sre`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if problems := content.IsPathSegmentName(name); name == "" || len(problems) > 0 {
				return bad("--name: expected a name of a ClusterRole, got %q%s", name, strings.Join(append([]string{""}, problems...), ": "))
			}
			text, err := yaml.Marshal(live.Role(name))
			if err != nil {
				return err
			}
			_, err = c.out.Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", name, "name of the ClusterRole")
	return cmd
}
