package critest_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// node is a fake runtime with one running pod, "web-node", with the container
// "web".
type node struct {
	*critest.Fake
	*cri.Client
	pod                *runtimeapi.PodSandboxConfig
	sandbox, container string
}

func inNode(t *testing.T, test func(t *testing.T, n *node)) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		n := &node{Fake: f, Client: f.Client(t), pod: podConfig("uid-1", "web-node", 0)}
		var err error
		if n.sandbox, err = n.RunPodSandbox(t.Context(), n.pod, ""); err != nil {
			t.Fatal(err)
		}
		n.container = n.start(t, "web", 0)
		test(t, n)
	})
}

func (n *node) create(ctx context.Context, name string, attempt uint32) (string, error) {
	return n.CreateContainer(ctx, n.sandbox, containerConfig(n.pod, name, attempt), n.pod)
}

func (n *node) start(t *testing.T, name string, attempt uint32) string {
	t.Helper()
	id, err := n.create(t.Context(), name, attempt)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestFaultBeforeAndAfter(t *testing.T) {
	refused := critest.Err(codes.Internal, "refused")
	for _, c := range []struct {
		name   string
		fault  critest.Fault
		effect bool
		class  error
	}{
		{"before", critest.Fault{Before: refused}, false, nil},
		{"after", critest.Fault{After: refused}, true, nil},
		{"disconnect", critest.Fault{Disconnect: true}, false, cri.ErrUnavailable},
		{"disconnect after", critest.Fault{DisconnectAfter: true}, true, cri.ErrUnavailable},
		{"hang", critest.Fault{Hang: true}, false, cri.ErrTimeout},
		{"hang after", critest.Fault{HangAfter: true}, true, cri.ErrTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			inNode(t, func(t *testing.T, n *node) {
				i := n.Inject("CreateContainer", c.fault)
				_, err := n.create(t.Context(), "more", 0)
				if err == nil || (c.class != nil && !errors.Is(err, c.class)) {
					t.Errorf("error: %v", err)
				}
				if _, there := n.Fake.Newest("more"); there != c.effect {
					t.Errorf("the call took effect: %t", there)
				}
				if i.Hits() != 1 {
					t.Errorf("%d hits", i.Hits())
				}
				// The fault was for one call. The next call fails
				// because the object exists.
				if _, err := n.create(t.Context(), "more", 0); errors.Is(err, cri.ErrExists) != c.effect ||
					(err != nil) != c.effect {
					t.Errorf("the next call: %v", err)
				}
			})
		})
	}
}

// TestLate simulates a runtime that performs a call after its caller has gone.
func TestLate(t *testing.T) {
	inNode(t, func(t *testing.T, n *node) {
		i := n.Inject("CreateContainer", critest.Fault{Late: true})
		if _, err := n.create(t.Context(), "late", 0); !errors.Is(err, cri.ErrTimeout) {
			t.Fatal(err)
		}
		if _, there := n.Fake.Newest("late"); there {
			t.Fatal("the call took effect too early")
		}
		i.Release()
		n.Until(t, "the late effect", func() bool { _, there := n.Fake.Newest("late"); return there })
	})
}

func TestHangUntilReleased(t *testing.T) {
	inNode(t, func(t *testing.T, n *node) {
		i := n.Inject("StopContainer", critest.Fault{Hang: true})
		done := make(chan error)
		go func() { done <- n.StopContainer(t.Context(), n.container, time.Second) }()
		<-i.Reached()
		synctest.Wait()
		if n.Running() != 1 {
			t.Error("it was stopped while the call hung")
		}
		i.Release()
		if err := <-done; err != nil || n.Running() != 0 {
			t.Errorf("after the release: %v, %d run", err, n.Running())
		}
	})
}

func TestWhatFaultsHit(t *testing.T) {
	inNode(t, func(t *testing.T, n *node) {
		refused := critest.Err(codes.Internal, "refused")
		n.Inject("StartContainer", critest.Fault{Container: "other", Times: -1, Before: refused})
		n.start(t, "mine", 0)
		id, _ := n.create(t.Context(), "other", 0)
		for range 3 {
			if err := n.StartContainer(t.Context(), id); err == nil {
				t.Error("the named container was started")
			}
		}
		skip := n.Inject("Version", critest.Fault{Skip: 2, Times: 2, Before: refused})
		var got []bool
		for range 6 {
			_, err := n.Version(t.Context())
			got = append(got, err == nil)
		}
		if want := []bool{true, true, false, false, true, true}; !slices.Equal(got, want) || skip.Hits() != 2 {
			t.Errorf("skip 2, times 2: %v", got)
		}
		n.Inject("PullImage", critest.Fault{Image: "bad", Times: -1, Before: refused})
		if _, err := n.PullImage(t.Context(), "good", nil); err != nil {
			t.Error(err)
		}
		if _, err := n.PullImage(t.Context(), "docker.io/library/bad:latest", nil); err == nil {
			t.Error("the named image was pulled")
		}
		n.Inject("StopPodSandbox", critest.Fault{Pod: "web-node", Before: refused})
		if err := n.StopPodSandbox(t.Context(), n.sandbox); err == nil {
			t.Error("the named pod's sandbox was stopped")
		}
		all := n.Inject("*", critest.Fault{Times: -1, Before: refused})
		if _, err := n.List(t.Context()); err == nil {
			t.Error("a list while every call fails")
		}
		all.Remove()
		if _, err := n.List(t.Context()); err != nil {
			t.Error(err)
		}
		n.Latency("Version", 300*time.Millisecond)
		start := time.Now()
		if _, err := n.Version(t.Context()); err != nil || time.Since(start) != 300*time.Millisecond {
			t.Errorf("latency: %v %v", err, time.Since(start))
		}
	})
}

