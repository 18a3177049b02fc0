package classes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud/aws/classes"
	"github.com/weir-project/weir/core/cloud/aws/resolve"
	"github.com/weir-project/weir/core/model"
)

var now = time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC)

// world is the API server, the resolver and the provider in one. Writes of an object that is not the newest are conflicts,
// and each write is told to the follower, as a watch does.
type world struct {
	mu        sync.Mutex
	objects   map[string]*awsv1.EC2NodeClass
	tell      func(string, *awsv1.EC2NodeClass)
	following chan struct{}
	status    map[string]resolve.Result // by class
	claims    int
	profiles  []string
	failed    []string

	told     map[string]int // SetClass by name
	groups   []string       // placement groups that it was told of, as the classes name them
	late     []string       // classes that the provider was told of after their status was written
	dropped  []string
	gone     []string // what was collected
	resolved map[string]int
	used     []string
}

func newWorld() *world {
	return &world{objects: map[string]*awsv1.EC2NodeClass{}, status: map[string]resolve.Result{}, told: map[string]int{}, resolved: map[string]int{}, following: make(chan struct{})}
}

func (w *world) Follow(ctx context.Context, tell func(string, *awsv1.EC2NodeClass)) {
	w.mu.Lock()
	w.tell = tell
	for name, c := range w.objects {
		tell(name, c.DeepCopy())
	}
	w.mu.Unlock()
	close(w.following)
	<-ctx.Done()
}

// put stores an object and tells of it.
func (w *world) put(c *awsv1.EC2NodeClass) *awsv1.EC2NodeClass {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.store(c)
}

func (w *world) store(c *awsv1.EC2NodeClass) *awsv1.EC2NodeClass {
	c = c.DeepCopy()
	n, _ := strconv.Atoi(c.ResourceVersion) // empty: the first
	c.ResourceVersion = strconv.Itoa(n + 1)
	w.objects[c.Name] = c
	if c.DeletionTimestamp != nil && len(c.Finalizers) == 0 {
		delete(w.objects, c.Name)
		if w.tell != nil {
			w.tell(c.Name, nil)
		}
		return c.DeepCopy()
	}
	if w.tell != nil {
		w.tell(c.Name, c.DeepCopy())
	}
	return c.DeepCopy()
}

func (w *world) write(c *awsv1.EC2NodeClass, change func(*awsv1.EC2NodeClass)) (*awsv1.EC2NodeClass, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	have := w.objects[c.Name]
	if have == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "ec2nodeclasses"}, c.Name)
	}
	if have.ResourceVersion != c.ResourceVersion {
		return nil, fmt.Errorf("write: %w", apierrors.NewConflict(schema.GroupResource{Resource: "ec2nodeclasses"}, c.Name, errors.New("changed")))
	}
	next := have.DeepCopy()
	change(next)
	return w.store(next), nil
}

func (w *world) SetStatus(_ context.Context, c *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return w.write(c, func(x *awsv1.EC2NodeClass) { x.Status = *c.Status.DeepCopy() })
}

func (w *world) SetMetadata(_ context.Context, c *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return w.write(c, func(x *awsv1.EC2NodeClass) { x.Annotations, x.Finalizers = c.Annotations, c.Finalizers })
}

func (w *world) Claims(context.Context, string) (int, []string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.claims, w.profiles, nil
}

func (w *world) Resolve(_ context.Context, c *awsv1.EC2NodeClass, _ time.Time) resolve.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resolved[c.Name]++
	r := w.status[c.Name]
	if r.Status.InstanceProfile == "" {
		r.Status.InstanceProfile = "profile-" + c.Name
	}
	return r
}

func (w *world) CollectProfiles(_ context.Context, used []string, _ time.Time) ([]string, error) {
	w.used = used
	return []string{"old"}, nil
}

func (w *world) DropProfile(_ context.Context, c *awsv1.EC2NodeClass) error {
	w.gone = append(w.gone, "profile of "+c.Name)
	return nil
}

func (w *world) SetClass(c *awsv1.EC2NodeClass, _ map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told[c.Name]++
	w.groups = append(w.groups, c.Annotations[model.AnnotationPlacementGroup])
	if w.told[c.Name] == 1 && c.DeletionTimestamp == nil && w.objects[c.Name] != nil && w.objects[c.Name].Status.InstanceProfile != "" {
		w.late = append(w.late, c.Name)
	}
}

func (w *world) DropClass(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropped = append(w.dropped, name)
}

func (w *world) CollectClass(_ context.Context, class string) ([]string, error) {
	w.gone = append(w.gone, "templates of "+class)
	return nil, nil
}

func class(name string) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("u-" + name), Generation: 1}, Spec: awsv1.EC2NodeClassSpec{Role: "r"}}
}

func keeper(w *world) *classes.Keeper {
	return classes.New(classes.Config{Objects: w, Resolver: w, Provider: w, CA: "ca", Now: func() time.Time { return now },
		Failed: func(class string, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.failed = append(w.failed, class+": "+err.Error())
		}})
}

// run keeps the world's classes in the background until the test ends.
func run(t *testing.T, w *world) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		keeper(w).Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	<-w.following
}

// until waits for a condition of the world.
func until(t *testing.T, w *world, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); ; {
		w.mu.Lock()
		done := ok()
		w.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s did not happen", what)
		}
		<-tick.C
	}
}

