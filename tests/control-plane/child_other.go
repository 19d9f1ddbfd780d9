//go:build !linux

package main

import (
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// parentEnv tells a child which descriptor ends when its parent does.
const parentEnv = "CONTROL_PLANE_PARENT_FD"

// lifeline is a pipe into which nothing is ever written: the children hold the
// reading end, and read end of file once this process is gone. (Programs that
// are not ours, kwok among them, do not look at it.)
var lifeline = sync.OnceValues(func() (*os.File, *os.File) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil
	}
	return read, write
})

func bindToParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if read, _ := lifeline(); read != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, read)
		if cmd.Env == nil {
			cmd.Env = os.Environ()
		}
		// ExtraFiles start at descriptor 3 (os/exec).
		cmd.Env = append(cmd.Env, parentEnv+"="+strconv.Itoa(2+len(cmd.ExtraFiles)))
	}
}

// dieWithParent ends this process when the one that started it has ended.
func dieWithParent() {
	fd, err := strconv.Atoi(os.Getenv(parentEnv))
	if err != nil {
		return
	}
	os.Unsetenv(parentEnv)
	parent := os.NewFile(uintptr(fd), "parent")
	go func() {
		_, _ = parent.Read(make([]byte, 1))
		os.Exit(1)
	}()
}
