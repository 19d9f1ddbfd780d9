//go:build !linux

package main

// takeHostname reports false: only Linux can name the host for one process.
func takeHostname(string) (bool, error) { return false, nil }
