package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	hasX32    = false
)

// forbiddenHere is empty: this architecture has no older calls.
var forbiddenHere []uint32
