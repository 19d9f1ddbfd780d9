package main

import (
	"os"
	"runtime"
	"syscall"
)

// The main goroutine stays on the process's first thread, for takeHostname:
// the parent-death signal belongs to a thread, and only the first one has it.
func init() { runtime.LockOSThread() }

// takeHostname gives this process a UTS namespace of its own in which the host
// is called name, keeping its process id. It reports false where that is not
// allowed (it needs CAP_SYS_ADMIN). Call it from the main goroutine.
func takeHostname(name string) (bool, error) {
	if host, err := os.Hostname(); err == nil && host == name {
		return true, nil
	}
	// A namespace is left per thread and Go has several by now, so the thread
	// that left executes this program anew: then there is only that one.
	if err := syscall.Unshare(syscall.CLONE_NEWUTS); err != nil {
		return false, nil
	}
	if err := syscall.Sethostname([]byte(name)); err != nil {
		return false, err
	}
	return true, syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}
