package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/kube"
	helm "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/lambda/deploy/cluster"
)

// history is how many revisions Helm keeps.
const history = 10

func init() {
	// Else it is the name of the program, which is bootstrap for each function.
	kube.ManagedFieldsManager = "weir-deploy"
}

// Helm works on the releases of one name in one namespace. It serves one run.
type Helm struct {
	cfg       *action.Configuration
	name      string
	namespace string
	log       *slog.Logger
}

// New makes one; nothing is sent yet.
func New(c *cluster.Cluster, namespace, name string, log *slog.Logger) (*Helm, error) {
	h := &Helm{cfg: new(action.Configuration), name: name, namespace: namespace, log: log}
	said := func(format string, v ...any) { log.Info("helm: " + fmt.Sprintf(format, v...)) }
	if err := h.cfg.Init(getter{c, namespace}, namespace, "secret", said); err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	return h, nil
}

// Options of an installation.
type Options struct {
	Values      map[string]any
	Description string
	Wait        bool          // until what was made is ready
	Timeout     time.Duration // of the wait
}

// Check renders the chart without a cluster, so that values which it refuses are refused
// before anything is touched.
func Check(c *chart.Chart, values map[string]any, namespace, name string) error {
	options := chartutil.ReleaseOptions{Name: name, Namespace: namespace, IsInstall: true, Revision: 1}
	full, err := chartutil.ToRenderValues(c, values, options, chartutil.DefaultCapabilities.Copy())
	if err != nil {
		return err
	}
	_, err = engine.Render(c, full)
	return err
}

// Deployed says whether a revision of the release is deployed.
func (h *Helm) Deployed() (bool, error) {
	all, err := h.revisions()
	return last(all, helm.StatusDeployed) != nil, err
}

// Chart is the newest chart of that version in the history, nil where there is none.
func (h *Helm) Chart(version string) (*chart.Chart, error) {
	all, err := h.revisions()
	if err != nil {
		return nil, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if c := all[i].Chart; c != nil && c.Metadata != nil && c.Metadata.Version == version {
			return c, nil
		}
	}
	return nil, nil
}

// revisions are all that Helm knows, oldest first.
func (h *Helm) revisions() ([]*helm.Release, error) {
	all, err := h.cfg.Releases.History(h.name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("history of release %s: %w", h.name, err)
	}
	releaseutil.SortByRevision(all)
	return all, nil
}

func last(all []*helm.Release, statuses ...helm.Status) *helm.Release {
	for i := len(all) - 1; i >= 0; i-- {
		for _, s := range statuses {
			if all[i].Info.Status == s {
				return all[i]
			}
		}
	}
	return nil
}

// Repair makes of what an ended run has left a release that can be upgraded, or none.
func (h *Helm) Repair(timeout time.Duration) error {
	all, err := h.revisions()
	if err != nil || len(all) == 0 {
		return err
	}
	newest := all[len(all)-1]
	state := newest.Info.Status
	if state == helm.StatusDeployed {
		return nil
	}
	deployed := last(all, helm.StatusDeployed)
	if deployed == nil || state == helm.StatusUninstalling || state == helm.StatusUninstalled {
		h.log.Warn("repair: removing what an ended run has left", "release", h.name, "revision", newest.Version, "status", string(state))
		if err := h.uninstall(all, timeout); err != nil {
			return fmt.Errorf("release %s is %s and cannot be removed: %w", h.name, state, err)
		}
		return nil
	}
	h.log.Warn("repair: going back to what was deployed last", "release", h.name, "revision", newest.Version, "status", string(state), "to", deployed.Version)
	if state.IsPending() {
		newest.SetStatus(helm.StatusFailed, "the run that made it has ended")
		if err := h.cfg.Releases.Update(newest); err != nil {
			return fmt.Errorf("release %s: revision %d: %w", h.name, newest.Version, err)
		}
	}
	r := action.NewRollback(h.cfg)
	r.Version, r.Timeout, r.MaxHistory = deployed.Version, timeout, history
	if err := r.Run(h.name); err != nil {
		// What follows is an upgrade, which may be what mends it.
		h.log.Warn("repair: going back failed", "release", h.name, "to", deployed.Version, "error", err.Error())
	}
	return nil
}

