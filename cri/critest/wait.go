package critest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// patience is how long Until waits: in a bubble that costs nothing and is reached
// only when everything is blocked, and it is long enough on a slow host.
const patience = 30 * time.Second

// Wait waits until cond holds. It checks at once, and again after each change of
// the fake and each call to it; cond may use all of the fake's methods.
func (f *Fake) Wait(ctx context.Context, cond func() bool) error {
	changed, unsubscribe := f.changed.Subscribe()
	defer unsubscribe()
	for {
		f.mu.Lock()
		closed := f.closed
		f.mu.Unlock()
		if cond() {
			return nil
		}
		if closed {
			return fmt.Errorf("the fake was closed")
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Until is Wait for a test: if cond is not true within 30 seconds, the test fails
// with the fake's state.
func (f *Fake) Until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.Wait(ctx, cond); err != nil {
		t.Fatalf("waited for %s: %v\n%s", what, err, f.Dump())
	}
}

// Dump returns the fake's state for error messages.
func (f *Fake) Dump() string {
	var b strings.Builder
	containers := f.Containers()
	for _, s := range f.Sandboxes() {
		fmt.Fprintf(&b, "sandbox %.12s %s/%s uid=%s attempt=%d ready=%t\n", s.ID, s.Namespace, s.Name, s.UID, s.Attempt,
			s.Ready)
		for _, c := range containers {
			if c.SandboxID == s.ID {
				fmt.Fprintf(&b, "  container %.12s %s attempt=%d %s exit=%d %s\n", c.ID, c.Name,
					c.Config.GetMetadata().GetAttempt(), c.State, c.ExitCode, c.Reason)
			}
		}
	}
	if b.Len() == 0 {
		return "nothing is there"
	}
	return b.String()
}
