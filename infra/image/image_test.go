package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// program is the head of a linux program: as much of it as the builder looks at.
func program(t *testing.T, m elf.Machine, dynamic bool) []byte {
	t.Helper()
	h := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(m), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	}
	p := elf.Prog64{Type: uint32(elf.PT_LOAD), Off: 0, Filesz: 64, Memsz: 64}
	if dynamic {
		p.Type = uint32(elf.PT_INTERP)
	}
	var b bytes.Buffer
	for _, part := range []any{h, p} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func folder(t *testing.T, m elf.Machine, dynamic bool) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range Binaries() {
		if err := os.WriteFile(filepath.Join(dir, name), program(t, m, dynamic), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func both(t *testing.T) Options {
	t.Helper()
	return Options{
		Version: "v1.2.3", Revision: "abc", Date: time.Unix(1_700_000_000, 0).UTC(),
		Platforms: []Platform{{"arm64", folder(t, elf.EM_AARCH64, false)}, {"amd64", folder(t, elf.EM_X86_64, false)}},
	}
}

func TestLayoutIsValidAndHasBothArchitectures(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "deep", "weir")
	var said bytes.Buffer
	if err := run(both(t), out, &said); err != nil {
		t.Fatal(err)
	}
	root, err := layout.ImageIndexFromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	top, err := root.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations[annotationRef] != "v1.2.3" {
		t.Fatalf("index.json names %+v, expected one index called v1.2.3", top.Manifests)
	}
	idx, err := root.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(idx); err != nil {
		t.Errorf("index: %v", err)
	}
	m, err := idx.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Manifests) != 2 {
		t.Fatalf("%d images, expected 2", len(m.Manifests))
	}
	for i, arch := range []string{"amd64", "arm64"} {
		d := m.Manifests[i]
		if d.Platform == nil || d.Platform.OS != "linux" || d.Platform.Architecture != arch {
			t.Errorf("image %d is for %v, expected linux/%s", i, d.Platform, arch)
		}
		img, err := idx.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkConfig(t, img, arch)
		if !strings.Contains(said.String(), d.Digest.String()) {
			t.Errorf("digest of %s is not told:\n%s", arch, said.String())
		}
	}
}

func checkConfig(t *testing.T, img v1.Image, arch string) {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c.Architecture != arch || c.OS != "linux" {
		t.Errorf("configuration is for %s/%s, expected linux/%s", c.OS, c.Architecture, arch)
	}
	if c.Config.User != "65532:65532" {
		t.Errorf("user %q, expected one without privileges", c.Config.User)
	}
	if got := c.Config.Labels["org.opencontainers.image.revision"]; got != "abc" {
		t.Errorf("revision %q, expected abc", got)
	}
	if want := time.Unix(1_700_000_000, 0).UTC(); !c.Created.Equal(want) {
		t.Errorf("created %v, expected %v", c.Created, want)
	}
}

