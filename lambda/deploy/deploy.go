package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/weir-project/weir/core/cloud/aws/ekstoken"
	"github.com/weir-project/weir/lambda/deploy/cluster"
	"github.com/weir-project/weir/lambda/deploy/custom"
	"github.com/weir-project/weir/lambda/deploy/image"
	"github.com/weir-project/weir/lambda/deploy/release"
)

// releaseName is that of the chart's release; the service account of the scaler and what
// is outside of the namespace are called after it.
const releaseName = "weir"

// deployer implements custom.Deployer.
type deployer struct {
	region string // where the function is
	layout string // folder of the carried image
	chart  *chart.Chart
	crds   *chart.Chart
	log    *slog.Logger
}

// newDeployer loads what lies beside the binary in dir.
func newDeployer(dir, region string, log *slog.Logger) (*deployer, error) {
	d := &deployer{region: region, layout: filepath.Join(dir, "image"), log: log}
	var err error
	if d.crds, err = loader.Load(filepath.Join(dir, "charts", "weir-crds")); err != nil {
		return nil, fmt.Errorf("chart of the definitions: %w", err)
	}
	if d.chart, err = loader.Load(filepath.Join(dir, "charts", "weir")); err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	return d, nil
}

// cleanup is what is kept of a run's time for removing what failed, at most a quarter of it.
const cleanup = 2 * time.Minute

// The first deployment comes right after the access entry, which takes seconds to be known.
const (
	admissionPoll     = 2 * time.Second
	admissionPatience = 3 * time.Minute
)

// Install implements custom.Deployer.
func (d *deployer) Install(ctx context.Context, p custom.Properties) (custom.Outcome, error) {
	o := custom.Outcome{Release: releaseName, Namespace: p.Namespace}
	c, helm, err := d.connect(ctx, p)
	if err != nil {
		return o, err
	}
	if err := c.AwaitAdmission(ctx, admissionPoll, min(admissionPatience, left(ctx)/2)); err != nil {
		return o, err
	}
	chart, carried, err := d.choose(helm, p.ChartVersion)
	if err != nil {
		return o, err
	}
	// Values are looked at before anything is sent, with an image that is as good as any.
	if err := release.Check(chart, values(p, image.Reference{Repository: "image", Tag: "checked"}), p.Namespace, releaseName); err != nil {
		return o, fmt.Errorf("property values: %w", err)
	}
	ref, err := d.image(ctx, p)
	if err != nil {
		return o, err
	}
	o.Image = ref.String()
	ready, cancel := context.WithTimeout(ctx, left(ctx))
	err = c.EnsureNamespace(ready, p.Namespace)
	cancel()
	if err != nil {
		return o, err
	}
	if carried { // a rollback to an older chart leaves the definitions as they are
		if o.DefinitionsLeftAlone, err = c.ApplyDefinitions(ctx, d.crds, p.Namespace); err != nil {
			return o, errors.Join(err, d.tidy(ctx, c, helm, p))
		}
	}
	if err := helm.Repair(left(ctx)); err != nil {
		return o, err
	}
	r, err := helm.Apply(ctx, chart, release.Options{Values: values(p, ref), Description: description(p), Wait: p.Wait, Timeout: left(ctx)})
	if err != nil {
		if p.Wait {
			if why := c.Unready(ctx, p.Namespace, releaseName); why != "" {
				err = fmt.Errorf("%w; %s", err, why)
			}
		}
		return o, errors.Join(err, d.tidy(ctx, c, helm, p))
	}
	o.Revision, o.ChartVersion = r.Version, r.Chart.Metadata.Version
	return o, nil
}

// Remove implements custom.Deployer.
func (d *deployer) Remove(ctx context.Context, p custom.Properties) (note string, err error) {
	if why := d.gone(ctx, p); why != "" {
		return why, nil
	}
	c, helm, err := d.connect(ctx, p)
	if err != nil {
		return "", err
	}
	if err := helm.Remove(left(ctx)); err != nil {
		return "", err
	}
	return "", d.removeNamespace(ctx, c, p.Namespace)
}

// tidy removes what a first installation that failed has left, definitions apart. What was
// deployed before stays.
func (d *deployer) tidy(ctx context.Context, c *cluster.Cluster, helm *release.Helm, p custom.Properties) error {
	installed, err := helm.Deployed()
	if err != nil || installed {
		return err
	}
	if err := helm.Remove(left(ctx)); err != nil {
		return err
	}
	return d.removeNamespace(ctx, c, p.Namespace)
}

func (d *deployer) removeNamespace(ctx context.Context, c *cluster.Cluster, name string) error {
	stays, err := c.RemoveNamespace(ctx, name)
	if stays != "" {
		d.log.Info("the namespace stays", "namespace", name, "reason", stays)
	}
	return err
}

func (d *deployer) connect(ctx context.Context, p custom.Properties) (*cluster.Cluster, *release.Helm, error) {
	token := &ekstoken.Source{Cluster: p.ClusterName, Region: d.regionOf(p), Credentials: ekstoken.Environment{Lookup: os.LookupEnv}}
	c, err := cluster.Connect(ctx, cluster.Target{Endpoint: p.Endpoint, CertificateAuthority: p.CertificateAuthority, Token: token.Token})
	if err != nil {
		return nil, nil, err
	}
	helm, err := release.New(c, p.Namespace, releaseName, d.log)
	return c, helm, err
}

func (d *deployer) regionOf(p custom.Properties) string {
	if p.Region != "" {
		return p.Region
	}
	return d.region
}

// choose gives the chart of that version, and whether it is the carried one.
func (d *deployer) choose(helm *release.Helm, version string) (c *chart.Chart, carried bool, err error) {
	if version == "" || version == d.chart.Metadata.Version {
		return d.chart, true, nil
	}
	c, err = helm.Chart(version)
	if err == nil && c == nil {
		err = fmt.Errorf("property chartVersion is %q: the function carries chart %s, and the history of the release has no other of that version", version, d.chart.Metadata.Version)
	}
	return c, false, err
}

// image is the one to install, pushed if it has to be.
func (d *deployer) image(ctx context.Context, p custom.Properties) (image.Reference, error) {
	if p.Image != "" {
		ref, err := image.Parse(p.Image)
		if err != nil {
			return ref, fmt.Errorf("property image: %w", err)
		}
		return ref, nil
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(d.regionOf(p)))
	if err != nil {
		return image.Reference{}, fmt.Errorf("credentials of the function: %w", err)
	}
	credentials, err := image.Credentials(ctx, ecr.NewFromConfig(cfg))
	if err != nil {
		return image.Reference{}, err
	}
	ref, err := image.Push(ctx, d.layout, p.ImageRepository, credentials)
	if err != nil {
		return ref, fmt.Errorf("property imageRepository: %w", err)
	}
	return ref, nil
}

// values are those of the resource with what has properties of its own.
func values(p custom.Properties, ref image.Reference) map[string]any {
	out := maps.Clone(p.Values)
	out["clusterName"] = p.ClusterName
	out["image"] = map[string]any{"repository": ref.Repository, "digest": ref.Digest, "tag": ref.Tag}
	return out
}

func description(p custom.Properties) string {
	text := "by CloudFormation"
	if p.Revision != "" {
		text += ", " + p.Revision
	}
	return strings.ToValidUTF8(text, "")
}

// left is how long one step may take: until the run's end, less what a cleanup may need.
func left(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return cleanup
	}
	all := time.Until(deadline)
	return max(0, all-min(cleanup, all/4))
}
