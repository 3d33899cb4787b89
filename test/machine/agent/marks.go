package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// printMarks prints the arguments that begin with "mark=" of all processes, each with the PID
// namespace of its process, once for each namespace. It is a command of the agent because the tests
// run it often, and a shell would start some processes for each one that it finds.
func printMarks(out io.Writer, proc string) error {
	dirs, err := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	if err != nil {
		return err
	}
	var lines []string
	for _, dir := range dirs {
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		for arg := range bytes.SplitSeq(cmdline, []byte{0}) {
			if !bytes.HasPrefix(arg, []byte("mark=")) {
				continue
			}
			if namespace, err := os.Readlink(filepath.Join(dir, "ns/pid")); err == nil {
				lines = append(lines, fmt.Sprintf("%s %s\n", namespace, arg))
			}
		}
	}
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		if _, err := io.WriteString(out, line); err != nil {
			return err
		}
	}
	return nil
}
