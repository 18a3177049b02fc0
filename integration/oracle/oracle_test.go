package oracle

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/harness"
)

var (
	draws = flag.Int("draws", 0, "how many draws the long run asks; 0 leaves it out")
	seed  = flag.Uint64("seed", 1, "seed of the first draw of the long run; the others follow")
	dump  = flag.String("dump", "", "folder for the objects of draws with disagreements (default: the test's own)")
)

// quick is the seeds that every run of the tests asks: draws that once disagreed, and
// small ones that use what the others leave out.
var quick = []uint64{4, 23, 48, 138, 193, 1045, 1055, 1057}

// start opens a control plane without the controllers that would miss kubelets.
func start(t *testing.T) *Cluster {
	t.Helper()
	plane := harness.Cluster(t,
		harness.ExtraArg(harness.ControllerManager, "--controllers=serviceaccount-controller,root-ca-certificate-publisher-controller,namespace-controller,persistentvolume-binder-controller,ephemeral-volume-controller"),
		harness.ExtraArg(harness.ControllerManager, "--pvclaimbinder-sync-period=1s"),
		harness.ExtraArg(harness.APIServer, "--delete-collection-workers=8"),
		harness.ExtraArg(harness.APIServer, "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount,StorageObjectInUseProtection"))
	plane.InstallCRDs(t, crds.FS)
	config := *plane.Config
	config.WarningHandler = rest.NoWarnings{} // of labels that draws use in their old spelling on purpose
	client, err := kubernetes.NewForConfig(&config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(t.Context(), client, plane.Dynamic)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestQuick(t *testing.T) {
	if *draws > 0 {
		t.Skip("the long run is asked for")
	}
	c := start(t)
	ask(t, c, quick)
	everyEvictedPodHasAPlace(t, c)
}

func TestLong(t *testing.T) {
	if *draws == 0 {
		t.Skip("make oracle asks for it")
	}
	seeds := make([]uint64, *draws)
	for i := range seeds {
		seeds[i] = *seed + uint64(i)
	}
	ask(t, start(t), seeds)
}

// ask puts draws to the test and prints what came of each.
func ask(t *testing.T, c *Cluster, seeds []uint64) {
	t.Helper()
	var sum Answer
	free, bad := 0, 0
	fmt.Printf("%8s %6s %6s %6s %6s %6s %6s %6s %6s %6s %6s %6s %7s\n", "seed", "pods", "placed", "bound", "nodes", "other", "never", "limits", "crowd", "missed", "strand", "faults", "seconds")
	row := func(what any, a *Answer) {
		fmt.Printf("%8v %6d %6d %6d %6d %6d %6d %6d %6d %6d %6d %6d %7.1f\n", what, a.Pods, a.Placed, a.Bound, a.Nodes, a.Alternatives, a.Impossible, a.Limited, a.Crowded, a.Missed, a.Stranded, len(a.Faults), a.Took.Seconds())
	}
	for _, s := range seeds {
		d, err := Generate(s)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*limit)
		a, err := c.Ask(ctx, d)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		row(s, a)
		sum.Pods, sum.Placed, sum.Bound, sum.Nodes, sum.Alternatives = sum.Pods+a.Pods, sum.Placed+a.Placed, sum.Bound+a.Bound, sum.Nodes+a.Nodes, sum.Alternatives+a.Alternatives
		sum.Impossible, sum.Limited, sum.Crowded = sum.Impossible+a.Impossible, sum.Limited+a.Limited, sum.Crowded+a.Crowded
		sum.Stranded, sum.Missed, sum.Took = sum.Stranded+a.Stranded, sum.Missed+a.Missed, sum.Took+a.Took
		sum.Faults = append(sum.Faults, a.Faults...)
		if a.Freely {
			free++
		}
		if len(a.Faults) > 0 {
			bad++
			report(t, d, a)
		}
	}
	row("sum", &sum)
	fmt.Printf("%d draws, %d held freely, %d with disagreements\n", len(seeds), free, bad)
}

// report fails the test with the disagreements of a draw, and keeps what was read.
func report(t *testing.T, d *Draw, a *Answer) {
	t.Helper()
	dir := *dump
	if dir == "" {
		dir = t.ArtifactDir()
	}
	objects, table := filepath.Join(dir, fmt.Sprintf("seed-%d.json", a.Seed)), filepath.Join(dir, fmt.Sprintf("seed-%d-catalogue.json", a.Seed))
	where, err := json.MarshalIndent(a.Where, "", " ")
	if err != nil {
		t.Error(err)
	}
	for path, b := range map[string][]byte{objects: a.Input, table: d.Catalogue,
		filepath.Join(dir, fmt.Sprintf("seed-%d-after.json", a.Seed)): a.After, filepath.Join(dir, fmt.Sprintf("seed-%d-planned.json", a.Seed)): where} {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Error(err)
		}
	}
	for _, f := range a.Faults {
		t.Errorf("seed %d: %s", a.Seed, f)
	}
	t.Errorf("seed %d: weir simulate provision -f %s --catalogue %s --zones %s", a.Seed, objects, table, join(d.Zones))
}

func join(list []string) string {
	out := ""
	for i, s := range list {
		if i > 0 {
			out += ","
		}
		out += s
	}
	return out
}
