package cri_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

func TestErrorClasses(t *testing.T) {
	classes := []error{cri.ErrNotFound, cri.ErrUnavailable, cri.ErrTimeout, cri.ErrUnimplemented, cri.ErrExists}
	for _, c := range []struct {
		err   error
		class error // nil: none
		text  string
	}{
		{critest.Err(codes.NotFound, "gone"), cri.ErrNotFound, "failed to start container web: gone"},
		{critest.Err(codes.Unavailable, "starting"), cri.ErrUnavailable, "failed to start container web: container runtime at unix:///run/critest.sock is not answering: starting"},
		{critest.Err(codes.Canceled, "context canceled"), cri.ErrUnavailable, "failed to start container web: context canceled"},
		{critest.Err(codes.DeadlineExceeded, "failed to stop: context deadline exceeded"), cri.ErrTimeout, "failed to start container web: failed to stop: context deadline exceeded"},
		{critest.Err(codes.DeadlineExceeded, "context deadline exceeded"), cri.ErrTimeout, "failed to start container web: container runtime at unix:///run/critest.sock did not answer within 2m0s"},
		{critest.Err(codes.Unimplemented, "unknown method"), cri.ErrUnimplemented, "failed to start container web: unknown method"},
		{critest.Err(codes.AlreadyExists, "there"), cri.ErrExists, "failed to start container web: there"},
		{critest.Err(codes.Unknown, `failed to reserve container name "a": name "a" is reserved for "b"`), cri.ErrExists, `failed to start container web: failed to reserve container name "a": name "a" is reserved for "b"`},
		{critest.Err(codes.FailedPrecondition, `name "a" is reserved for "b"`), cri.ErrExists, `failed to start container web: name "a" is reserved for "b"`},
		{critest.Err(codes.FailedPrecondition, "container is not running"), nil, "failed to start container web: container is not running"},
		{critest.Err(codes.Unknown, "OCI runtime create failed"), nil, "failed to start container web: OCI runtime create failed"},
		{critest.Err(codes.Internal, "oops"), nil, "failed to start container web: oops"},
		{critest.Err(codes.ResourceExhausted, "too large"), nil, "failed to start container web: too large"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := critest.New(t)
			f.Inject("StartContainer", critest.Fault{Before: c.err})
			err := f.Client(t).StartContainer(t.Context(), "web")
			if err == nil || err.Error() != c.text {
				t.Errorf("got  %v\nwant %s", err, c.text)
			}
			for _, class := range classes {
				if errors.Is(err, class) != (class == c.class) {
					t.Errorf("%v: is %q: %t", err, class, class != c.class)
				}
			}
			if status.Code(err) != status.Code(c.err) {
				t.Errorf("%v: code %v", err, status.Code(err))
			}
			var e *cri.Error
			if !errors.As(err, &e) || e.Op != "start container web" || "failed to "+e.Op+": "+e.Detail != c.text {
				t.Errorf("parts: %+v", e)
			}
		})
	}
}

func TestCallerCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		f.Inject("*", critest.Fault{Times: -1, Hang: true})

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := c.List(ctx)
		if !errors.Is(err, context.Canceled) || errors.Is(err, cri.ErrTimeout) || errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("cancelled: %v", err)
		}
		if want := "failed to list containers: context canceled"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}

		why := errors.New("the pod is going")
		ctx, cancelCause := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancelCause(why) })
		if err := c.StartContainer(ctx, "web"); !errors.Is(err, why) {
			t.Errorf("cancelled with a cause: %v", err)
		}

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.StartContainer(ctx, "web"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cri.ErrTimeout) {
			t.Errorf("the caller's deadline: %v", err)
		}
	})
}
