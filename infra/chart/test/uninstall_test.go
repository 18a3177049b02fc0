package test

import (
	"strings"
	"testing"
)

// TestUninstallTakesNothingThatMachinesHangOn: what Helm deletes with a release, or with a
// rollback, is what it has rendered and is not told to keep. With a definition would go
// every NodePool and NodeClaim, and with a NodeClaim its machine.
func TestUninstallTakesNothingThatMachinesHangOn(t *testing.T) {
	t.Parallel()
	everything := with(map[string]any{
		"interruption":   map[string]any{"enabled": true, "group": "team:functions"},
		"karpenterLease": map[string]any{"name": "theirs", "namespace": "karpenter"},
	})
	deleted := 0
	for dir, values := range map[string]map[string]any{chartDir: everything, crdsDir: nil} {
		for _, u := range must(t, dir, values) {
			if hook := u.GetAnnotations()["helm.sh/hook"]; hook != "" {
				t.Errorf("%s %s is a hook (%s): what hooks make or delete is not looked at here", u.GetKind(), u.GetName(), hook)
			}
			if u.GetAnnotations()[keep] == "keep" {
				continue
			}
			deleted++
			group, _, _ := strings.Cut(u.GetAPIVersion(), "/")
			if group == "apiextensions.k8s.io" || strings.HasPrefix(group, "karpenter.") || u.GetKind() == "Namespace" || u.GetKind() == "Node" {
				t.Errorf("an uninstall deletes %s %s", u.GetKind(), u.GetName())
			}
		}
	}
	if deleted == 0 {
		t.Error("an uninstall deletes nothing at all")
	}
}