// Apply installs the chart, or upgrades to it. An upgrade that fails stays failed: the
// next one, or Repair, goes on from what was deployed last.
func (h *Helm) Apply(ctx context.Context, c *chart.Chart, o Options) (*helm.Release, error) {
	all, err := h.revisions()
	if err != nil {
		return nil, err
	}
	// Helm goes on behind the back of a caller whose context ends. The time of each wait is
	// limited instead, and the cluster's fence ends the rest.
	ctx = context.WithoutCancel(ctx)
	if len(all) == 0 {
		i := action.NewInstall(h.cfg)
		i.ReleaseName, i.Namespace, i.Description, i.Wait, i.Timeout, i.SkipCRDs, i.PostRenderer = h.name, h.namespace, o.Description, o.Wait, o.Timeout, true, guard{}
		r, err := i.RunWithContext(ctx, c, o.Values)
		if err != nil {
			return nil, fmt.Errorf("installing chart %s %s: %w", c.Name(), c.Metadata.Version, err)
		}
		return r, nil
	}
	u := action.NewUpgrade(h.cfg)
	u.Namespace, u.Description, u.Wait, u.Timeout, u.SkipCRDs, u.PostRenderer = h.namespace, o.Description, o.Wait, o.Timeout, true, guard{}
	u.ResetValues, u.CleanupOnFail, u.MaxHistory = true, true, history
	r, err := u.RunWithContext(ctx, h.name, c, o.Values)
	if err != nil {
		return nil, fmt.Errorf("upgrading to chart %s %s: %w", c.Name(), c.Metadata.Version, err)
	}
	return r, nil
}

// Remove uninstalls the release; there being none is no error.
func (h *Helm) Remove(timeout time.Duration) error {
	all, err := h.revisions()
	if err != nil || len(all) == 0 {
		return err
	}
	if err := h.uninstall(all, timeout); err != nil {
		return fmt.Errorf("removing release %s: %w", h.name, err)
	}
	return nil
}

// uninstall deletes what any of the revisions since the last deployed one may have made:
// Helm alone would go by the newest, whose run may have ended before it made anything.
func (h *Helm) uninstall(all []*helm.Release, timeout time.Duration) error {
	newest := all[len(all)-1]
	var manifest strings.Builder
	manifest.WriteString(newest.Manifest)
	for i := len(all) - 2; i >= 0 && unfinished(all[i+1]); i-- {
		manifest.WriteString("\n---\n" + all[i].Manifest)
	}
	if manifest.Len() > len(newest.Manifest) {
		newest.Manifest = manifest.String()
		if err := h.cfg.Releases.Update(newest); err != nil {
			return err
		}
	}
	u := action.NewUninstall(h.cfg)
	u.IgnoreNotFound, u.Wait, u.Timeout, u.DeletionPropagation = true, true, timeout, "background"
	_, err := u.Run(h.name)
	return err
}

// unfinished says whether objects of the revision before it may still be there.
func unfinished(r *helm.Release) bool {
	return r.Info.Status == helm.StatusFailed || r.Info.Status.IsPending()
}

// guard refuses manifests with objects that must not go with a release.
type guard struct{}

// Run implements postrender.PostRenderer.
func (guard) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	for _, doc := range releaseutil.SplitManifests(rendered.String()) {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			return nil, fmt.Errorf("what the chart renders: %w", err)
		}
		if u.GetAnnotations()[kube.ResourcePolicyAnno] == kube.KeepPolicy {
			continue
		}
		switch u.GroupVersionKind().Group + "/" + u.GetKind() {
		case "apiextensions.k8s.io/CustomResourceDefinition", "karpenter.sh/NodePool", "karpenter.sh/NodeClaim", "karpenter.k8s.aws/EC2NodeClass", "/Namespace", "/Node":
			return nil, fmt.Errorf("the chart has %s %s, which would be deleted with the release: it must be annotated %s: %s", u.GetKind(), u.GetName(), kube.ResourcePolicyAnno, kube.KeepPolicy)
		}
	}
	return rendered, nil
}
