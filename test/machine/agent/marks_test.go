package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPrintMarks(t *testing.T) {
	proc := t.TempDir()
	for pid, p := range map[string]struct{ cmdline, namespace string }{
		"1":  {"/sbin/init\x00", "pid:[1]"},
		"20": {"sh\x00-c\x00echo mark=no\x00mark=web=1\x00", "pid:[2]"},
		"21": {"sh\x00-c\x00echo mark=no\x00mark=web=1\x00", "pid:[2]"}, // a fork
		"30": {"sh\x00-c\x00true\x00mark=web=2\x00", "pid:[3]"},
		"40": {"sh\x00-c\x00true\x00mark=gone=1\x00", ""}, // ends meanwhile
	} {
		dir := filepath.Join(proc, pid)
		if err := os.MkdirAll(filepath.Join(dir, "ns"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cmdline"), []byte(p.cmdline), 0o600); err != nil {
			t.Fatal(err)
		}
		if p.namespace != "" {
			if err := os.Symlink(p.namespace, filepath.Join(dir, "ns/pid")); err != nil {
				t.Fatal(err)
			}
		}
	}
	var out strings.Builder
	if err := printMarks(&out, proc); err != nil {
		t.Fatal(err)
	}
	if want := "pid:[2] mark=web=1\npid:[3] mark=web=2\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestReadMarked(t *testing.T) {
	proc := t.TempDir()
	for pid, cmdline := range map[string]string{"1": "/sbin/init\x00", "20": "sh\x00mark=web=1\x00",
		"30": "sh\x00mark=other=1\x00"} {
		if err := os.MkdirAll(filepath.Join(proc, pid, "root/config"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"cmdline": cmdline, "root/config/value": "of " + pid} {
			if err := os.WriteFile(filepath.Join(proc, pid, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	var out strings.Builder
	if err := readMarked(&out, proc, "other", "/config/value"); err != nil || out.String() != "of 30" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := readMarked(&out, proc, "gone", "/config/value"); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("%v, want that there is no process of the pod", err)
	}
	if err := readMarked(&out, proc, "web", "/none"); err == nil {
		t.Error("no error for a file that does not exist")
	}
}