func TestStaleLists(t *testing.T) {
	inNode(t, func(t *testing.T, n *node) {
		n.StaleLists(2)
		n.Exit("web", 1)
		state := func() cri.State {
			o, err := n.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return o.Own[0].Containers[0].State
		}
		got := []cri.State{state(), state(), state()}
		if want := []cri.State{cri.StateRunning, cri.StateRunning, cri.StateExited}; !slices.Equal(got, want) {
			t.Errorf("two stale lists: %v", got)
		}
		n.StaleLists(-1)
		n.EndPod("uid-1")
		for range 5 {
			if state() != cri.StateExited {
				t.Error("a list is not stale")
			}
		}
		n.FreshLists()
		if o, err := n.List(t.Context()); err != nil || len(o.Own) != 0 {
			t.Errorf("fresh: %+v %v", o, err)
		}
	})
}

func TestDroppedAndDoubledEvents(t *testing.T) {
	inNode(t, func(t *testing.T, n *node) {
		n.SetEvents(true)
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		names := map[cri.EventKind]string{cri.EventCreated: "created", cri.EventStarted: "started",
			cri.EventStopped: "stopped", cri.EventDeleted: "deleted"}
		go func() { ended <- n.Events(ctx, func(e cri.Event) { got = append(got, names[e.Kind]) }) }()
		synctest.Wait()
		n.DropEvents(1)
		n.DoubleEvents(1)
		id := n.start(t, "more", 0)
		if err := n.RemoveContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if want := "started started stopped deleted"; strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
		n.SetEvents(false)
		if err := <-ended; err == nil {
			t.Error("the stream continues")
		}
		cancel()
	})
}

func TestDownUpAndReboot(t *testing.T) {
	inNode(t, func(t *testing.T, n *node) {
		n.Down()
		n.Exit("web", 4)
		if _, err := n.Version(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("down: %v", err)
		}
		n.Up()
		time.Sleep(time.Second) // fake time: the client's back-off
		s, err := n.PodStatus(t.Context(), "uid-1")
		if err != nil || s.Newest("web").ExitCode != 4 {
			t.Errorf("up: %+v %v", s, err)
		}
		n.start(t, "again", 0)
		n.Reboot()
		s, err = n.PodStatus(t.Context(), "uid-1")
		if err != nil || s.Sandboxes[0].Ready || s.Newest("again").ExitCode != 255 || s.Newest("again").Reason != "Unknown" ||
			s.Newest("web").ExitCode != 4 {
			t.Errorf("reboot: %+v %v", s, err)
		}
		if n.Running() != 0 || n.Ready() != 0 {
			t.Errorf("after a reboot %d run and %d are ready", n.Running(), n.Ready())
		}
	})
}

func TestLoseAndKillSandboxes(t *testing.T) {
	inNode(t, func(t *testing.T, n *node) {
		if n.KillSandboxes("web-node") != 1 || n.Ready() != 0 || n.Running() != 1 {
			t.Error("the sandbox's end was not reported")
		}
		if n.Lose("web") != 1 {
			t.Error("nothing was lost")
		}
		s, err := n.PodStatus(t.Context(), "uid-1")
		if err != nil || s.Newest("web").State != cri.StateUnknown {
			t.Errorf("lost: %+v %v", s, err)
		}
		if err := n.StopContainer(t.Context(), n.container, 2*time.Second); err != nil {
			t.Error(err)
		}
		if c, _ := n.Fake.Newest("web"); c.ExitCode != 137 {
			t.Errorf("stopped: %+v", c)
		}
	})
}

func TestServeUnix(t *testing.T) {
	f := critest.New(t)
	path := filepath.Join(t.TempDir(), "cri.sock")
	for range 2 { // the second replaces the first
		if err := f.ServeUnix(path); err != nil {
			t.Fatal(err)
		}
		c, err := cri.Dial(cri.Options{Endpoint: path})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Version(t.Context()); err != nil {
			t.Error(err)
		}
		_ = c.Close()
	}
}
