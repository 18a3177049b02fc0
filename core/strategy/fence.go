package strategy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/weir-project/weir/core/strategy/sandbox"
)

// Fence says what keeps a strategy from the rest of the machine.
type Fence struct {
	// Isolation is "process", "container", or empty for a built-in in our own process.
	Isolation string `json:"isolation,omitempty"`
	// Landlock is the version of its interface that holds, 0 = none; Seccomp says whether
	// a filter of system calls does. Both are of a process only.
	Landlock int  `json:"landlock,omitempty"`
	Seccomp  bool `json:"seccomp,omitempty"`
	// Whole says that nothing is missing that a strategy without trust needs; Missing
	// says what is.
	Whole   bool   `json:"whole"`
	Missing string `json:"missing,omitempty"`
}

// Isolations.
const (
	inProcess   = "process"
	inContainer = "container"
)

// Ceilings of every process, beside those of its spec.
const (
	maxFiles   = 256
	maxThreads = 512
	maxEntries = 1000 // in its own folder
	niceness   = 5
	// dataRoom is how much more than its memory limit a process may map: run times map
	// ahead of what they use. It bounds what can be taken between two looks.
	dataRoom = 512 << 20
)

// fenceOf is the fence that this kernel has for a spec, and an error where that is not
// enough for it.
func fenceOf(spec Spec, kernel *sandbox.Kernel) (Fence, error) {
	if kernel == nil {
		detected := sandbox.Detect()
		kernel = &detected
	}
	f := Fence{Isolation: inProcess, Landlock: kernel.Landlock, Seccomp: kernel.Seccomp}
	f.Whole, f.Missing = kernel.Whole()
	return f, f.check(spec)
}

// check is an error where a fence is not enough for a spec.
func (f Fence) check(spec Spec) error {
	switch {
	case f.Whole:
		return nil
	case spec.RequireSandbox:
		return fmt.Errorf("refused: %s, and requireSandbox is set", f.Missing)
	case !spec.AllowUnsandboxed:
		return fmt.Errorf("refused: %s. It runs in a container (isolation: container), or, if you trust it with our user's rights, with allowUnsandboxed: true", f.Missing)
	}
	return nil
}

// fenced is the command that runs a strategy's program in its own folder, behind as
// much of a fence as there is.
func fenced(spec Spec, img *image, dir string, fence Fence) (*exec.Cmd, error) {
	args := append([]string{spec.Path}, spec.Args...)
	if !sandbox.Possible {
		cmd := exec.Command(img.path)
		cmd.Args, cmd.Dir = args, dir
		return cmd, nil
	}
	p := sandbox.Policy{Dir: dir, Read: img.needs, Use: sandbox.Kernel{Landlock: fence.Landlock, Seccomp: fence.Seccomp},
		Ceilings: sandbox.Ceilings{Files: maxFiles, Nice: niceness}}
	if spec.MemoryLimit > 0 && !raceDetector {
		p.Ceilings.Data = spec.MemoryLimit + dataRoom
	}
	if img.file == nil {
		p.Path = img.path
	}
	cmd, err := sandbox.Command(p, img.file, args)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	cmd.Dir = dir
	return cmd, nil
}

// parents are the folders above a path, and above what it leads to where there are
// symbolic links on the way.
func parents(path string) []string {
	var out []string
	add := func(p string) {
		for dir := filepath.Dir(p); ; dir = filepath.Dir(dir) {
			out = append(out, dir)
			if dir == filepath.Dir(dir) {
				return
			}
		}
	}
	add(path)
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		add(real)
	}
	return out
}

// trusted is an error where others can change what is at a path, so that nobody knows
// what it will be when it is opened. What is pinned is known by its content.
func trusted(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("opening the strategy's executable: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("%s has mode %s: everybody may change it; pin it (sha256) or take that right away", path, info.Mode())
	}
	for _, dir := range parents(path) {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("looking at the strategy's folder: %w", err)
		}
		if info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("%s has mode %s: everybody may put another file in the place of %s; pin it (sha256) or take that right away", dir, info.Mode(), path)
		}
	}
	return nil
}
