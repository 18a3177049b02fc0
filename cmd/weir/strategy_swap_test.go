package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/admin"
)

// swapScaler is a scaler that takes every swap and lists what it is given, and flags that
// reach it.
func swapScaler(t *testing.T, answer admin.SwapAnswer, list []admin.Strategy) (asked *admin.SwapRequest, flags []string) {
	t.Helper()
	asked = &admin.SwapRequest{}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		if r.Method == http.MethodPost {
			if err = json.NewDecoder(r.Body).Decode(asked); err == nil {
				err = json.NewEncoder(w).Encode(answer)
			}
		} else {
			err = json.NewEncoder(w).Encode(admin.List{Kind: "StrategyList", Strategies: list})
		}
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	plain := httptest.NewServer(srv.Config.Handler)
	t.Cleanup(plain.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "` + srv.URL + `"}}], users: [{name: u, user: {token: user-token}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return asked, []string{"--kubeconfig", kubeconfig, "--scaler", plain.URL}
}

// Who waits for a swap is told which other strategy keeps it from being in service.
func TestSwapNamesWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	image := "registry.example/team/carbon@sha256:" + strings.Repeat("0a", 32)
	_, flags := swapScaler(t, admin.SwapAnswer{Kind: "StrategySwap", Name: "carbon", From: "built in", To: image}, []admin.Strategy{
		{Name: "carbon", State: "ready", Role: "serving"},
		{Name: "other", State: "broken", Role: "serving", LastError: "exit status 2"},
		{Name: "carbon", State: "ready", Role: "serving", Pending: true, WaitsFor: "other", Image: image},
	})
	code, _, talk := answers(t, append([]string{"strategy", "swap", "carbon", "--to", image, "--wait", "50ms"}, flags...)...)
	want := "the one before goes on: ready; its configuration waits for strategy other, which is broken: exit status 2"
	if code != 1 || !strings.Contains(talk, want) {
		t.Errorf("code %d, %s, want %q", code, talk, want)
	}
}

// What was taken back is asked for again, or a version taken back, with one flag.
func TestSwapBackAndRetry(t *testing.T) {
	t.Parallel()
	file := "/strategies/carbon@sha256:" + strings.Repeat("0a", 32)
	asked, flags := swapScaler(t, admin.SwapAnswer{Kind: "StrategySwap", Name: "carbon", From: "carbon 1.3", To: "carbon 1.2"}, nil)
	code, out, talk := answers(t, append([]string{"strategy", "swap", "carbon", "--back"}, flags...)...)
	if want := "strategy carbon: carbon 1.2 is in service again instead of carbon 1.3\n"; code != 0 || out != want || *asked != (admin.SwapRequest{Back: true}) {
		t.Errorf("code %d, asked %+v, %s%s, want %q", code, asked, out, talk, want)
	}
	answer := admin.SwapAnswer{Kind: "StrategySwap", Name: "carbon", From: "/before", To: file}
	serving := admin.Strategy{Name: "carbon", State: "ready", Role: "serving", AsWanted: true, Version: "1.3"}
	asked, flags = swapScaler(t, answer, []admin.Strategy{serving})
	code, out, talk = answers(t, append([]string{"strategy", "swap", "carbon", "--retry"}, flags...)...)
	if code != 0 || !strings.Contains(out, "is in service instead of /before") || *asked != (admin.SwapRequest{Retry: true}) {
		t.Errorf("code %d, asked %+v, %s%s", code, asked, out, talk)
	}
	if err := json.Unmarshal([]byte(`{"rolledBack": {"at": "2026-03-04T12:00:00Z", "strategy": "carbon", "why": "dearer"}}`), &serving); err != nil {
		t.Fatal(err)
	}
	_, flags = swapScaler(t, answer, []admin.Strategy{serving})
	code, _, talk = answers(t, append([]string{"strategy", "swap", "carbon", "--retry", "--wait", "1m"}, flags...)...)
	if code != 1 || !strings.Contains(talk, "was taken back: dearer") {
		t.Errorf("taken back again: code %d, %s", code, talk)
	}
	for args, says := range map[string]string{
		"--back --retry":      "--retry: expected only one of",
		"--back --to x":       "--back: expected no --to",
		"--retry --reset":     "expected only one of",
		"--retry --program x": "--retry: expected no --to and no --program",
	} {
		if code, _, talk := answers(t, append([]string{"strategy", "swap", "carbon"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(talk, says) {
			t.Errorf("%s: code %d, %s, want %q", args, code, talk, says)
		}
	}
}

// What --to names is an image as the configuration takes it: a registry and a repository, by digest.
func TestSwapRefusesWhatIsNoImage(t *testing.T) {
	t.Parallel()
	sum := "@sha256:" + strings.Repeat("0a", 32)
	for _, to := range []string{"carbon" + sum, "registry.example/Team/carbon" + sum, "registry.example//carbon" + sum, "registry.example/team/carbon:1 2" + sum} {
		asked, flags := swapScaler(t, admin.SwapAnswer{}, nil)
		code, _, talk := answers(t, append([]string{"strategy", "swap", "carbon", "--to", to}, flags...)...)
		if want := "expected registry/repository@sha256:DIGEST"; code != 2 || !strings.Contains(talk, want) || asked.Image != "" {
			t.Errorf("%s: code %d, %s, asked for %q, want %q", to, code, talk, asked.Image, want)
		}
	}
}
