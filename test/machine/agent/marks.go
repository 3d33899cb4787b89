package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// printMarks prints the arguments that begin with "mark=" of all processes, each with the PID
// namespace of its process, once for each namespace.
func printMarks(out io.Writer, proc string) error {
	var lines []string
	err := eachMark(proc, func(dir, mark string) {
		if namespace, err := os.Readlink(filepath.Join(dir, "ns/pid")); err == nil {
			lines = append(lines, fmt.Sprintf("%s %s\n", namespace, mark))
		}
	})
	if err != nil {
		return err
	}
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		if _, err := io.WriteString(out, line); err != nil {
			return err
		}
	}
	return nil
}

// readMarked prints a file as the first process of a test pod sees it.
func readMarked(out io.Writer, proc, pod, path string) error {
	var text []byte
	result := errors.New("no process of the pod " + pod)
	err := eachMark(proc, func(dir, mark string) {
		if result != nil && strings.HasPrefix(mark, "mark="+pod+"=") {
			text, result = os.ReadFile(filepath.Join(dir, "root", path))
		}
	})
	if err = errors.Join(err, result); err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// eachMark calls a function for each argument of a process that begins with "mark=", with the
// directory of the process.
func eachMark(proc string, visit func(dir, mark string)) error {
	dirs, err := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		for arg := range bytes.SplitSeq(cmdline, []byte{0}) {
			if bytes.HasPrefix(arg, []byte("mark=")) {
				visit(dir, string(arg))
			}
		}
	}
	return nil
}
