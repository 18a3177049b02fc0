package classes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud/aws/permit"
	"github.com/weir-project/weir/core/cloud/aws/resolve"
	"github.com/weir-project/weir/core/model"
)

// Objects is the classes as the cluster has them. Claims answers a profile for each claim, empty where it names none.
type Objects interface {
	Follow(ctx context.Context, tell func(name string, class *awsv1.EC2NodeClass))
	SetStatus(ctx context.Context, class *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error)
	SetMetadata(ctx context.Context, class *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error)
	Claims(ctx context.Context, class string) (count int, profiles []string, err error)
}

// Resolver finds out what a class stands for.
type Resolver interface {
	Resolve(ctx context.Context, class *awsv1.EC2NodeClass, now time.Time) resolve.Result
	CollectProfiles(ctx context.Context, used []string, now time.Time) ([]string, error)
	DropProfile(ctx context.Context, class *awsv1.EC2NodeClass) error
}

// Provider is told of classes.
type Provider interface {
	SetClass(c *awsv1.EC2NodeClass, free map[string]int)
	DropClass(name string)
	CollectClass(ctx context.Context, class string) ([]string, error)
}

// Checker says whether EC2 lets us launch from a class that resolved, and until when that holds; where it could not be asked,
// what is known of before, with the error.
type Checker interface {
	Check(ctx context.Context, class *awsv1.EC2NodeClass, now time.Time) (permit.Verdict, time.Time, error)
}

// Config of a Keeper; everything but the functions that say so is required.
type Config struct {
	Objects  Objects
	Resolver Resolver
	Provider Provider
	Checker  Checker // nil = what resolves may be launched from
	CA       string  // certificate of the cluster, which the hash counts in
	Now      func() time.Time
	// Waits hears that a class which is being deleted still has claims; may be nil.
	Waits func(class *awsv1.EC2NodeClass, claims int)
	// Failed hears of errors; may be nil.
	Failed func(class string, err error)
}

// Keeper keeps the classes of one cluster.
type Keeper struct {
	cfg Config

	mu    sync.Mutex
	known map[string]*awsv1.EC2NodeClass
}

// New makes a keeper; Run starts it.
func New(cfg Config) *Keeper {
	if cfg.Waits == nil {
		cfg.Waits = func(*awsv1.EC2NodeClass, int) {}
	}
	if cfg.Failed == nil {
		cfg.Failed = func(string, error) {}
	}
	return &Keeper{cfg: cfg, known: map[string]*awsv1.EC2NodeClass{}}
}

// claimsWait is how often a class that is being deleted looks whether its claims are gone.
const claimsWait = 10 * time.Second

// Run keeps the classes until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute))
	var wg sync.WaitGroup
	wg.Go(func() {
		k.cfg.Objects.Follow(ctx, func(name string, c *awsv1.EC2NodeClass) {
			if k.Learn(name, c) {
				queue.Add(name)
			}
		})
	})
	wg.Go(func() {
		<-ctx.Done()
		queue.ShutDown()
	})
	for range 4 { // classes beside each other: one that AWS is slow about holds up no other
		wg.Go(func() {
			for {
				name, done := queue.Get()
				if done {
					return
				}
				again, err := k.Keep(ctx, name)
				switch {
				case ctx.Err() != nil:
				case err != nil:
					k.cfg.Failed(name, err)
					queue.AddRateLimited(name)
				default:
					queue.Forget(name)
					if again > 0 {
						queue.AddAfter(name, again)
					}
				}
				queue.Done(name)
			}
		})
	}
	wg.Wait()
}

// Learn takes an object in and says whether there is something to do about it: our own status is no news.
func (k *Keeper) Learn(name string, c *awsv1.EC2NodeClass) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.known[name]
	if c == nil {
		delete(k.known, name)
		return true
	}
	k.known[name] = c
	if old == nil || old.UID != c.UID || old.Generation != c.Generation || (old.DeletionTimestamp == nil) != (c.DeletionTimestamp == nil) {
		return true
	}
	if c.DeletionTimestamp != nil {
		return !slices.Equal(old.Finalizers, c.Finalizers)
	}
	// Somebody took off what was put on it.
	return !k.marked(c) && k.marked(old)
}

// Keep does what is to be done about a class now, and answers when it wants to be looked at again; 0 = when it changes.
func (k *Keeper) Keep(ctx context.Context, name string) (again time.Duration, err error) {
	k.mu.Lock()
	c := k.known[name]
	k.mu.Unlock()
	if c == nil {
		k.cfg.Provider.DropClass(name)
		return 0, nil
	}
	if c.DeletionTimestamp != nil {
		return k.end(ctx, c)
	}
	if c, err = k.metadata(ctx, c.DeepCopy()); err != nil {
		return k.conflict(err)
	}
	r := k.cfg.Resolver.Resolve(ctx, c, k.cfg.Now())
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if r.Err != nil {
		k.cfg.Failed(name, r.Err) // the status says what is not known; it is asked again soon
	}
	if have := c.Annotations[model.AnnotationPlacementGroup]; have != r.Placement {
		c = c.DeepCopy() // what is known of the class stays as it is
		c.Annotations[model.AnnotationPlacementGroup] = r.Placement
		if c, err = k.cfg.Objects.SetMetadata(ctx, c); err != nil {
			return k.conflict(err)
		}
		k.Learn(c.Name, c)
	}
	next := c.DeepCopy()
	next.Status = r.Status
	k.check(ctx, c, next, &r)
	// Before the status: claims are stamped with the hash of a class once its status is about it, and must then not be
	// launched as an earlier state of it says.
	k.cfg.Provider.SetClass(next, r.Free)
	if !equality.Semantic.DeepEqual(c.Status, next.Status) {
		if next, err = k.cfg.Objects.SetStatus(ctx, next); err != nil {
			return k.conflict(err)
		}
		k.Learn(name, next)
	}
	return r.Again, nil
}