func TestSameInputSameDigest(t *testing.T) {
	t.Parallel()
	digest := func(o Options) string {
		idx, err := Build(o)
		if err != nil {
			t.Fatal(err)
		}
		d, err := idx.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	one, two := both(t), both(t) // other folders, other times of the files
	two.Platforms[0], two.Platforms[1] = two.Platforms[1], two.Platforms[0]
	if a, b := digest(one), digest(two); a != b {
		t.Errorf("digests differ: %s and %s", a, b)
	}
	if err := os.WriteFile(filepath.Join(two.Platforms[0].Dir, "weir-scaler"), append(program(t, elf.EM_X86_64, false), 1), 0o755); err != nil {
		t.Fatal(err)
	}
	if digest(one) == digest(two) {
		t.Error("another program has the same digest")
	}
}

func TestRefusesWhatCannotRun(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	text := folder(t, elf.EM_X86_64, false)
	if err := os.WriteFile(filepath.Join(text, "weir-strategy"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		platforms []Platform
		want      string
	}{
		"other architecture": {[]Platform{{"arm64", folder(t, elf.EM_X86_64, false)}}, "is for EM_X86_64, expected EM_AARCH64"},
		"dynamic":            {[]Platform{{"amd64", folder(t, elf.EM_X86_64, true)}}, "CGO_ENABLED=0"},
		"no program":         {[]Platform{{"amd64", text}}, "weir-strategy is no linux program"},
		"missing":            {[]Platform{{"amd64", empty}}, "weir-scaler: no such file"},
		"twice":              {[]Platform{{"amd64", text}, {"amd64", text}}, "amd64 is given twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Build(Options{Version: "v1", Platforms: tc.platforms})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, expected it to say %q", err, tc.want)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args  []string
		epoch string
		want  string
	}{
		"no folder":        {[]string{"-binaries", "amd64=x"}, "", "-out is missing"},
		"no binaries":      {[]string{"-out", "x"}, "", "-binaries is missing"},
		"architecture":     {[]string{"-out", "x", "-binaries", "s390x=x"}, "", "expected one of amd64, arm64"},
		"no architecture":  {[]string{"-out", "x", "-binaries", "x"}, "", "expected ARCH=FOLDER"},
		"argument":         {[]string{"-out", "x", "-binaries", "amd64=x", "y"}, "", `unexpected argument "y"`},
		"epoch":            {[]string{"-out", "x", "-binaries", "amd64=x"}, "yesterday", "SOURCE_DATE_EPOCH"},
		"all there (good)": {[]string{"-out", "x", "-binaries", "amd64=x"}, "12", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := parse(tc.args, tc.epoch, io.Discard)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, expected %q", err, tc.want)
			}
		})
	}
}

func TestLeavesOtherFoldersAlone(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	mine := filepath.Join(out, "precious")
	if err := os.WriteFile(mine, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(both(t), out, io.Discard); err == nil || !strings.Contains(err.Error(), "left alone") {
		t.Errorf("error %v, expected a refusal", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
	layoutDir := filepath.Join(t.TempDir(), "weir")
	for range 2 { // a layout of before is replaced
		if err := run(both(t), layoutDir, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAuthoritiesAreReadByGo(t *testing.T) {
	t.Parallel()
	b, err := authorities()
	if err != nil {
		t.Fatal(err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(b) {
		t.Fatal("no certificate could be read")
	}
	if n := bytes.Count(b, []byte("BEGIN CERTIFICATE")); n < 50 {
		t.Errorf("%d authorities, expected at least 50", n)
	}
}

// TestProgramsStart builds the real programs, puts them into an image, unpacks it and
// starts them with nothing around them but the image. As root that is done in a new
// root folder, with the image's user.
func TestProgramsStart(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || machines[runtime.GOARCH] == 0 {
		t.Skipf("the image is for linux on amd64 and arm64, this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", bin+"/", "./cmd/weir-scaler", "./cmd/weir-strategy")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	idx, err := Build(Options{Version: "v0", Platforms: []Platform{{runtime.GOARCH, bin}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := idx.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	img, err := idx.Image(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	sbomNamesEverything(t, bin, m.Manifests[0].Digest)
	root := unpack(t, img)
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		program, arg string
		code         int
		want         string
	}{
		{cfg.Config.Entrypoint[0], "--version", 0, "weir-scaler"},
		{"/weir-scaler", "ledger", 2, "ls"},             // the verbs on the ledger, for kubectl exec
		{"/weir-strategy", "--help", 2, "cost-optimal"}, // started by hand it only explains itself
	} {
		out, code := start(t, root, cfg.Config.Env, tc.program, tc.arg)
		if code != tc.code || !strings.Contains(out, tc.want) {
			t.Errorf("%s %s ended with %d, expected %d, and said %q, expected %q", tc.program, tc.arg, code, tc.code, out, tc.want)
		}
	}
}

func start(t *testing.T, root string, env []string, program, arg string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, program), arg)
	cmd.Env = env
	if os.Geteuid() == 0 {
		cmd.Path, cmd.Dir = program, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: UserID, Gid: UserID}}
	}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", program, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func unpack(t *testing.T, img v1.Image) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(img)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 && h.Name != "var/lib/weir" && h.Name != "var/lib/weir/" {
			t.Errorf("%s belongs to user %d, expected root", h.Name, h.Uid)
		}
		path := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, h.FileInfo().Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}
