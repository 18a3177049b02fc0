package core_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weir-project/weir/"

// pure rooms take everything as a value: no I/O, no clients, no cloud.
var pure = []string{
	"core/model", "core/model/resource", "core/model/require", "core/model/attach", "core/catalogue", "core/cluster", "core/engine", "core/provision",
	"core/disrupt", "core/interrupt", "core/interrupt/replace", "core/event", "core/report", "core/claim", "core/drain", "core/repair", "core/kube/convert", "core/config",
}

// order says who may import whom: a room on a line may import rooms of the lines
// before it. Rooms of one line do not import each other.
var order = [][]string{
	{"core/model/resource", "core/model/require"},
	{"core/model"},
	{"core/model/attach"},
	{"core/catalogue", "core/event", "core/claim", "core/drain", "core/repair"},
	{"core/engine", "core/interrupt"}, // the Lambda links the verdicts, not the engine
	{"core/cluster"},
	{"core/provision"},
	{"core/disrupt", "core/interrupt/replace"},
	{"core/report"},
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func list(t *testing.T, patterns ...string) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Deps"}, patterns...)...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	pkgs := map[string]pkg{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs[strings.TrimPrefix(p.ImportPath, module)] = p
	}
	return pkgs
}

func TestPureRoomsDoNoIO(t *testing.T) {
	t.Parallel()
	pkgs := list(t, "./core/...")
	for _, room := range pure {
		p, ok := pkgs[room]
		if !ok {
			t.Errorf("%s does not exist", room)
			continue
		}
		for _, i := range p.Imports {
			switch i {
			case "os", "net", "net/http", "context", "os/exec", "sync/atomic":
				t.Errorf("%s imports %s: pure rooms do no I/O and hold no context", room, i)
			}
		}
		for _, d := range p.Deps {
			for _, bad := range []string{"k8s.io/client-go", "github.com/aws/", "google.golang.org/grpc", "go.etcd.io/bbolt"} {
				if strings.HasPrefix(d, bad) {
					t.Errorf("%s links %s", room, d)
				}
			}
		}
	}
}

func TestImportOrder(t *testing.T) {
	t.Parallel()
	pkgs := list(t, "./core/...")
	level := map[string]int{}
	for i, line := range order {
		for _, room := range line {
			level[room] = i
		}
	}
	for room, l := range level {
		for _, i := range pkgs[room].Imports {
			dep, ours := strings.CutPrefix(i, module)
			if !ours {
				continue
			}
			if d, known := level[dep]; !known || d >= l {
				t.Errorf("%s imports %s, which does not come before it", room, dep)
			}
		}
	}
}

// TestOnlyTheEdgeTalksToTheCluster keeps client-go in one room of the core.
func TestOnlyTheEdgeTalksToTheCluster(t *testing.T) {
	t.Parallel()
	for room, p := range list(t, "./core/...") {
		if room == "core/kube" || strings.HasPrefix(room, "core/kube/") {
			continue
		}
		for _, i := range p.Imports {
			if strings.HasPrefix(i, "k8s.io/client-go") && i != "k8s.io/client-go/util/workqueue" { // which talks to nobody
				t.Errorf("%s imports %s: core/kube is the only room with client-go", room, i)
			}
		}
	}
}

// neverLinked says, per binary or module part, what it must not carry, and why.
var neverLinked = []struct{ from, prefix, why string }{
	{"cmd/weir", "github.com/aws/aws-sdk-go-v2/aws", "the operator's command works on files and the API server alone: of the SDK it has types to show, no client"},
	{"cmd/weir", "github.com/aws/aws-sdk-go-v2/config", "the operator's command works on files and the API server alone"},
	{"cmd/weir", "github.com/aws/smithy-go/transport", "the operator's command works on files and the API server alone"},
	{"cmd/weir", "k8s.io/client-go/kubernetes", "the operator's command lists objects, reads one lease and forwards one port, for which core/kube/raw has no need of a clientset"},
	{"cmd/weir", "github.com/google/go-containerregistry", "programs are fetched by the scaler; the operator's command names them"},
	{"cmd/weir", "sigs.k8s.io/karpenter", "Karpenter may be linked only in integration/peer"},
	{"cmd/weir-scaler", "sigs.k8s.io/controller-runtime", "client-go is used directly"},
	{"cmd/weir-scaler", "sigs.k8s.io/karpenter", "Karpenter may be linked only in integration/peer"},
	{"cmd/weir-strategy", "k8s.io/client-go", "strategies get everything by value"},
	{"lambda/interruption", "sigs.k8s.io/controller-runtime", "client-go is used directly"},
	{"lambda/interruption", "github.com/weir-project/weir/core/engine", "the function drains; it plans nothing"},
}

func TestBinariesStayLean(t *testing.T) {
	t.Parallel()
	pkgs := list(t, "./cmd/...", "./lambda/...")
	for _, n := range neverLinked {
		p, ok := pkgs[n.from]
		if !ok {
			t.Errorf("%s does not exist", n.from)
			continue
		}
		if i := slices.IndexFunc(p.Deps, func(d string) bool { return strings.HasPrefix(d, n.prefix) }); i >= 0 {
			t.Errorf("%s links %s: %s", n.from, p.Deps[i], n.why)
		}
	}
}
