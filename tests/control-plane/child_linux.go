package main

import (
	"os/exec"
	"syscall"
)

// bindToParent makes the kernel kill the child when this process ends, however
// it ends, and keeps a terminal's Ctrl-C, which goes to a whole process group,
// away from it.
func bindToParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// dieWithParent has nothing to do where bindToParent is enough.
func dieWithParent() {}
