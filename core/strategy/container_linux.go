package strategy

import (
	"io/fs"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// credentialsOf asks the kernel who is at the other end of a connection: whoever
// listened there.
func credentialsOf(conn *net.UnixConn) (peerID, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peerID{}, err
	}
	var who *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return peerID{}, err
	}
	if failed != nil {
		return peerID{}, failed
	}
	return peerID{known: true, pid: int(who.Pid), uid: int(who.Uid)}, nil
}

// ownerOf is the user that a file belongs to.
func ownerOf(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
