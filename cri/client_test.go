package cri_test

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

func TestEndpoint(t *testing.T) {
	for _, good := range []struct{ endpoint, want string }{
		{"unix:///run/containerd/containerd.sock", "unix:///run/containerd/containerd.sock"},
		{"/run/crio/crio.sock", "unix:///run/crio/crio.sock"},
		{"unix:////run//x.sock", "unix:///run/x.sock"},
		{"/run/a b%20?#.sock", "unix:///run/a b%20?#.sock"},
	} {
		c, err := cri.Dial(cri.Options{Endpoint: good.endpoint})
		if err != nil {
			t.Errorf("%q: %v", good.endpoint, err)
			continue
		}
		if c.Endpoint() != good.want {
			t.Errorf("%q became %q", good.endpoint, c.Endpoint())
		}
		_ = c.Close()
	}
	for _, bad := range []struct{ endpoint, why string }{
		{"", "is empty"},
		{"run/x.sock", "absolute path"},
		{"unix://run/x.sock", "absolute path"},
		{"unix:/run/x.sock", "absolute path"},
		{"tcp://127.0.0.1:1234", "only unix sockets"},
		{"npipe:////./pipe/x", "only unix sockets"},
		{"/" + strings.Repeat("x", 107), "108 bytes"},
		{"/run/\x00.sock", "NUL"},
	} {
		_, err := cri.Dial(cri.Options{Endpoint: bad.endpoint})
		if err == nil || !strings.Contains(err.Error(), bad.why) ||
			!strings.Contains(err.Error(), "unix:///run/containerd/containerd.sock") {
			t.Errorf("%q: %v", bad.endpoint, err)
		}
	}
}

// TestRealSocket uses a socket whose path a URL could not represent, and a
// runtime that goes away and comes back.
func TestRealSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%?#.sock")
	c, err := cri.Dial(cri.Options{Endpoint: path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.List(t.Context())
	if !errors.Is(err, cri.ErrUnavailable) {
		t.Fatalf("no socket: %v", err)
	}
	want := "failed to list containers: container runtime at unix://" + path + " is not answering: dial unix " + path +
		": connect: no such file or directory"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	f := critest.New(t)
	if err := f.ServeUnix(path); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		if _, err = c.Version(ctx); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond) // as often as a client would poll
	}
}

func TestRuntimeRestartIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		mustList(t, c)
		f.Down()
		for range 120 { // two minutes of relists
			if _, err := c.List(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
				t.Fatalf("a runtime that is down: %v", err)
			}
			time.Sleep(time.Second)
		}
		f.Up()
		up := time.Now()
		for {
			if _, err := c.List(t.Context()); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(up); took > 1100*time.Millisecond {
			t.Errorf("a restarted runtime was detected after %v", took)
		}
	})
}

func TestReadsAreRepeatedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		sandbox, _ := startPod(t, c, "uid-1", "web")

		// The connection died while it was idle.
		f.Disconnect()
		mustList(t, c)

		f.Inject("ListContainers", critest.Fault{Disconnect: true})
		before := f.Calls("ListContainers")
		mustList(t, c)
		if n := f.Calls("ListContainers") - before; n != 2 {
			t.Errorf("a list whose connection broke was tried %d times", n)
		}
		f.Inject("ListPodSandbox", critest.Fault{Times: 2, Before: critest.Err(codes.Unavailable, "starting")})
		if _, err := c.List(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("unavailable twice: %v", err)
		}
		f.Inject("ListPodSandbox", critest.Fault{Before: critest.Err(codes.Internal, "no")})
		before = f.Calls("ListPodSandbox")
		if _, err := c.List(t.Context()); err == nil || f.Calls("ListPodSandbox")-before != 1 {
			t.Errorf("a rejected call was retried: %v", err)
		}
		f.Inject("ImageStatus", critest.Fault{Disconnect: true})
		if _, err := c.ImageStatus(t.Context(), "busybox"); err != nil {
			t.Errorf("image status: %v", err)
		}
		_ = sandbox
	})
}

