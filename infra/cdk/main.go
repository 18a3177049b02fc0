// Command cdk synthesises Weir's stack for one EKS cluster. It needs no
// network, no AWS account and no CDK CLI:
//
//	go run . -c clusterName=demo -c endpoint=https://… -c certificateAuthority=… -o OUT
//
// Under the CDK CLI (`cdk deploy -c …`), which hands its context and folder over in the
// environment, it is the same without flags.
//
// stdout is the path of each template and a count of its resources; what the stack does
// not do yet goes to stderr. Exit codes: 0 done, 1 failed, 2 bad input.
//
// The CDK's helper process needs Node; on version 20 it works and complains at length.
// JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20, set by make synth and cdk.json,
// quietens it; it must be in the environment before the program starts.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-project/weir/infra/cdk/weircdk"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("cdk", flag.ContinueOnError)
	fs.SetOutput(stderr)
	given := map[string]string{}
	fs.Func("c", "`key=value` of context, as often as needed", func(s string) error {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return errors.New("expected key=value")
		}
		given[k] = v
		return nil
	})
	out := fs.String("o", "", "folder of the cloud assembly; left out, the CDK CLI's, or cdk.out")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: cdk -c key=value… [-o folder]\n\ncontext:")
		for _, k := range weircdk.Keys() {
			fmt.Fprintf(stderr, "  %-21s %s\n", k.Name, help(k))
		}
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	cfg, err := configure(given, fs.Args())
	if err != nil {
		fmt.Fprintf(stderr, "cdk: %v\n", err)
		return 2
	}
	defer jsii.Close()
	if err := synth(cfg, *out, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "cdk: %v\n", err)
		return 1
	}
	return 0
}

func help(k weircdk.Key) string {
	switch {
	case k.Required && k.Unless != "":
		return k.Help + "; required, unless " + k.Unless + " is set"
	case k.Required:
		return k.Help + "; required"
	case k.Default != "":
		return k.Help + "; default " + k.Default
	}
	return k.Help
}

// configure reads flags first, then the context that the CDK CLI hands over, which also
// holds the CDK's own settings.
func configure(given map[string]string, rest []string) (weircdk.Config, error) {
	if len(rest) > 0 {
		return weircdk.Config{}, fmt.Errorf("unexpected argument %q", rest[0])
	}
	if err := weircdk.CheckNames(slices.Sorted(maps.Keys(given))); err != nil {
		return weircdk.Config{}, err
	}
	handed := map[string]any{}
	if s := os.Getenv("CDK_CONTEXT_JSON"); s != "" {
		if err := json.Unmarshal([]byte(s), &handed); err != nil {
			return weircdk.Config{}, fmt.Errorf("context of the CDK CLI: %w", err)
		}
	}
	return weircdk.ReadConfig(func(key string) string {
		if v, ok := given[key]; ok {
			return v
		}
		s, _ := handed[key].(string)
		return s
	})
}

func synth(cfg weircdk.Config, out string, stdout, stderr io.Writer) error {
	props := &awscdk.AppProps{AnalyticsReporting: jsii.Bool(false)}
	if out != "" {
		props.Outdir = jsii.String(out)
	}
	app := awscdk.NewApp(props)
	stacks := weircdk.NewStacks(app, cfg)
	assembly := app.Synth(nil)
	for _, stack := range stacks {
		template := filepath.Join(*assembly.Directory(), *stack.TemplateFile())
		types, err := resources(template)
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, template)
		for _, t := range slices.Sorted(maps.Keys(types)) {
			fmt.Fprintf(stdout, "%5d  %s\n", types[t], t)
		}
	}
	fmt.Fprintln(stderr, "Not done by this stack:")
	for _, g := range weircdk.Gaps() {
		fmt.Fprintf(stderr, "  %-10s %s\n", g.ID, g.Text)
	}
	return nil
}

// resources counts the types of a template's resources.
func resources(path string) (map[string]int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var t struct {
		Resources map[string]struct{ Type string }
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("template %s: %w", path, err)
	}
	types := map[string]int{}
	for _, r := range t.Resources {
		types[r.Type]++
	}
	return types, nil
}
