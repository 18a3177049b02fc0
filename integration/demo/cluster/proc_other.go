//go:build !linux

package main

import "syscall"

// dieWithParent: the closed standard input ends those children that look at it.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