// check has a class that resolved tried.
func (k *Keeper) check(ctx context.Context, c, next *awsv1.EC2NodeClass, r *resolve.Result) {
	if v := meta.FindStatusCondition(next.Status.Conditions, keys.ConditionValidationSucceeded); k.cfg.Checker == nil || v == nil || v.Status != metav1.ConditionTrue {
		return
	}
	now := k.cfg.Now()
	v, until, err := k.cfg.Checker.Check(ctx, next, now)
	if err != nil {
		k.cfg.Failed(c.Name, err)
		until = now.Add(checkAgain)
	}
	if v.Reason != "" {
		resolve.Refuse(c, &next.Status, v.Reason, v.Message, now)
	}
	if in := until.Sub(now); r.Again == 0 || in < r.Again {
		r.Again = in
	}
}

// checkAgain is the pause after a check that EC2 did not answer.
const checkAgain = 30 * time.Second

// conflict waits for the newer object, which the watch brings.
func (k *Keeper) conflict(err error) (time.Duration, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return time.Second, nil
	}
	return 0, err
}

// metadata puts hash and finalizer on the class. A hash under another version is another function's and is replaced: it is
// compared only where the versions are equal, so that no node drifts by it.
func (k *Keeper) metadata(ctx context.Context, c *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	if k.marked(c) {
		return c, nil
	}
	hash, err := c.Hash(k.cfg.CA)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(c.Finalizers, keys.FinalizerAWS) {
		c.Finalizers = append(c.Finalizers, keys.FinalizerAWS)
	}
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[keys.EC2NodeClassHash], c.Annotations[keys.EC2NodeClassHashVersion] = hash, keys.EC2NodeClassHashWeir1
	out, err := k.cfg.Objects.SetMetadata(ctx, c)
	if err != nil {
		return nil, err
	}
	k.Learn(out.Name, out)
	return out, nil
}

// marked says whether a class carries its hash and the finalizer.
func (k *Keeper) marked(c *awsv1.EC2NodeClass) bool {
	hash, err := c.Hash(k.cfg.CA)
	return err == nil && slices.Contains(c.Finalizers, keys.FinalizerAWS) && c.Annotations[keys.EC2NodeClassHash] == hash &&
		c.Annotations[keys.EC2NodeClassHashVersion] == keys.EC2NodeClassHashWeir1
}

// end clears up behind a class once no claim refers to it.
func (k *Keeper) end(ctx context.Context, c *awsv1.EC2NodeClass) (time.Duration, error) {
	k.cfg.Provider.SetClass(c, nil) // nothing is launched from it any more
	if !slices.Contains(c.Finalizers, keys.FinalizerAWS) {
		return 0, nil
	}
	claims, profiles, err := k.cfg.Objects.Claims(ctx, c.Name)
	if err != nil {
		return 0, err
	}
	if claims > 0 {
		k.cfg.Waits(c, claims)
		return claimsWait, nil
	}
	if _, err := k.cfg.Provider.CollectClass(ctx, c.Name); err != nil {
		return 0, err
	}
	if p := c.Status.InstanceProfile; c.Spec.InstanceProfile == nil && p != "" && !slices.Contains(append(k.profiles(c.Name), profiles...), p) {
		if err := k.cfg.Resolver.DropProfile(ctx, c); err != nil {
			return 0, err
		}
	}
	c = c.DeepCopy()
	c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == keys.FinalizerAWS })
	if _, err := k.cfg.Objects.SetMetadata(ctx, c); err != nil {
		return k.conflict(err)
	}
	return 0, nil
}

// profiles lists what the other classes name.
func (k *Keeper) profiles(but string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for name, c := range k.known {
		if name != but && c.Status.InstanceProfile != "" {
			out = append(out, c.Status.InstanceProfile)
		}
	}
	return out
}

// CollectProfiles deletes instance profiles that neither a class nor a claim names. It wants to be called now and then.
func (k *Keeper) CollectProfiles(ctx context.Context) ([]string, error) {
	_, used, err := k.cfg.Objects.Claims(ctx, "")
	if err != nil {
		return nil, err
	}
	if slices.Contains(used, "") {
		return nil, errors.New("some claims do not say with which profile their machines run: none is collected, for it may be theirs")
	}
	used = append(used, k.profiles("")...)
	if len(used) == 0 {
		return nil, errors.New("no class is known to have a profile: nothing is collected on so little knowledge")
	}
	gone, err := k.cfg.Resolver.CollectProfiles(ctx, used, k.cfg.Now())
	if err != nil {
		return gone, fmt.Errorf("instance profiles: %w", err)
	}
	return gone, nil
}
