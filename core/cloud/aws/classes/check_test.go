package classes_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud/aws/classes"
	"github.com/weir-project/weir/core/cloud/aws/permit"
	"github.com/weir-project/weir/core/cloud/aws/resolve"
)

// tried answers dry runs, by class.
type tried struct {
	refused map[string]string
	err     error
	asked   int
}

func (c *tried) Check(_ context.Context, class *awsv1.EC2NodeClass, at time.Time) (permit.Verdict, time.Time, error) {
	c.asked++
	return permit.Verdict{Reason: c.refused[class.Name], Message: "You are not authorized"}, at.Add(time.Minute), c.err
}

// A role that may not launch from a class makes that class not ready, with the reason; others go on, and so does this one once
// the right is there.
func TestAClassThatMayNotBeLaunchedFromIsNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld()
	status := func() resolve.Result {
		var s awsv1.EC2NodeClassStatus
		for _, kind := range []string{keys.ConditionValidationSucceeded, keys.ConditionReady} {
			meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: 1})
		}
		return resolve.Result{Status: s, Again: 5 * time.Minute}
	}
	check := &tried{refused: map[string]string{"a": keys.ReasonCreateFleetAuthFailed}}
	at := now
	k := classes.New(classes.Config{Objects: w, Resolver: w, Provider: w, Checker: check, CA: "ca", Now: func() time.Time { return at },
		Failed: func(_ string, err error) { w.failed = append(w.failed, err.Error()) }})
	keep := func(name string, wantAgain time.Duration) *awsv1.EC2NodeClass {
		t.Helper()
		w.status[name] = status()
		again, err := k.Keep(t.Context(), name)
		if err != nil || again != wantAgain {
			t.Errorf("%s: again in %v, %v; want %v", name, again, err, wantAgain)
		}
		return w.objects[name]
	}
	for _, name := range []string{"a", "b"} {
		k.Learn(name, w.put(class(name)))
	}
	is := func(c *awsv1.EC2NodeClass, kind string) metav1.Condition {
		t.Helper()
		x := meta.FindStatusCondition(c.Status.Conditions, kind)
		if x == nil {
			t.Fatalf("no condition %s", kind)
		}
		return *x
	}
	a := keep("a", time.Minute)
	if v, r := is(a, keys.ConditionValidationSucceeded), is(a, keys.ConditionReady); v.Status != "False" || v.Reason != keys.ReasonCreateFleetAuthFailed ||
		v.Message != "You are not authorized" || r.Status != "False" {
		t.Errorf("a: %+v %+v", v, r)
	}
	if r := is(keep("b", time.Minute), keys.ConditionReady); r.Status != "True" {
		t.Errorf("b: %+v", r)
	}
	since, version := is(a, keys.ConditionValidationSucceeded), a.ResourceVersion
	at = at.Add(time.Minute)
	if a = keep("a", time.Minute); a.ResourceVersion != version || is(a, keys.ConditionValidationSucceeded) != since {
		t.Error("the status was written again although nothing has changed")
	}
	check.refused, check.err = nil, errors.New("throttled")
	if r := is(keep("a", 30*time.Second), keys.ConditionReady); r.Status != "True" || len(w.failed) != 1 {
		t.Errorf("while nothing is known: %+v, told %v", r, w.failed)
	}
	asked := check.asked
	w.status["b"] = resolve.Result{Again: time.Minute} // does not resolve
	if _, err := k.Keep(t.Context(), "b"); err != nil || check.asked != asked {
		t.Errorf("a class that does not resolve was tried, %v", err)
	}
}
