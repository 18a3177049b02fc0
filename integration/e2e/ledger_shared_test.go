package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/dynamo"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/aws/moto"
	"github.com/weir-project/weir/integration/harness"
)

// withEnv runs a program with more in its environment.
func withEnv(t testing.TB, env []string, path string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), filepath.Base(path))
	text := "#!/bin/sh\nexec env '" + strings.Join(env, "' '") + "' " + path + " \"$@\"\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return script
}

// TestScalerAndLambdaShareATable: the real programs, one DynamoDB table, and machines that go two minutes after their warning.
// The function hears of an interruption, and the scaler only from the table. Then both hear, while the table is away and more
// pods come; then only the scaler; then the scaler is dead. Each time the pods run elsewhere before the machine goes, their
// budget is never broken, and nothing is lost or bought twice.
func TestScalerAndLambdaShareATable(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	aws := moto.Own(t)
	table := aws.Table(t)
	store := aws.Ledger(t, table)
	// A cluster of its own, for the scaler looks after all of it.
	c := harness.Cluster(t, harness.NodeMonitorGrace(nodeGrace))
	c.InstallCRDs(t, crds.FS)
	bin := programs(t)
	url, ec2 := startEC2(t, bin, c, event.SpotNotice)
	away, back := make(chan struct{}, 1000), make(chan struct{}, 1000) // what the scaler says about the table
	kill := begin(t, func(line string) {
		for text, said := range map[string]chan struct{}{"the ledger is away": away, "the ledger is back": back} {
			if strings.Contains(line, text) {
				select {
				case said <- struct{}{}:
				default:
				}
			}
		}
	}, withEnv(t, aws.Environ(), filepath.Join(bin, "weir-scaler")), "--kubeconfig", c.Kubeconfig, "--cluster-name", "e2e", "--region", "us-east-1",
		"--account", "111122223333", "--zones", "us-east-1a,us-east-1b,us-east-1c", "--cloud", "sim", "--cloud-address", url, "--ledger", "dynamodb",
		"--ledger-table", table, "--strategy-binary", filepath.Join(bin, "weir-strategy"), "--metrics-port", "0", "--health-probe-port", "0")
	for _, file := range []string{"seed/ec2-node-class-default.yaml", "demo-spot.yaml", "web.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "demo", file))
		if err != nil {
			t.Fatal(err)
		}
		c.Apply(t, metav1.NamespaceDefault, string(text))
	}
	b := buildLambda(t)
	b.bootstrap = withEnv(t, append(aws.Environ(), "WEIR_LEDGER=dynamodb", "WEIR_LEDGER_TABLE="+table), b.bootstrap)
	fn := startFunction(t, b, c, "300")
	f := &fleet{ControlPlane: c, t: t, ns: metav1.NamespaceDefault}
	f.allOn(20, "")
	f.recorded(store)
	rec := f.reclaims(ec2, fn, 16)
	node, instance, claim := rec.fullest()

	now := time.Now()
	owner, _, ok, err := ledger.Load[ledger.InstanceOwner](t.Context(), store, ledger.InstanceKey("111122223333", "us-east-1", instance), now)
	if err != nil || !ok || owner.Cluster != "e2e" || owner.Claim != claim {
		t.Errorf("the table says of %s: %+v, %v, %v; want claim %s", instance, owner, ok, err, claim)
	}
	schema, _, ok, err := ledger.Load[dynamo.Schema](t.Context(), store, dynamo.SchemaKey(), now)
	if err != nil || !ok || schema.Major != dynamo.Major {
		t.Errorf("schema %+v, %v, %v", schema, ok, err)
	}

	rec.take("the scaler hears of it by the table alone", node, 20, reclaim{lambda: true, secret: true, replaced: true})
	harness.Eventually(t, "the notice is done, the claim is gone", patience, func(ctx context.Context) error {
		notices, err := ledger.Notices(ctx, store, "e2e", time.Now())
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(notices, func(n ledger.Notice) bool { return n.Instance == instance && n.Kind == string(model.NoticeSpot) }); i < 0 || notices[i].State != ledger.NoticeDone {
			return fmt.Errorf("notices %+v", notices)
		}
		_, err = c.Dynamic.Resource(v1.NodeClaims).Get(ctx, claim, metav1.GetOptions{})
		switch {
		case err == nil:
			return fmt.Errorf("claim %s is still there", claim)
		case !apierrors.IsNotFound(err):
			return err
		}
		return nil
	})
	harness.Eventually(t, "the offering is remembered", patience, func(ctx context.Context) error {
		health, err := ledger.Offerings(ctx, store, "111122223333", "us-east-1", time.Now())
		if h, ok := health[owner.Offering]; err == nil && (!ok || h.Interruptions == 0) {
			err = fmt.Errorf("offering %s: %+v", owner.Offering, health)
		}
		return err
	})

	outage := aws.Order(-1, moto.CutBefore, func(moto.Call) bool { return true })
	node, _, _ = rec.fullest()
	rec.take("both hear of it, and the table is away", node, 20, reclaim{lambda: true, scaler: true, replaced: true, unrecorded: true})
	f.scale(32)
	f.allOn(32, "")
	await(t, "the scaler says that the table is away", away)
	outage.End()
	await(t, "the scaler says that it is back", back)
	f.recorded(store)

	node, _, _ = rec.fullest()
	rec.take("the function is dead", node, 32, reclaim{scaler: true, replaced: true})
	oneMachinePerClaim(t, c, ec2)

	f.scale(20) // which leaves room: nobody buys machines now
	f.allOn(20, "")
	kill()
	node, _, _ = rec.fullest()
	rec.take("the scaler is dead", node, 20, reclaim{lambda: true, scaler: true})
}

