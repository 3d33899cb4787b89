package cri

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lateContext reports a deadline in the past before it ends.
type lateContext struct {
	context.Context
	due time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.due, true }

// A runtime that responds at the caller's deadline, just before the caller's own
// timer fires, has not exceeded the client's timeout.
func TestCallerDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		late := lateContext{ctx, time.Now()}
		err := new(Client).wrapError(late, operation{"stop container", "a"}, time.Hour,
			status.Error(codes.DeadlineExceeded, "context deadline exceeded"))
		if late.Err() == nil || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrTimeout) {
			t.Errorf("got %v, and the caller's context reports %v", err, late.Err())
		}
	})
}
