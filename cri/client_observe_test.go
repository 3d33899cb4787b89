package cri_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

func TestObserveCalls(t *testing.T) {
	f := critest.New(t)
	var mu sync.Mutex
	var observed []string
	options := f.Options()
	options.Observe = func(method string, took time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, cri.ErrUnimplemented):
			method += " missing"
		case err != nil:
			method += " failed"
		}
		if took < 0 || took > time.Minute {
			t.Errorf("%s took %v", method, took)
		}
		observed = append(observed, method)
	}
	c, err := cri.Dial(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Inject("Version", critest.Fault{Before: critest.Err(codes.Internal, "no")})
	if _, err := c.Version(t.Context()); err == nil {
		t.Error("the fault was not observed")
	}
	f.Inject("Version", critest.Fault{Before: critest.Err(codes.Unimplemented, "no")})
	if _, err := c.Version(t.Context()); err == nil {
		t.Error("the missing call was not observed")
	}
	if want := []string{"ListContainers", "ListPodSandbox", "Version failed", "Version missing"}; !slices.Equal(observed, want) {
		t.Errorf("observed %q, want %q", observed, want)
	}
}
