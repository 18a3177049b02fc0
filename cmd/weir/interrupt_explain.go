package main

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/report"
	"github.com/weir-project/weir/core/userfile"
)

type explainEventOptions struct {
	inputs
	output
	account, region, cluster string
}

func newInterruptExplain(c *common) *cobra.Command {
	o := &explainEventOptions{inputs: inputs{common: c}}
	cmd := &cobra.Command{
		Use:   "explain -f EVENT.json",
		Short: "Show what an event would do",
		Long: `explain shows what would be done about events: one verdict for each event and instance.

The first -f is the events: one EventBridge event, an array of them, or a batch of SQS
messages. Further ones are more events, or the manifests of the cluster they are about;
without manifests every instance is taken for one of ours.`,
		Example: `  weir interrupt explain -f event.json
  weir interrupt explain -f event.json -f cluster.yaml --account 123456789012 -o json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file or - (standard input) with events, then files and folders with manifests; may be repeated")
	f.StringVar(&o.config, "config", "", "configuration file of the controller, to answer as it would")
	f.StringVar(&o.account, "account", "", "account of the cluster, 12 digits; events of others are ignored")
	f.StringVar(&o.region, "region", "", "region of the cluster; events of others are ignored")
	f.StringVar(&o.cluster, "cluster", "", "name of the cluster")
	o.output.register(cmd)
	return cmd
}

func (o *explainEventOptions) run() error {
	if err := o.check(); err != nil {
		return err
	}
	now, err := o.now()
	if err != nil {
		return err
	}
	o.flags = map[string]string{}
	for flag, value := range map[string]string{"account": o.account, "region": o.region, "cluster-name": o.cluster} {
		if value != "" {
			o.flags[flag] = value
		}
	}
	cfg, err := o.configuration()
	if err != nil {
		return err
	}
	messages, manifests, err := o.read()
	if err != nil {
		return err
	}
	var w *model.World
	if len(manifests) > 0 {
		in, err := load.Files(manifests, o.in, load.Options{})
		if err != nil {
			return badInput{err}
		}
		w = in.World(now)
	}
	d := interrupt.NewDecider(w, interrupt.Options{Account: cfg.Account, Region: cfg.Region, Cluster: cfg.Cluster, Now: now})
	var events []report.Event
	for _, m := range messages {
		for _, v := range d.Message(m) {
			events = append(events, report.Event{ID: v.EventID, Type: v.Type, Instance: v.Instance, Node: v.Node, Action: string(v.Action),
				Deadline: report.Deadline(v.Deadline), MarksOffering: v.Marks, Reason: v.Reason})
		}
	}
	return o.answer(o.format, report.Interruption(events))
}

// read splits the inputs into messages and manifests. The first one is events,
// whatever it looks like.
func (o *explainEventOptions) read() (messages []event.Message, manifests []string, err error) {
	if len(o.files) == 0 {
		return nil, nil, bad("-f: expected a file with an event, or - (standard input)")
	}
	for i, path := range o.files {
		if i > 0 && (path == "-" || isFolder(path)) {
			manifests = append(manifests, path)
			continue
		}
		var data []byte
		if path == "-" {
			if data, err = userfile.ReadAll(o.in, load.MaxBytes); err != nil {
				return nil, nil, bad("-: %w", err)
			}
		} else if data, err = readUpTo(path, load.MaxBytes); err != nil {
			return nil, nil, err
		}
		if i > 0 && !isEvent(data) {
			manifests = append(manifests, path)
			continue
		}
		list, err := event.Split(data)
		if err != nil {
			return nil, nil, bad("%s: expected an EventBridge event, an array of them or a batch of SQS messages: %w", path, err)
		}
		messages = append(messages, list...)
	}
	return messages, manifests, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isEvent says whether data looks like events rather than manifests.
func isEvent(data []byte) bool {
	data = bytes.TrimSpace(data)
	var one map[string]json.RawMessage
	if bytes.HasPrefix(data, []byte("[")) {
		var many []map[string]json.RawMessage
		if json.Unmarshal(data, &many) != nil || len(many) == 0 {
			return false
		}
		one = many[0]
	} else if json.Unmarshal(data, &one) != nil {
		return false
	}
	for _, key := range []string{"detail-type", "detail", "Records"} {
		if _, ok := one[key]; ok {
			return true
		}
	}
	return false
}
