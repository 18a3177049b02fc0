package v1_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	v1 "github.com/weir-project/weir/core/api/v1"
)

// Whatever spelling a user chose must come back, through JSON and through the converter that clients of untyped objects use.
func TestDurationKeepsItsText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([0-9]{1,4}(s|m|h)){1,3}|Never`).Draw(t, "text")
		claim := v1.NodeClaim{}
		if err := json.Unmarshal([]byte(`{"spec":{"expireAfter":"`+text+`"}}`), &claim); err != nil {
			t.Fatal(err)
		}
		if got := claim.Spec.ExpireAfter.IsNever(); got != (text == v1.Never) {
			t.Fatalf("IsNever of %s is %v", text, got)
		}
		data, err := json.Marshal(claim)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), `"expireAfter":"`+text+`"`) {
			t.Fatalf("%s came back as %s", text, data)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(claim.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		var back v1.NodeClaim
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &back); err != nil {
			t.Fatal(err)
		}
		if back.Spec.ExpireAfter.String() != text {
			t.Fatalf("%s came back as %s", text, back.Spec.ExpireAfter)
		}
	})
}

func TestDurationMadeInGo(t *testing.T) {
	t.Parallel()
	if got := v1.After(90 * time.Minute).String(); got != "1h30m0s" {
		t.Errorf("text %q, want 1h30m0s", got)
	}
	if got := (v1.NillableDuration{}).String(); got != v1.Never {
		t.Errorf("text of the zero value %q, want %s", got, v1.Never)
	}
}

func TestDurationRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"30d"`, `""`, `"never"`, `5`, `null5`, `"99999999999h"`} {
		var d v1.NillableDuration
		if err := json.Unmarshal([]byte(text), &d); err == nil {
			t.Errorf("%s is read as %s, want an error", text, d)
		}
	}
}

// An explicit empty list means no bound. Written back without the field, the API server would put ten percent in.
func TestExplicitEmptyBudgetsSurvive(t *testing.T) {
	t.Parallel()
	var pool v1.NodePool
	if err := json.Unmarshal([]byte(`{"spec":{"disruption":{"budgets":[]}}}`), &pool); err != nil {
		t.Fatal(err)
	}
	pool.Default()
	data, err := json.Marshal(pool)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), `"budgets":[]`) {
		t.Errorf("budgets are lost in %s", data)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pool)
	if err != nil {
		t.Fatal(err)
	}
	budgets, ok := content["spec"].(map[string]any)["disruption"].(map[string]any)["budgets"].([]any)
	if !ok || len(budgets) != 0 {
		t.Errorf("budgets are lost in %v", content)
	}
}
