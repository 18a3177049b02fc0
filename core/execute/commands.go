package execute

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// command is a disruption under way: replacements first, then the nodes go.
type command struct {
	id       string
	reason   model.DisruptionReason
	why      string
	remove   []string // claim names
	replace  []string // claim names of the replacements
	started  time.Time
	deadline time.Time // replacements must be usable by then
	shown    bool      // on its claims and nodes: the record was written before
	deleting bool
	asked    map[string]time.Time // when the deletion of a claim was last asked for
}

// askAgain is how long a deletion that was asked for may take to be seen.
const askAgain = 5 * time.Second

// Disrupt takes a validated command. Nodes that are in a command already, or whose
// claim is on its way out, make it refuse the whole.
func (x *Executor) Disrupt(c model.Command, now time.Time) error {
	x.now = now
	cmd := &command{reason: c.Reason, why: c.Why, started: now, asked: map[string]time.Time{}}
	for _, n := range c.Remove {
		if n.Claim == nil {
			return fmt.Errorf("node %s is not ours", n.ID())
		}
		o := x.m.Claim(n.Claim.Name)
		switch {
		case o == nil || o.UID != n.Claim.UID:
			return fmt.Errorf("nodeclaim %s is gone", n.Claim.Name)
		case o.Deleting != nil:
			return fmt.Errorf("nodeclaim %s is being deleted already", o.Name)
		case x.commanded(o.Name):
			return fmt.Errorf("nodeclaim %s is in a running command", o.Name)
		}
		cmd.remove = append(cmd.remove, o.Name)
	}
	if len(c.Launch) > 0 {
		names := x.Accept(c.Launch, string(c.Reason), now)
		for _, n := range c.Launch {
			name, ok := names[n.Name]
			if !ok {
				x.abandon(names)
				return fmt.Errorf("replacement %s was refused", n.Name)
			}
			cmd.replace = append(cmd.replace, name)
		}
		nodes := len(c.Remove) + len(c.Launch)
		cmd.deadline = now.Add(min(max(time.Duration(nodes)*80*time.Millisecond, ReplaceWithin), time.Hour))
	}
	cmd.id = x.id("command")
	x.commands = append(x.commands, cmd)
	x.rememberCommand(cmd, false)
	return nil
}

// rememberCommand writes the command down, so that the next leader goes on with it.
func (x *Executor) rememberCommand(cmd *command, done bool) {
	rec := ledger.Command{Reason: string(cmd.reason), Why: cmd.why, Replace: cmd.replace, Started: cmd.started, Deadline: cmd.deadline, Done: done}
	for _, name := range cmd.remove {
		if c := x.m.Claim(name); c != nil {
			rec.Remove = append(rec.Remove, ledger.CommandedClaim{Name: name, UID: c.UID})
		}
	}
	x.remember(ledger.CommandKey(x.cfg.Cluster, cmd.id), rec, ledger.Meta{Expires: x.now.Add(ledger.CommandTTL)})
}

// staleCommand is how long a command without replacements, which is carried out at once,
// may have been under way to be gone on with.
const staleCommand = 5 * time.Minute

// resumeCommand goes on with a command of whoever led before, as far as it was shown on
// its claims: pods may have come since to nodes of which nobody said that they go.
func (x *Executor) resumeCommand(id string, rec ledger.Command) {
	cmd := &command{id: id, reason: model.DisruptionReason(rec.Reason), why: rec.Why, replace: rec.Replace, started: rec.Started, deadline: rec.Deadline, asked: map[string]time.Time{}}
	for _, r := range rec.Remove {
		c := x.m.Claim(r.Name)
		shown := c != nil && c.UID == r.UID && (c.Deleting != nil || c.Is(model.CondDisruptionReason))
		if shown && !x.commanded(r.Name) {
			cmd.remove = append(cmd.remove, r.Name)
		}
	}
	old := len(cmd.replace) == 0 && !x.now.Before(cmd.started.Add(staleCommand))
	if len(cmd.remove) == 0 || old {
		x.rememberCommand(cmd, true)
		return
	}
	x.commands = append(x.commands, cmd)
}

// abandon takes back launches that were accepted a moment ago.
func (x *Executor) abandon(names map[string]string) {
	for _, name := range names {
		l := x.launchOf[name]
		if l == nil {
			continue
		}
		for _, c := range l.claims {
			if c.claim.Name == name {
				x.drop(l, c, "the command it belongs to was refused")
			}
		}
	}
}