// TestWritesAreNeverRepeated breaks the connection of each modifying call,
// before and after its effect.
func TestWritesAreNeverRepeated(t *testing.T) {
	pod := podConfig("uid-2", "lost", 0)
	ctx := context.Background()
	for method, write := range map[string]func(c *cri.Client, sandbox, container string) error{
		"RunPodSandbox":    func(c *cri.Client, _, _ string) error { _, err := c.RunPodSandbox(ctx, pod, ""); return err },
		"StopPodSandbox":   func(c *cri.Client, s, _ string) error { return c.StopPodSandbox(ctx, s) },
		"RemovePodSandbox": func(c *cri.Client, s, _ string) error { return c.RemovePodSandbox(ctx, s) },
		"CreateContainer": func(c *cri.Client, s, _ string) error {
			_, err := c.CreateContainer(ctx, s, containerConfig(pod, "more", 0), pod)
			return err
		},
		"StartContainer":  func(c *cri.Client, _, k string) error { return c.StartContainer(ctx, k) },
		"StopContainer":   func(c *cri.Client, _, k string) error { return c.StopContainer(ctx, k, time.Second) },
		"RemoveContainer": func(c *cri.Client, _, k string) error { return c.RemoveContainer(ctx, k) },
		"PullImage":       func(c *cri.Client, _, _ string) error { _, err := c.PullImage(ctx, "busybox", nil); return err },
		"RemoveImage":     func(c *cri.Client, _, _ string) error { return c.RemoveImage(ctx, "busybox") },
		"ExecSync": func(c *cri.Client, _, k string) error {
			_,
				err := c.ExecSync(ctx, k, nil, time.Second)
			return err
		},
		"ReopenContainerLog": func(c *cri.Client, _, k string) error {
			return c.ReopenContainerLog(ctx, k)
		},
	} {
		for _, fault := range []critest.Fault{{Disconnect: true}, {DisconnectAfter: true}} {
			synctest.Test(t, func(t *testing.T) {
				f := critest.New(t)
				c := f.Client(t)
				sandbox, container := startPod(t, c, "uid-1", "web")
				if method == "StartContainer" {
					own := podConfig("uid-1", "web", 0)
					var err error
					if container, err = c.CreateContainer(ctx, sandbox, containerConfig(own, "fresh", 0), own); err != nil {
						t.Fatal(err)
					}
				}
				before := f.Calls(method)
				f.Inject(method, fault)
				err := write(c, sandbox, container)
				if !errors.Is(err, cri.ErrUnavailable) {
					t.Errorf("%s: %v", method, err)
				}
				if n := f.Calls(method) - before; n != 1 {
					t.Errorf("%s was called %d times", method, n)
				}
			})
		}
	}
}

// TestDeadlines makes each kind of call hang and measures how long it may take.
func TestDeadlines(t *testing.T) {
	const limit = 10 * time.Second
	for _, call := range []struct {
		method string
		want   time.Duration
		call   func(ctx context.Context, c *cri.Client, sandbox, container string) error
	}{
		{"Version", limit, func(ctx context.Context, c *cri.Client, _, _ string) error {
			_,
				err := c.Version(ctx)
			return err
		}},
		{"ListContainers", limit, func(ctx context.Context, c *cri.Client, _, _ string) error {
			_,
				err := c.List(ctx)
			return err
		}},
		{"RunPodSandbox", 2 * limit, func(ctx context.Context, c *cri.Client, _, _ string) error {
			_, err := c.RunPodSandbox(ctx, podConfig("u", "p", 0), "")
			return err
		}},
		{"StopContainer", 90*time.Second + limit, func(ctx context.Context, c *cri.Client, _, k string) error {
			return c.StopContainer(ctx, k, 90*time.Second)
		}},
		{"ExecSync", 18 * time.Second, func(ctx context.Context, c *cri.Client, _, k string) error {
			_, err := c.ExecSync(ctx, k, []string{"true"}, 3*time.Second)
			return err
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := critest.New(t)
			options := f.Options()
			options.RequestTimeout = limit
			c, err := cri.Dial(options)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			sandbox, container := startPod(t, c, "uid-1", "web")
			f.Inject(call.method, critest.Fault{Hang: true})
			start := time.Now()
			err = call.call(t.Context(), c, sandbox, container)
			if !errors.Is(err, cri.ErrTimeout) || !strings.Contains(err.Error(), "did not answer within "+call.want.String()) {
				t.Errorf("%s: %v", call.method, err)
			}
			if took := time.Since(start); took != call.want {
				t.Errorf("%s hung for %v, want %v", call.method, took, call.want)
			}
		})
	}
}

// The duration and the size of each successful pull are reported.
func TestPullsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		pulls := cri.NewObservedPulls(f.Client(t))
		var took []time.Duration
		var sizes []uint64
		pulls.OnMeasured(func(size uint64, d time.Duration) { sizes, took = append(sizes, size), append(took, d) })
		hold := f.HoldPull("big")
		time.AfterFunc(7*time.Second, hold.Release)
		ref, err := pulls.PullImage(t.Context(), "big", &runtimeapi.AuthConfig{})
		if err != nil {
			t.Fatal(err)
		}
		stored, _, err := pulls.StoredImage(t.Context(), ref)
		if err != nil || stored.Size == 0 || len(took) != 1 || took[0] != 7*time.Second || sizes[0] != stored.Size {
			t.Errorf("pulls took %v, sizes %v, want one of 7 s and %d (%v)", took, sizes, stored.Size, err)
		}
		f.SetPullable("other")
		if _, err := pulls.PullImage(t.Context(), "missing", &runtimeapi.AuthConfig{}); err == nil || len(took) != 1 {
			t.Errorf("a failed pull: %v, %v", err, took)
		}
	})
}

func TestCallsWithoutDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		_, container := startPod(t, c, "uid-1", "web")
		hold := f.HoldPull("big")
		time.AfterFunc(24*time.Hour, hold.Release)
		if ref, err := c.PullImage(t.Context(), "big", &runtimeapi.AuthConfig{}); err != nil ||
			!strings.HasPrefix(ref, "docker.io/library/big@sha256:") {
			t.Errorf("a pull that takes a day: %q %v", ref, err)
		}
		exec := f.Inject("ExecSync", critest.Fault{Hang: true})
		time.AfterFunc(24*time.Hour, exec.Release)
		if _, err := c.ExecSync(t.Context(), container, []string{"true"}, 0); err != nil {
			t.Errorf("an exec without a timeout: %v", err)
		}
		// The caller can still cancel a pull.
		f.HoldPull("bigger")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.PullImage(ctx, "bigger", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a pull that the caller cancelled: %v", err)
		}
	})
}

// TestBigMessages lists more than gRPC's default limit of 4 MiB.
func TestBigMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		for i := range 12 {
			f.Put(critest.Pod{
				UID: string(rune('a' + i)), Name: string(rune('a' + i)), Namespace: "default", Instance: critest.Instance,
				Annotations: map[string]string{"big": strings.Repeat("x", 1<<20)},
			})
		}
		if o := mustList(t, c); len(o.Own) != 12 {
			t.Errorf("%d pods", len(o.Own))
		}
	})
}

func TestStopAndRemoveIgnoreNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := critest.New(t).Client(t)
		for name, err := range map[string]error{
			"StopPodSandbox":   c.StopPodSandbox(t.Context(), "x"),
			"RemovePodSandbox": c.RemovePodSandbox(t.Context(), "x"),
			"StopContainer":    c.StopContainer(t.Context(), "x", time.Second),
			"RemoveContainer":  c.RemoveContainer(t.Context(), "x"),
			"RemoveImage":      c.RemoveImage(t.Context(), "x"),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := c.StartContainer(t.Context(), "x"); !errors.Is(err, cri.ErrNotFound) {
			t.Errorf("StartContainer: %v", err)
		}
	})
}

func TestRuntimeStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		s, err := c.RuntimeStatus(t.Context())
		if want := (cri.RuntimeStatus{RuntimeReady: true, NetworkReady: true}); err != nil || s != want {
			t.Errorf("ready: %+v %v", s, err)
		}
		f.SetNetworkReady("no CNI config in /etc/cni/net.d")
		s, err = c.RuntimeStatus(t.Context())
		if want := (cri.RuntimeStatus{RuntimeReady: true, NetworkMessage: "no CNI config in /etc/cni/net.d"}); err != nil ||
			s != want {
			t.Errorf("no network: %+v %v", s, err)
		}
		if _, err := c.RunPodSandbox(t.Context(), podConfig("u", "p", 0), ""); err == nil ||
			!strings.Contains(err.Error(), `failed to run pod sandbox default/p: failed to setup network`) {
			t.Errorf("sandbox without network: %v", err)
		}
		for _, driver := range []string{"systemd", "cgroupfs"} {
			f.SetCgroupDriver(driver)
			if got, err := c.CgroupDriver(t.Context()); err != nil || got != driver {
				t.Errorf("cgroup driver %s: %s %v", driver, got, err)
			}
		}
		// An older containerd reports it in its configuration.
		f.SetCgroupDriver("")
		for config, want := range map[string]string{
			"":                "",
			"[plugins]":       "",
			`{"registry":{}}`: "",
			`{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":true}},"kata":{"options":{}}}}}`:   "systemd",
			`{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":false}}}}}`:                        "cgroupfs",
			`{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":null},"kata":{"options":{"SystemdCgroup":true}}}}}`: "cgroupfs",
			`{"systemdCgroup":true,"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{}}}}`:                                    "systemd",
		} {
			f.SetConfig(config)
			if got, err := c.CgroupDriver(t.Context()); err != nil || got != want {
				t.Errorf("cgroup driver of %s: %q %v, want %q", config, got, err, want)
			}
		}
		for config, want := range map[string]cri.RuntimeConfig{
			"":          {},
			"[plugins]": {},
			`{"sandboxImage":"pause:3.8","cni":{"binDir":"/opt/cni/bin","confDir":"/etc/cni/net.d"}}`: {SandboxImage: "pause:3.8", CNIConfDir: "/etc/cni/net.d", CNIBinDirs: []string{"/opt/cni/bin"}},
			`{"cni":{"binDir":"/a","binDirs":["/b","/a"],"confDir":"/c"}}`: {CNIConfDir: "/c",
				CNIBinDirs: []string{"/b", "/a"}},
			`{"restrictOOMScoreAdj":false}`: {RestrictOOMScoreAdj: new(bool)},
			// Without the sandbox image, image garbage collection would remove it.
			`{"cni":{"binDirs":"/b","confDir":"/c"},"sandboxImage":"pause:3.8"}`: {SandboxImage: "pause:3.8", CNIConfDir: "/c"},
		} {
			f.SetConfig(config)
			if got, err := c.RuntimeConfig(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("reported by %s: %+v %v, want %+v", config, got, err, want)
			}
		}
		if v, err := c.Version(t.Context()); err != nil || v.APIVersion != "v1" || v.Name != "critest" {
			t.Errorf("version: %+v %v", v, err)
		}
	})
}
