package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// sbomNamesEverything holds the bill of materials of real programs to what the Go linker
// says of them.
func sbomNamesEverything(t *testing.T, bin string, digest v1.Hash) {
	t.Helper()
	o := Options{Version: "v1.2.3", SBOM: true}
	p := Platform{runtime.GOARCH, bin}
	text, err := sbom(o, p, digest)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := sbom(o, p, digest); err != nil || !bytes.Equal(text, again) {
		t.Errorf("the second bill of the same image differs (error %v)", err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; c.Name != "weir" || c.Version != "v1.2.3" || (*c.Hashes)[0].Value != digest.Hex {
		t.Errorf("it is about %+v", c)
	}
	have := map[string]cdx.Component{}
	for _, c := range *bom.Components {
		have[c.BOMRef] = c
	}
	uses := map[string]map[string]bool{}
	for _, d := range *bom.Dependencies {
		uses[d.Ref] = map[string]bool{}
		for _, on := range *d.Dependencies {
			uses[d.Ref][on] = true
			if have[on].Name == "" {
				t.Errorf("%s uses %s, which is no component", d.Ref, on)
			}
		}
	}
	for _, name := range Binaries() {
		data, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		program := have["program:"+name]
		if program.Hashes == nil || (*program.Hashes)[0].Value != hex.EncodeToString(sum[:]) || !uses["image"]["program:"+name] {
			t.Errorf("program %s is %+v", name, program)
		}
		info, err := buildinfo.Read(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"std", "github.com/weir-project/weir"}
		for _, d := range info.Deps {
			want = append(want, d.Path)
		}
		if len(want) < 15 {
			t.Errorf("%s is linked from %d modules only, so that this proves little", name, len(want))
		}
		listed := map[string]bool{}
		for on := range uses["program:"+name] {
			c := have[on]
			listed[c.Name] = true
			if c.Version == "" || c.Version == "(devel)" || !strings.HasPrefix(c.PackageURL, "pkg:golang/"+c.Name+"@") {
				t.Errorf("%s has version %q and URL %q", c.Name, c.Version, c.PackageURL)
			}
		}
		for _, w := range want {
			if !listed[w] {
				t.Errorf("%s: the bill lacks %s", name, w)
			}
		}
	}
	if roots := have["pkg:golang/"+rootsModule+"@"+must(rootsVersion())]; roots.Name != rootsModule || !uses["image"][roots.BOMRef] {
		t.Errorf("certificate authorities are %+v", roots)
	}
}

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

// TestNoBillOfUnknownPrograms: a program that does not say what is in it is refused, not left out.
func TestNoBillOfUnknownPrograms(t *testing.T) {
	t.Parallel()
	o := both(t)
	o.SBOM = true
	out := filepath.Join(t.TempDir(), "weir")
	err := run(o, out, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "weir-scaler does not say which modules are in it") {
		t.Errorf("error %v, expected a refusal", err)
	}
	if _, err := sbom(o, Platform{"amd64", folder(t, elf.EM_X86_64, false)}, v1.Hash{}); err == nil {
		t.Error("a bill of a program that is no Go program")
	}
}