// show shows on node and claim that they are being disrupted.
func (x *Executor) show(cmd *command) {
	for _, name := range cmd.remove {
		c := x.m.Claim(name)
		if c == nil {
			continue
		}
		if d := c.Condition(model.CondDisruptionReason); d.Status != "True" || d.Reason != string(cmd.reason) {
			x.do("claim/"+name, PatchClaim{Patch: ClaimPatch{Name: name, UID: c.UID, Conditions: []model.Condition{
				{Type: model.CondDisruptionReason, Status: "True", Reason: string(cmd.reason), Message: string(cmd.reason), Since: x.now}}}})
		}
		for _, n := range x.m.NodeObjects(c.ProviderID) {
			if !slices.ContainsFunc(n.Taints, drain.Taint.Same) {
				x.do("node/"+n.Name, PatchNode{Patch: NodePatch{Name: n.Name, UID: n.UID, AddTaints: []model.Taint{drain.Taint}}})
			}
		}
	}
}

// commanded says whether a claim is to be removed by a running command.
func (x *Executor) commanded(name string) bool {
	for _, cmd := range x.commands {
		if slices.Contains(cmd.remove, name) {
			return true
		}
	}
	return false
}

// Commanded says whether a claim is to be removed by a command under way.
func (x *Executor) Commanded(name string) bool { return x.commanded(name) }

// Running names, by Node.ID, the nodes of running commands.
func (x *Executor) Running() map[string]bool {
	out := map[string]bool{}
	for _, cmd := range x.commands {
		for _, name := range cmd.remove {
			out[name] = true
			if c := x.m.Claim(name); c != nil {
				for _, n := range x.m.NodeObjects(c.ProviderID) {
					out[n.Name] = true
				}
			}
		}
	}
	return out
}

// stepCommands takes the running commands as far as they go now.
func (x *Executor) stepCommands() {
	x.commands = slices.DeleteFunc(x.commands, func(cmd *command) bool {
		done := x.stepCommand(cmd)
		if done {
			x.rememberCommand(cmd, true)
		}
		return done
	})
}

// stepCommand answers true where the command has ended.
func (x *Executor) stepCommand(cmd *command) bool {
	cmd.remove = slices.DeleteFunc(cmd.remove, func(name string) bool { return x.m.Claim(name) == nil })
	if len(cmd.remove) == 0 {
		return true
	}
	if !cmd.shown {
		if !x.remembered(ledger.CommandKey(x.cfg.Cluster, cmd.id)) {
			return false // the intent comes first; the answer of the write wakes us
		}
		cmd.shown = true
		x.show(cmd)
	}
	if !cmd.deleting {
		ready, lost := x.replacements(cmd)
		if lost != "" {
			x.rollback(cmd, lost)
			return true
		}
		if !ready {
			x.wake(cmd.deadline)
			x.show(cmd)
			return false
		}
		cmd.deleting = true
	}
	left := false
	for _, name := range cmd.remove {
		c := x.m.Claim(name)
		if c == nil || c.Deleting != nil {
			continue
		}
		left = true
		if at := cmd.asked[name].Add(askAgain); x.now.Before(at) {
			x.wake(at)
			continue
		}
		t := x.trackOf(name)
		t.reason = string(cmd.reason)
		x.claimEvent(c, false, "DisruptionTerminating", "Disrupting NodeClaim: %s", cmd.reason)
		for _, n := range x.m.NodeObjects(c.ProviderID) {
			x.event(Event{Object: claim.NodeRef(n), Reason: "DisruptionTerminating", Message: fmt.Sprintf("Disrupting Node: %s", cmd.reason)})
		}
		x.deleteClaim(name, c.UID, lower(cmd.reason))
		cmd.asked[name] = x.now
		x.wake(x.now.Add(askAgain))
	}
	return !left
}

// replacements says whether all replacements are usable, or why they never will be.
func (x *Executor) replacements(cmd *command) (ready bool, lost string) {
	ready = true
	for _, name := range cmd.replace {
		c := x.m.Claim(name)
		switch {
		case c == nil || c.Deleting != nil:
			return false, "replacement " + name + " is gone"
		case !c.Is(model.CondInitialized):
			ready = false
			if c.ProviderID != "" {
				x.claimEvent(c, false, "DisruptionWaitingReadiness", "Waiting on readiness to continue disruption")
			}
		}
	}
	if !ready && !x.now.Before(cmd.deadline) {
		return false, fmt.Sprintf("replacements were not usable within %s", cmd.deadline.Sub(cmd.started))
	}
	return ready, ""
}

// rollback leaves the nodes in service. Replacements that run already stay, and are
// given back later if nothing needs them.
func (x *Executor) rollback(cmd *command, why string) {
	for _, name := range cmd.remove {
		c := x.m.Claim(name)
		if c == nil || c.Deleting != nil {
			continue
		}
		x.claimEvent(c, true, "DisruptionRolledBack", "Keeping the node: %s", why)
		t := x.trackOf(name)
		t.strayed = x.now.Add(-strayAfter) // the cordon is ours and may go at once
		t.due(x.now)
	}
}

func lower(r model.DisruptionReason) string {
	b := []byte(r)
	if len(b) > 0 && b[0] >= 'A' && b[0] <= 'Z' {
		b[0] += 'a' - 'A'
	}
	return string(b)
}
