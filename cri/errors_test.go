package cri_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

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
		{critest.Err(codes.Unavailable, "starting"), cri.ErrUnavailable,
			"failed to start container web: container runtime at unix:///run/critest.sock is not answering: starting"},
		{critest.Err(codes.Canceled, "context canceled"), cri.ErrUnavailable,
			"failed to start container web: context canceled"},
		{critest.Err(codes.DeadlineExceeded, "failed to stop: context deadline exceeded"), cri.ErrTimeout,
			"failed to start container web: failed to stop: context deadline exceeded"},
		{critest.Err(codes.DeadlineExceeded, "context deadline exceeded"), cri.ErrTimeout,
			"failed to start container web: container runtime at unix:///run/critest.sock did not answer within 2m0s"},
		{critest.Err(codes.Unimplemented, "unknown method"), cri.ErrUnimplemented,
			"failed to start container web: unknown method"},
		{critest.Err(codes.AlreadyExists, "there"), cri.ErrExists, "failed to start container web: there"},
		{critest.Err(codes.Unknown, `failed to reserve container name "a": name "a" is reserved for "b"`), cri.ErrExists,
			`failed to start container web: failed to reserve container name "a": name "a" is reserved for "b"`},
		{critest.Err(codes.FailedPrecondition, `name "a" is reserved for "b"`), cri.ErrExists,
			`failed to start container web: name "a" is reserved for "b"`},
		{critest.Err(codes.FailedPrecondition, "container is not running"), nil,
			"failed to start container web: container is not running"},
		{critest.Err(codes.Unknown, "OCI runtime create failed"), nil,
			"failed to start container web: OCI runtime create failed"},
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
			// cluster and httpapi know only this.
			if got := errors.Is(err, errors.ErrUnsupported); got != (c.class == cri.ErrUnimplemented) {
				t.Errorf("%v: is unsupported: %t", err, got)
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
		if err := c.StopContainer(ctx, "web", 0); !errors.Is(err, why) {
			t.Errorf("cancelled with a cause: %v", err)
		}

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.StopContainer(ctx, "web", 0); !errors.Is(err, context.DeadlineExceeded) ||
			!errors.Is(err, cri.ErrTimeout) {
			t.Errorf("the caller's deadline: %v", err)
		}
	})
}

// A runtime that is interrupted amid one of these calls leaves processes and cgroups
// that no list shows.
func TestCallsThatCreateOrRemoveOutliveTheirCaller(t *testing.T) {
	for method, call := range map[string]func(context.Context, *cri.Client) error{
		"RunPodSandbox": func(ctx context.Context, c *cri.Client) error {
			_, err := c.RunPodSandbox(ctx,
				&runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "default", Uid: "u"}},
				"")
			return err
		},
		"CreateContainer": func(ctx context.Context, c *cri.Client) error {
			_, err := c.CreateContainer(ctx, "sandbox",
				&runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "web"}}, nil)
			return err
		},
		"StartContainer":   func(ctx context.Context, c *cri.Client) error { return c.StartContainer(ctx, "web") },
		"StopPodSandbox":   func(ctx context.Context, c *cri.Client) error { return c.StopPodSandbox(ctx, "sandbox") },
		"RemoveContainer":  func(ctx context.Context, c *cri.Client) error { return c.RemoveContainer(ctx, "web") },
		"RemovePodSandbox": func(ctx context.Context, c *cri.Client) error { return c.RemovePodSandbox(ctx, "sandbox") },
	} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := critest.New(t)
				c := f.Client(t)
				hold := f.Inject(method, critest.Fault{Hang: true, Before: errors.New("the runtime's answer")})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				time.AfterFunc(5*time.Second, hold.Release)
				began := time.Now()
				if err := call(ctx, c); err == nil || errors.Is(err, context.Canceled) || time.Since(began) != 5*time.Second {
					t.Errorf("after %s: %v, want the runtime's answer after 5s", time.Since(began), err)
				}
				if err := call(ctx, c); !errors.Is(err, context.Canceled) || hold.Hits() != 1 {
					t.Errorf("a call whose caller had given up before: %v, made %d times", err, hold.Hits())
				}
			})
		})
	}
}
