package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// child is a process that this one started and will not outlive it.
type child struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has been reaped

	expendable bool // its end is nobody's failure; belongs to the plane's lock
}

// spawner starts every child on one OS thread that never ends: Linux sends the
// parent-death signal when the *thread* that forked ends (prctl(2),
// PR_SET_PDEATHSIG), and Go may end any other thread.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range work {
			start()
		}
	}()
	return work
})

// startChild starts cmd with stdout and stderr going to logPath.
func startChild(name, logPath string, cmd *exec.Cmd) (*child, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	bindToParent(cmd)

	started := make(chan error)
	spawner() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c := &child{name: name, logPath: logPath, cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(c.done)
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// waitFor reports whether the process has ended within d.
func (c *child) waitFor(d time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-time.After(d):
		return false
	}
}

// kill ends the process with SIGKILL, which a stopped process obeys too.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended already
	c.waitFor(5 * time.Second)
}

// failure describes a child that ended when it should not have.
func (c *child) failure() error {
	return fmt.Errorf("%s ended (%s), its last words in %s:\n%s", c.name, c.cmd.ProcessState, c.logPath, tail(c.logPath, 2048))
}

// tail returns the last max bytes of a file, from the start of a line.
func tail(path string, max int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	start := size - max
	if start < 0 {
		start = 0
	}
	text := make([]byte, size-start)
	n, _ := f.ReadAt(text, start)
	text = text[:n]
	if i := bytes.IndexByte(text, '\n'); start > 0 && i >= 0 {
		text = text[i+1:]
	}
	return text
}
