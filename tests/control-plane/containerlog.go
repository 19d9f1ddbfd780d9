package main

import (
	"bytes"
	"os"
	"sync"
	"time"
)

// containerLog writes to stdout and, line by line in the format of the
// container runtime interface ("TIME stdout F text"), to a file that kwok
// serves as a pod's log. Nothing is buffered: the process may be killed.
type containerLog struct {
	mu      sync.Mutex
	stdout  *os.File
	file    *os.File // nil: stdout only
	partial []byte
}

// Write implements io.Writer.
func (l *containerLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		now := time.Now().UTC().Format(time.RFC3339Nano)
		l.partial = append(l.partial, text...)
		var lines []byte
		for {
			end := bytes.IndexByte(l.partial, '\n')
			if end < 0 {
				break
			}
			lines = append(lines, now...)
			lines = append(lines, " stdout F "...)
			lines = append(lines, l.partial[:end+1]...)
			l.partial = l.partial[end+1:]
		}
		if _, err := l.file.Write(lines); err != nil {
			return 0, err
		}
	}
	return l.stdout.Write(text)
}
