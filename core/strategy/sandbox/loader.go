package sandbox

import (
	"bufio"
	"debug/elf"
	"io"
	"strings"
)

// libraries are where loaders look for shared libraries. There is nothing secret in
// them, and nothing that a program could not bring along itself.
var libraries = []string{"/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"}

// Needs lists what a program has to read beside itself to start: nothing for one that
// is linked statically, the shared libraries and their loader for others, and for a
// script its interpreter as well.
func Needs(program io.ReaderAt) []string {
	head := io.NewSectionReader(program, 0, 256)
	if line, _ := bufio.NewReader(head).ReadString('\n'); strings.HasPrefix(line, "#!") {
		return append(append([]string{}, libraries...), strings.Fields(line[2:] + " /bin/sh")[0], "/bin", "/usr/bin", "/usr/share")
	}
	file, err := elf.NewFile(program)
	if err != nil {
		return nil // the kernel will say what is wrong with it
	}
	defer func() { _ = file.Close() }() // it reads only, and closes nothing of the caller's
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return libraries
		}
	}
	return nil
}
