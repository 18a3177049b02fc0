package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// WholeABI is the first version of Landlock that fences in files, TCP, abstract
// sockets and signals.
const WholeABI = 6

// Kernel is what the kernel has to fence processes in with.
type Kernel struct {
	Landlock int  // version of its interface, 0 = none
	Seccomp  bool // filters of system calls, for this architecture
}

// Whole says whether nothing is missing; why names what is.
func (k Kernel) Whole() (ok bool, why string) {
	switch {
	case k.Landlock == 0:
		return false, "this kernel has no Landlock: files that our user can read are open to it"
	case k.Landlock < WholeABI:
		return false, fmt.Sprintf("this kernel has version %d of Landlock, a whole fence needs %d (Linux 6.12)", k.Landlock, WholeABI)
	case !k.Seccomp:
		return false, "there is no seccomp filter: sockets other than TCP and processes of its own are open to it"
	}
	return true, ""
}

// Mask is a kernel that has less, for tests and for a look at what would hold elsewhere.
func (k Kernel) Mask(landlock int, seccomp bool) Kernel {
	return Kernel{Landlock: min(k.Landlock, max(0, landlock)), Seccomp: k.Seccomp && seccomp}
}

// Ceilings bound what one process may take. Zero means no ceiling of that kind,
// except for file size and core dumps, which are always zero.
type Ceilings struct {
	Data  int64 `json:"data,omitempty"`  // bytes of private writable memory, mapped or not (RLIMIT_DATA)
	Files int   `json:"files,omitempty"` // descriptors
	Nice  int   `json:"nice,omitempty"`  // how far it gives way to others where processors are short, 0 to 19
}

// Policy is what a process may do.
type Policy struct {
	// Dir is its own folder, absolute: it may make, read and remove files and sockets
	// there, and nothing else anywhere. Files there stay empty.
	Dir string `json:"dir"`
	// Read are files and folders that it may read and execute, such as a loader and its
	// libraries; those that do not exist are left out.
	Read []string `json:"read,omitempty"`
	// Use of the kernel's fences; a fence that is named and cannot be put up is an error.
	Use      Kernel   `json:"use"`
	Ceilings Ceilings `json:"ceilings"`

	Path   string `json:"path,omitempty"` // of the program, where it has no descriptor
	Parent int    `json:"parent"`         // process that starts it; filled in by Command
}

// trampoline is the zeroth argument that makes our executable one.
const trampoline = "weir-strategy-sandbox"

// Command makes the command that runs a program under a policy: from image, an open
// executable, or, where that is nil, from policy.Path. args has the program's zeroth
// argument first. The caller sets environment, folder, pipes and process attributes.
func Command(policy Policy, image *os.File, args []string) (*exec.Cmd, error) {
	policy.Parent = os.Getpid()
	text, err := json.Marshal(policy)
	if err != nil {
		return nil, fmt.Errorf("writing the policy: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Args = append([]string{trampoline, string(text)}, args...)
	if image != nil {
		cmd.ExtraFiles = []*os.File{image}
	}
	return cmd, nil
}
