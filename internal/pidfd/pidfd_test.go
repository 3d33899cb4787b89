package pidfd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The end of a process is noticed, also one before Wait.
func TestWait(t *testing.T) {
	cmd := exec.Command("cat")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	open := func() *Process {
		p, err := Open(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	p := open()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := open().Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a process that runs has ended: %v", err)
	}
	_ = input.Close()
	done := make(chan error)
	go func() { done <- p.Wait(t.Context()) }()
	_ = cmd.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Errorf("after its end: %v", err)
	}
	if _, err := Open(cmd.Process.Pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a process that has ended: %v", err)
	}
}
