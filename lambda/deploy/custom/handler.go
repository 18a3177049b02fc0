package custom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
)

// Outcome is what an installation tells the template, as attributes of the resource.
type Outcome struct {
	Release              string
	Namespace            string
	Revision             int // of the release
	ChartVersion         string
	Image                string   // what was installed, by digest where it is known
	DefinitionsLeftAlone []string // custom resource definitions that were not touched
}

func (o Outcome) attributes() map[string]any {
	return map[string]any{
		"Release": o.Release, "Namespace": o.Namespace, "Revision": fmt.Sprint(o.Revision), "ChartVersion": o.ChartVersion, "Image": o.Image,
		"DefinitionsLeftAlone": strings.Join(o.DefinitionsLeftAlone, ","),
	}
}

// Deployer does what events ask for. Each call may find anything that an earlier one,
// ended at any instruction, has left. Its context ends when the answer must be sent; from
// then on the call must change nothing. An error is for people and names what failed.
type Deployer interface {
	// Install installs or upgrades. When it fails where nothing was installed, it leaves
	// nothing but definitions.
	Install(ctx context.Context, p Properties) (Outcome, error)
	// Remove removes what Install made, but no definition, and no object of a kind that
	// machines hang on. What is not there is no error; where not even the cluster is, note says so.
	Remove(ctx context.Context, p Properties) (note string, err error)
}

// Handler answers events. Safe for concurrent use where its Deployer is.
type Handler struct {
	Deployer Deployer
	Log      *slog.Logger
	Client   *http.Client // sends answers
}

const (
	// reserve is what is kept of a run's time for the answer, at most a tenth of it.
	reserve = 20 * time.Second
	// unlimited bounds a run whose context has no deadline, which Lambda always sets.
	unlimited = 15 * time.Minute

	idPrefix = "weir@"
	// refusedPrefix starts the id of a create that was refused before anything was done.
	refusedPrefix = "refused:"
)

// Handle does what the event asks and sends the answer. Its error means that no answer
// could be sent: Lambda then repeats the event.
func (h *Handler) Handle(ctx context.Context, event cfn.Event) error {
	if event.ResponseURL == "" {
		return errors.New("event has no ResponseURL: it is not of CloudFormation")
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(unlimited)
	}
	left := time.Until(deadline)
	work, cancel := context.WithDeadline(ctx, deadline.Add(-min(reserve, left/10)))
	a := h.run(work, event)
	cancel()
	log := h.Log.With("request", event.RequestID, "type", string(event.RequestType), "resource", event.LogicalResourceID)
	if a.err != nil {
		log.Error("failed", "error", a.err.Error())
	} else {
		log.Info("done", "attributes", a.attributes, "note", a.note)
	}
	return h.send(ctx, event, a)
}

// answer is what CloudFormation is told.
type answer struct {
	id         string
	attributes map[string]any
	note       string // for people, where there is no error
	err        error
}

// run ends when the work is done or its time is over, whichever is first.
func (h *Handler) run(ctx context.Context, event cfn.Event) answer {
	done := make(chan answer, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				h.Log.Error("panic", "value", fmt.Sprint(v), "stack", string(debug.Stack()))
				done <- answer{id: failedID(event), err: fmt.Errorf("a fault in this program: %v; the function's log has more", v)}
			}
		}()
		done <- h.act(ctx, event)
	}()
	select {
	case a := <-done:
		return a
	case <-ctx.Done():
		return answer{id: failedID(event), err: errors.New("the function's time is over; the function's log says what was under way. What is half done is repaired by the next request")}
	}
}

func (h *Handler) act(ctx context.Context, event cfn.Event) answer {
	switch event.RequestType {
	case cfn.RequestCreate, cfn.RequestUpdate:
		p, err := ReadProperties(event.ResourceProperties)
		if err != nil {
			return answer{id: refusedID(event), err: err}
		}
		if err := h.leave(ctx, event, p); err != nil {
			return answer{id: failedID(event), err: err}
		}
		o, err := h.Deployer.Install(ctx, p)
		if err != nil {
			return answer{id: failedID(event), err: err}
		}
		return answer{id: idPrefix + p.ClusterName, attributes: o.attributes()}
	case cfn.RequestDelete:
		note, err := h.remove(ctx, event)
		return answer{id: event.PhysicalResourceID, note: note, err: err}
	}
	return answer{id: failedID(event), err: fmt.Errorf("request type %q is not known", event.RequestType)}
}

func (h *Handler) remove(ctx context.Context, event cfn.Event) (note string, err error) {
	if strings.HasPrefix(event.PhysicalResourceID, refusedPrefix) {
		return "", nil
	}
	p, err := ReadTarget(event.ResourceProperties)
	if err != nil && !strings.HasPrefix(event.PhysicalResourceID, idPrefix) {
		// A create whose answer was lost; with such properties it has made nothing.
		h.Log.Warn("nothing to delete: properties were never accepted", "request", event.RequestID, "error", err.Error())
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return h.Deployer.Remove(ctx, p)
}

// leave removes the release from the namespace that an update moves it away from: two at
// once would fight over what they have outside of their namespaces. In another cluster it
// stays until CloudFormation deletes the resource that it replaces.
func (h *Handler) leave(ctx context.Context, event cfn.Event, p Properties) error {
	if event.RequestType != cfn.RequestUpdate {
		return nil
	}
	old, err := ReadTarget(event.OldResourceProperties)
	if err != nil || old.ClusterName != p.ClusterName || old.Namespace == p.Namespace {
		return nil // properties that were never accepted have made nothing
	}
	if _, err := h.Deployer.Remove(ctx, old); err != nil {
		return fmt.Errorf("moving from namespace %s to %s: %w", old.Namespace, p.Namespace, err)
	}
	return nil
}

// failedID is the id of an answer that failed: CloudFormation deletes the resource of a
// create by it, and takes any other than the present one of an update for a replacement.
func failedID(event cfn.Event) string {
	if event.PhysicalResourceID != "" {
		return event.PhysicalResourceID
	}
	if name, ok := event.ResourceProperties["clusterName"].(string); ok && name != "" {
		return idPrefix + name
	}
	return refusedPrefix + event.LogicalResourceID
}

func refusedID(event cfn.Event) string {
	if event.PhysicalResourceID != "" {
		return event.PhysicalResourceID
	}
	return refusedPrefix + event.LogicalResourceID
}
