package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// operates has the interface for operators ask whose a token is and what its owner may
// do, and the leader take a swap out that is over: what the scaler needs for that is
// granted.
func (r *installed) operates(scaler *process) {
	r.t.Helper()
	ctx := r.t.Context()
	var listening struct{ Address string }
	r.waits("the interface for operators is served", func(context.Context) error {
		text, err := os.ReadFile(scaler.out)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"msg":"listening"`) && strings.Contains(line, `"server":"admin"`) {
				return json.Unmarshal([]byte(line), &listening)
			}
		}
		return fmt.Errorf("not yet")
	})
	seconds := int64(3600)
	token, err := r.core.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, release, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listening.Address+"/weir/strategies", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token.Status.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusForbidden || !strings.Contains(string(text), "may not get /weir/strategies") {
		r.t.Errorf("the scaler's own account, which is no operator: %d %s %v", resp.StatusCode, text, err)
	}

	const swaps = release + "-strategies"
	if _, err := r.core.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: swaps},
		Data: map[string]string{"strategies.yaml": "strategies: {cost-optimal: {path: /x, sha256: x, instead: an older program, by: somebody}}"}}, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.waits("a swap that is over is taken out", func(ctx context.Context) error {
		cm, err := r.core.CoreV1().ConfigMaps(namespace).Get(ctx, swaps, metav1.GetOptions{})
		if err == nil && strings.Contains(cm.Data["strategies.yaml"], "cost-optimal") {
			err = fmt.Errorf("it is there: %v", cm.Data)
		}
		return err
	})
	status, err := r.core.CoreV1().ConfigMaps(namespace).Get(ctx, swaps+"-status", metav1.GetOptions{})
	if err != nil || !strings.Contains(status.Data["status.yaml"], "name: cost-optimal") {
		r.t.Errorf("what runs: %v, %v", status, err)
	}
}

// Who may use the interface for operators is named by groups; without them nobody may.
func TestOperators(t *testing.T) {
	t.Parallel()
	objects := must(t, chartDir, with(map[string]any{"admin": map[string]any{"viewers": []any{"team:viewers"}, "operators": []any{"team:operators"}}}))
	for name, want := range map[string]string{
		"weir-system:weir:strategy-viewer":   "get team:viewers,team:operators",
		"weir-system:weir:strategy-operator": "update team:operators",
	} {
		rule := at(t, find(t, objects, "ClusterRole", name), "rules").([]any)[0].(map[string]any)
		var groups []string
		for _, s := range at(t, find(t, objects, "ClusterRoleBinding", name), "subjects").([]any) {
			groups = append(groups, s.(map[string]any)["name"].(string))
		}
		got := fmt.Sprintf("%v %s", rule["verbs"].([]any)[0], strings.Join(groups, ","))
		urls := fmt.Sprint(rule["nonResourceURLs"])
		if got != want || urls != "[/weir/strategies /weir/strategies/*]" {
			t.Errorf("%s: %s on %s, want %s", name, got, urls, want)
		}
	}
	reach := find(t, objects, "Role", "weir-strategies-reach")
	want := []string{"coordination.k8s.io/leases[weir-leader-election] get", "pods/portforward create", "pods/portforward get"}
	if diff := cmp.Diff(want, rules(t, reach)); diff != "" {
		t.Errorf("to reach the leader (-expected +is):\n%s", diff)
	}
	own := []string{"configmaps create", "configmaps[weir-strategies,weir-strategies-status] get", "configmaps[weir-strategies,weir-strategies-status] update", "configmaps[weir-strategies,weir-strategies-status] watch"}
	if diff := cmp.Diff(own, rules(t, find(t, objects, "Role", "weir-strategies"))); diff != "" {
		t.Errorf("documents (-expected +is):\n%s", diff)
	}
	review := []string{"authentication.k8s.io/tokenreviews create", "authorization.k8s.io/subjectaccessreviews create"}
	if diff := cmp.Diff(review, rules(t, find(t, objects, "ClusterRole", "weir-system:weir:review"))); diff != "" {
		t.Errorf("reviews (-expected +is):\n%s", diff)
	}
	for what, values := range map[string]map[string]any{"nobody named": with(nil), "off": with(map[string]any{"admin": map[string]any{"enabled": false, "operators": []any{"x"}}})} {
		var there []string
		for _, u := range must(t, chartDir, values) {
			if n := u.GetName(); strings.Contains(n, "strategy-") || strings.HasSuffix(n, "-reach") || what == "off" && (strings.HasSuffix(n, ":review") || n == "weir-strategies") {
				there = append(there, u.GetKind()+" "+n)
			}
		}
		if slices.Sort(there); len(there) > 0 {
			t.Errorf("%s: %v are there", what, there)
		}
	}
}

func TestPullSecret(t *testing.T) {
	t.Parallel()
	pod := at(t, find(t, must(t, chartDir, with(map[string]any{"strategyPullSecret": "registry"})), "Deployment", "weir"), "spec", "template", "spec").(map[string]any)
	text := yamlOf(t, pod)
	for _, want := range []string{"secretName: registry", "path: config.json", "mountPath: /etc/weir-registry", "name: DOCKER_CONFIG"} {
		if !strings.Contains(text, want) {
			t.Errorf("the pod lacks %q:\n%s", want, text)
		}
	}
}
