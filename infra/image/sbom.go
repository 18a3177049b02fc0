package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// rootsModule is where the certificate authorities of the image come from.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// sbomPath is the bill of materials beside a layout.
func sbomPath(out, arch string) string {
	return fmt.Sprintf("%s-%s.cdx.json", filepath.Clean(out), arch)
}

// sbom is the bill of materials of one image: its programs, by their hashes, each with the
// modules that the Go linker says are in it, the standard library among them, and the
// certificate authorities. It has no date and no random number: the same image has the same.
func sbom(o Options, p Platform, digest v1.Hash) ([]byte, error) {
	image := cdx.Component{
		BOMRef: "image", Type: cdx.ComponentTypeContainer, Name: "weir", Version: o.Version,
		PackageURL: fmt.Sprintf("pkg:oci/weir@%s?arch=%s", strings.Replace(digest.String(), ":", "%3A", 1), p.Arch),
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: digest.Hex}},
	}
	components := map[string]cdx.Component{}
	uses := map[string][]string{}
	for _, name := range Binaries() {
		if err := addProgram(components, uses, o, p, name); err != nil {
			return nil, err
		}
	}
	version, err := rootsVersion()
	if err != nil {
		return nil, err
	}
	roots := module(rootsModule, version)
	roots.Description = "certificate authorities in /" + certificates
	components[roots.BOMRef] = roots
	uses["image"] = append(uses["image"], roots.BOMRef)

	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &image}
	var list []cdx.Component
	for _, c := range components {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	bom.Components = &list
	var dependencies []cdx.Dependency
	for ref, on := range uses {
		slices.Sort(on)
		on = slices.Compact(on)
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &on})
	}
	slices.SortFunc(dependencies, func(a, b cdx.Dependency) int { return strings.Compare(a.Ref, b.Ref) })
	bom.Dependencies = &dependencies
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, fmt.Errorf("bill of materials: %w", err)
	}
	return b.Bytes(), nil
}

// addProgram adds a program and the modules in it.
func addProgram(components map[string]cdx.Component, uses map[string][]string, o Options, p Platform, name string) error {
	path := filepath.Join(p.Dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s does not say which modules are in it: %w", path, err)
	}
	sum := sha256.Sum256(data)
	ref := "program:" + name
	components[ref] = cdx.Component{
		BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: name, Version: o.Version,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}
	uses["image"] = append(uses["image"], ref)
	for _, m := range modulesOf(info, o.Version) {
		components[m.BOMRef] = m
		uses[ref] = append(uses[ref], m.BOMRef)
	}
	return nil
}

// modulesOf are the modules that a program is linked from. What has no version of its own
// (the program's module, and those beside it) has that of the image.
func modulesOf(info *debug.BuildInfo, version string) []cdx.Component {
	out := []cdx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go")), module(info.Main.Path, version)}
	for _, d := range info.Deps {
		name, v := d.Path, d.Version
		switch r := d.Replace; {
		case r == nil:
		case strings.HasPrefix(r.Path, "."): // a folder of this repository
			v = version
		default:
			name, v = r.Path, r.Version
		}
		out = append(out, module(name, v))
	}
	return out
}

func module(name, version string) cdx.Component {
	purl := "pkg:golang/" + name + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: purl}
}

// rootsVersion is that of the certificate authorities in this very program.
func rootsVersion() (string, error) {
	self, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("this program was built without module information: which certificate authorities it has is not known")
	}
	for _, d := range self.Deps {
		if d.Path == rootsModule {
			return d.Version, nil
		}
	}
	return "", fmt.Errorf("this program does not say which %s is in it", rootsModule)
}
