package cri

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestLogEnd(t *testing.T) {
	const head = "2026-11-21T22:00:00.000000001Z "
	var hundred, last strings.Builder
	for i := range 100 {
		fmt.Fprintf(&hundred, "%sstdout F line %d\n", head, i)
		if i >= 20 {
			fmt.Fprintf(&last, "line %d\n", i)
		}
	}
	long := strings.Repeat("ä", 3000)
	for name, tc := range map[string]struct{ log, want string }{
		"empty":         {"", ""},
		"both streams":  {head + "stdout F one\n" + head + "stderr F two\n", "one\ntwo\n"},
		"pieces":        {head + "stdout P on\n" + head + "stdout P \n" + head + "stdout F e\n", "one\n"},
		"an empty line": {head + "stdout F \n" + head + "stdout F\n", "\n\n"},
		"torn":          {"garbage\n" + head + "stdout F one\n" + head + "std", "one\n"},
		"JSON":          {`{"log":"one\n","stream":"stdout"}` + "\n{broken\n", "one\n"},
		"many lines":    {hundred.String(), last.String()},
		"much":          {head + "stdout F " + long + "\n", strings.Repeat("ä", 1023) + "\n"},
		"very much": {strings.Repeat(head+"stdout F "+strings.Repeat("x", 1000)+"\n", 200) + head + "stdout F end\n",
			strings.Repeat("x", 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "0.log")
			if err := os.WriteFile(file, []byte(tc.log), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := logTail(file)
			if err != nil || len(got) > 2048 || !utf8.ValidString(got) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if name == "very much" {
				if !strings.HasSuffix(got, tc.want+"\nend\n") {
					t.Errorf("ends with %q", got[len(got)-20:])
				}
			} else if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if _, err := logTail(t.TempDir()); err == nil {
		t.Error("a directory was read")
	}
}

// The runtime may write the last lines after it has reported the exit.
func TestLogTailWaitsForTheRuntime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "0.log")
	runtime, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	const last = "2026-01-31T12:00:00.000000005Z stderr F fatal\n"
	time.AfterFunc(endTimeout/4, func() {
		_, _ = runtime.WriteString(last)
		_ = runtime.Close()
	})
	if got, err := logTail(file); err != nil || got != "fatal\n" {
		t.Errorf("got %q, %v", got, err)
	}
}