func await(t *testing.T, what string, said <-chan struct{}) {
	t.Helper()
	select {
	case <-said:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
}

// allOn waits until so many replicas are ready on machines that were bought, none of them on the node, and their budget
// knows; it names one of their nodes.
func (f *fleet) allOn(replicas int, not string) (node string) {
	f.t.Helper()
	harness.Eventually(f.t, fmt.Sprintf("%d pods on machines that were bought", replicas), patience, func(ctx context.Context) error {
		on, err := f.ready(ctx, "web")
		if err != nil {
			return err
		}
		if len(on) != replicas || slices.Contains(on, not) {
			return fmt.Errorf("%d of %d are ready, on %v", len(on), replicas, on)
		}
		pdb, err := f.Client.PolicyV1().PodDisruptionBudgets(f.ns).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && int(pdb.Status.CurrentHealthy) != replicas {
			err = fmt.Errorf("the budget counts %d", pdb.Status.CurrentHealthy)
		}
		node = on[0]
		return err
	})
	return node
}

func (f *fleet) scale(replicas int) {
	f.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	if _, err := f.Client.AppsV1().Deployments(f.ns).Patch(f.t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// recorded waits until the table knows each claim with its instance, and no launch is open.
func (f *fleet) recorded(store ledger.Store) {
	f.t.Helper()
	harness.Eventually(f.t, "the table knows every claim", patience, func(ctx context.Context) error {
		claims, err := f.Dynamic.Resource(v1.NodeClaims).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		now := time.Now()
		for _, c := range claims.Items {
			st, _, ok, err := ledger.Load[ledger.ClaimState](ctx, store, ledger.ClaimKey("e2e", string(c.GetUID())), now)
			if err != nil {
				return err
			}
			status, _ := c.Object["status"].(map[string]any)
			provider, _ := status["providerID"].(string)
			if !ok || st.InstanceID == "" || !strings.HasSuffix(provider, st.InstanceID) {
				return fmt.Errorf("claim %s has %s, the table says %+v", c.GetName(), provider, st)
			}
			about, err := store.ByInstance(ctx, st.InstanceID, now)
			if err != nil {
				return err
			}
			if len(about) < 2 {
				return fmt.Errorf("%d records about %s", len(about), st.InstanceID)
			}
		}
		launches, err := ledger.List[ledger.Launch](ctx, store, ledger.LaunchKey("e2e", "").Partition, "", now)
		for _, l := range launches {
			if l.State == ledger.LaunchOpen {
				b, e := json.Marshal(l)
				err = errors.Join(err, e, fmt.Errorf("open: %s", b))
			}
		}
		return err
	})
}

// TestScalerLooksAtItsTable: a table that cannot be used ends the scaler with what is wrong, one that is away does not.
// It gets as far as the API server, of which there is none.
func TestScalerLooksAtItsTable(t *testing.T) {
	t.Parallel()
	aws := moto.Own(t)
	scaler := filepath.Join(programs(t), "weir-scaler")
	run := func(table string) (code int, said string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), scaler, "--kubeconfig", filepath.Join(t.TempDir(), "none"), "--cluster-name", "e2e", "--region", "us-east-1",
			"--account", "111122223333", "--cloud", "sim", "--cloud-address", "http://127.0.0.1:1", "--ledger", "dynamodb", "--ledger-table", table)
		cmd.Env = append(os.Environ(), aws.Environ()...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	newer := aws.Table(t)
	if _, err := ledger.Save(t.Context(), aws.Ledger(t, newer), dynamo.SchemaKey(), dynamo.Schema{Major: dynamo.Major + 1, Writer: "v9"}, ledger.Meta{}, 0, time.Now()); err != nil {
		t.Fatal(err)
	}
	odd := moto.TableInput("weir-odd")
	odd.GlobalSecondaryIndexes, odd.AttributeDefinitions = nil, odd.AttributeDefinitions[:2]
	aws.MakeTable(t, odd, "")
	for table, want := range map[string][]string{
		"weir-none":    {"there is no table weir-none in us-east-1"},
		*odd.TableName: {"no global secondary index named instance", "its time to live is off"},
		newer:          {"written by v9", "upgrade the scaler"},
	} {
		code, said := run(table)
		for _, w := range want {
			if code != 2 || !strings.Contains(said, w) {
				t.Errorf("%s: exit code %d, it said %s; want 2 and %q", table, code, said, w)
			}
		}
	}
	defer aws.Order(-1, moto.Unavailable, func(moto.Call) bool { return true }).End()
	if _, said := run(newer); !strings.Contains(said, "going on without it") || !strings.Contains(said, "kubeconfig") {
		t.Errorf("with a table that is away it said %s", said)
	}
}
