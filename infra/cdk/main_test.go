package main

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBadInputIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"nothing given":   {nil, "set -c clusterName=…"},
		"unknown context": {[]string{"-c", "cluster=x"}, "context cluster is not known"},
		"no value":        {[]string{"-c", "clusterName"}, "expected key=value"},
		"argument":        {[]string{"deploy"}, `unexpected argument "deploy"`},
		"unknown flag":    {[]string{"-x"}, "usage: cdk -c key=value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, err bytes.Buffer
			if code := run(tc.args, &out, &err); code != 2 || !strings.Contains(err.String(), tc.want) || out.Len() > 0 {
				t.Errorf("ended with %d, stdout %q, stderr %q; expected 2 and %q", code, out.String(), err.String(), tc.want)
			}
		})
	}
}

// The CDK CLI hands context and folder over in the environment, its own settings among them.
func TestSynthesis(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bootstrap"), []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))
	t.Setenv("CDK_CONTEXT_JSON", `{"aws:cdk:enable-path-metadata": true, "clusterName": "handed", "endpoint": "https://api.example"}`)
	assembly := filepath.Join(t.TempDir(), "out")
	var out, errs bytes.Buffer
	code := run([]string{"-c", "clusterName=given", "-c", "certificateAuthority=" + ca, "-c", "lambdaDir=" + dir, "-c", "deployDir=" + dir, "-c", "image=registry.example/weir:v1", "-o", assembly}, &out, &errs)
	if code != 0 {
		t.Fatalf("ended with %d: %s", code, errs.String())
	}
	template := filepath.Join(assembly, "Weir-given.template.json")
	for _, want := range []string{template, "1  AWS::DynamoDB::Table", "6  AWS::Events::Rule", "1  Custom::WeirRelease"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("stdout does not have %q:\n%s", want, out.String())
		}
	}
	if !strings.Contains(errs.String(), "aws-auth is not written") {
		t.Errorf("stderr does not say what is missing:\n%s", errs.String())
	}
	if _, err := os.Stat(template); err != nil {
		t.Error(err)
	}
}