func TestAClassGetsItsStatusHashAndFinalizer(t *testing.T) {
	t.Parallel()
	w := newWorld()
	foreign := class("a")
	foreign.Annotations = map[string]string{keys.EC2NodeClassHash: "1", keys.EC2NodeClassHashVersion: "v6", "mine": "x"}
	foreign.Finalizers = []string{"other"}
	w.put(foreign)
	w.put(class("b"))
	run(t, w)
	until(t, w, "the status of both", func() bool {
		return w.objects["a"].Status.InstanceProfile != "" && w.objects["b"].Status.InstanceProfile != ""
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.objects["a"]
	if got.Status.InstanceProfile != "profile-a" || got.Annotations["mine"] != "x" || got.Annotations[keys.EC2NodeClassHashVersion] != keys.EC2NodeClassHashWeir1 ||
		got.Annotations[keys.EC2NodeClassHash] == "1" || !slices.Equal(got.Finalizers, []string{"other", keys.FinalizerAWS}) {
		t.Errorf("class %+v", got)
	}
	// Whoever sees the status stamps claims with this state's hash: it must not be able to launch an earlier one.
	if len(w.late) > 0 {
		t.Errorf("the provider was told late of %v", w.late)
	}
}

// Its own writes are no news: a class that does not change is looked at once.
// The placement group that was found stands on the class before anybody is told of it, and goes when there is none.
func TestAClassNamesItsPlacementGroup(t *testing.T) {
	t.Parallel()
	w := newWorld()
	k := keeper(w)
	k.Learn("a", w.put(class("a")))
	for _, group := range []string{"", "pg-1 spread", "pg-1 spread", "pg-2 partition 3", ""} {
		w.status["a"] = resolve.Result{Placement: group}
		if _, err := k.Keep(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if have := w.objects["a"]; have.Annotations[model.AnnotationPlacementGroup] != group || have.Annotations[keys.EC2NodeClassHash] == "" {
			t.Errorf("with group %q the annotations are %v", group, have.Annotations)
		}
	}
	if diff := cmp.Diff([]string{"", "pg-1 spread", "pg-1 spread", "pg-2 partition 3", ""}, w.groups); diff != "" {
		t.Errorf("the provider heard of (-want +got):\n%s", diff)
	}
	if n := w.objects["a"].ResourceVersion; n != "6" { // made, marked, its status, and three changes of the group
		t.Errorf("it was written %s times", n)
	}
}

func TestOwnWritesAreNoNews(t *testing.T) {
	t.Parallel()
	w := newWorld()
	run(t, w)
	w.put(class("a"))
	until(t, w, "the first look", func() bool { return w.told["a"] > 0 })
	changed := w.objects["a"].DeepCopy()
	changed.Generation = 2
	w.put(changed)
	until(t, w, "the second look", func() bool { return w.told["a"] > 1 })
	w.put(class("b"))
	until(t, w, "the look at the other", func() bool { return w.told["b"] > 0 })
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 1}, w.resolved); diff != "" {
		t.Errorf("looks (-want +got):\n%s", diff)
	}
	if len(w.failed) > 0 {
		t.Errorf("failed: %v", w.failed)
	}
}

// What cannot be asked is told, and the class is looked at again when the resolver says so.
func TestFailuresAreToldAndTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.status["a"] = resolve.Result{Err: errors.New("away"), Again: time.Millisecond}
	w.put(class("a"))
	run(t, w)
	until(t, w, "three looks", func() bool { return w.resolved["a"] >= 3 && len(w.failed) >= 3 })
}

// A class that is deleted waits for its claims; then templates and profile go, and the finalizer last.
func TestTheEndOfAClass(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.claims = 1
	c := class("a")
	c.Finalizers, c.Status.InstanceProfile, c.DeletionTimestamp = []string{keys.FinalizerAWS}, "profile-a", &metav1.Time{Time: now}
	c = w.put(c)
	kept := classes.New(classes.Config{Objects: w, Resolver: w, Provider: w, Now: func() time.Time { return now }, Waits: func(_ *awsv1.EC2NodeClass, n int) { w.failed = append(w.failed, fmt.Sprint(n, " claims")) }})
	kept.Learn("a", c)
	again, err := kept.Keep(t.Context(), "a")
	if err != nil || again == 0 || len(w.gone) > 0 || !slices.Equal(w.failed, []string{"1 claims"}) {
		t.Fatalf("with a claim: again %v, %v, gone %v, told %v", again, err, w.gone, w.failed)
	}
	w.claims, w.profiles = 0, []string{"profile-b"}
	if _, err := kept.Keep(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"templates of a", "profile of a"}, w.gone); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w.objects["a"] != nil {
		t.Error("the class is still there")
	}
	// a profile that a claim still names stays
	w.gone = nil
	w.profiles = []string{"profile-a"}
	c.ResourceVersion = ""
	kept.Learn("a", w.put(c))
	if _, err := kept.Keep(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"templates of a"}, w.gone); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	kept.Learn("a", nil)
	if _, err := kept.Keep(t.Context(), "a"); err != nil || !slices.Equal(w.dropped, []string{"a"}) {
		t.Errorf("%v, dropped %v", err, w.dropped)
	}
}

func TestProfilesAreNotCollectedOnNoKnowledge(t *testing.T) {
	t.Parallel()
	w := newWorld()
	k := keeper(w)
	if _, err := k.CollectProfiles(t.Context()); err == nil {
		t.Error("collected though nothing is known")
	}
	c := class("a")
	c.Status.InstanceProfile = "profile-a"
	k.Learn("a", c)
	// A claim that does not say its profile may run with any: deleting that would take its machine's credentials away.
	w.profiles = []string{"profile-of-claim", ""}
	if gone, err := k.CollectProfiles(t.Context()); err == nil || w.used != nil {
		t.Errorf("collected %v beside a claim that names no profile", gone)
	}
	w.profiles = []string{"profile-of-claim"}
	if gone, err := k.CollectProfiles(t.Context()); err != nil || len(gone) != 1 || !slices.Equal(w.used, []string{"profile-of-claim", "profile-a"}) {
		t.Errorf("%v, %v, used %v", gone, err, w.used)
	}
}
