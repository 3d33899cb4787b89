package testbed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Isolate(BuildPause)
	os.Exit(m.Run())
}

// TestBarePod checks each runtime with plain CRI calls: a pod starts, has its own process and
// network, survives the death of the runtime, and leaves nothing behind.
func TestBarePod(t *testing.T) {
	r, err := StartRegistry()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			rt, err := StartRuntime(ctx, kind, r)
			if err != nil {
				t.Fatal(err)
			}
			if err := rt.CRI.Pull(ctx, BusyboxImage); err != nil {
				t.Fatal(err)
			}
			p := &BarePod{Name: "bare", Namespace: "default", UID: "bare", LogDir: filepath.Join(rt.Dir(), "logs"),
				Command: []string{"sleep", "1000"}}
			if err := rt.CRI.Start(ctx, p); err != nil {
				t.Fatal(err)
			}
			pid, err := rt.CRI.Pid(ctx, p.Container)
			if err != nil {
				t.Fatal(err)
			}
			// The runtime reports the pid slightly before the process has executed its
			// command.
			for {
				cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if err == nil && strings.HasPrefix(string(cmdline), "sleep\x001000") {
					break
				}
				if err != nil || ctx.Err() != nil {
					t.Fatalf("pid %d runs %q (%v), want sleep 1000", pid, cmdline, err)
				}
				time.Sleep(10 * time.Millisecond)
			}
			out, err := rt.CRI.Exec(ctx, p.Container, "ip", "addr", "show", "eth0")
			if err != nil || !strings.Contains(out, "10.211.") {
				t.Fatalf("eth0 of the pod: %v\n%s", err, out)
			}
			rt.Kill()
			if err := rt.Start(ctx); err != nil {
				t.Fatal(err)
			}
			again, err := rt.CRI.Pid(ctx, p.Container)
			if err != nil || again != pid {
				t.Fatalf("pid after the runtime's death is %d (%v), want %d", again, err, pid)
			}
			if err := rt.Close(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
				t.Errorf("pid %d is still there after Close", pid)
			}
		})
	}
}
