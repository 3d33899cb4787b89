package critest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// TestViolations performs each forbidden action.
func TestViolations(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, n *node) error
		want string // empty: allowed
	}{
		"nothing": {func(*testing.T, *node) error { return nil }, ""},
		"second sandbox": {func(t *testing.T, n *node) error {
			_, err := n.RunPodSandbox(t.Context(), podConfig("uid-1", "web-node", 1), "")
			return err
		}, "2 ready sandboxes of default/web-node"},
		"second sandbox after the first": {func(t *testing.T, n *node) error {
			if err := n.StopPodSandbox(t.Context(), n.sandbox); err != nil {
				return err
			}
			_, err := n.RunPodSandbox(t.Context(), podConfig("uid-1", "web-node", 1), "")
			return err
		}, ""},
		"second instance": {func(t *testing.T, n *node) error {
			n.start(t, "web", 1)
			return nil
		}, "2 running instances of container web"},
		"second instance after the first": {func(t *testing.T, n *node) error {
			n.Exit("web", 0)
			n.start(t, "web", 1)
			return nil
		}, ""},
		"second revision": {func(t *testing.T, n *node) error {
			_, err := n.RunPodSandbox(t.Context(), podConfig("uid-2", "web-node", 0), "")
			return err
		}, "2 revisions of default/web-node"},
		"second revision while a container is left": {func(t *testing.T, n *node) error {
			n.KillSandboxes("web-node")
			_, err := n.RunPodSandbox(t.Context(), podConfig("uid-2", "web-node", 0), "")
			return err
		}, "2 revisions of default/web-node"},
		"the same name elsewhere": {func(t *testing.T, n *node) error {
			config := podConfig("uid-2", "web-node", 0)
			config.Metadata.Namespace = "other"
			_, err := n.RunPodSandbox(t.Context(), config, "")
			return err
		}, ""},
		"another client's pod": {func(t *testing.T, n *node) error {
			return n.StopPodSandbox(t.Context(), n.Put(critest.Pod{UID: "uid-3", Name: "etcd", Namespace: "kube-system"}))
		}, "StopPodSandbox on kube-system/etcd"},
		"another client's pod that its owner ends": {func(t *testing.T, n *node) error {
			n.Put(critest.Pod{UID: "uid-3", Name: "etcd", Namespace: "kube-system", Containers: []string{"etcd"}})
			n.EndPod("uid-3")
			return nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inNode(t, func(t *testing.T, n *node) {
				if err := c.do(t, n); err != nil {
					t.Fatal(err)
				}
				switch got := n.Violations(); {
				case c.want == "" && len(got) > 0:
					t.Errorf("violations: %v", got)
				case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
					t.Errorf("violations: %v, want %q", got, c.want)
				}
			})
		})
	}
}

func TestRecord(t *testing.T) {
	inNode(t, func(t *testing.T, n *node) {
		n.Exit("web", 1)
		n.start(t, "web", 1)
		if err := n.StopContainer(t.Context(), n.container, time.Second); err != nil {
			t.Fatal(err)
		}
		var methods []string
		for _, w := range n.Writes() {
			methods = append(methods, w.Method)
			if w.Pod != "web-node" || (w.Container != "web" && w.Method != "RunPodSandbox") {
				t.Errorf("write: %+v", w)
			}
		}
		want := []string{"RunPodSandbox", "CreateContainer", "StartContainer", "CreateContainer", "StartContainer",
			"StopContainer"}
		if !slices.Equal(methods, want) {
			t.Errorf("writes: %v", methods)
		}
		if n.Starts("uid-1", "web") != 2 || n.Calls("StartContainer") != 2 || n.RunningOf("web-node") != 1 {
			t.Errorf("%d starts, %d calls, %d run", n.Starts("uid-1", "web"), n.Calls("StartContainer"), n.RunningOf("web-node"))
		}
		p := n.Peaks()
		if p.ReadySandboxes["uid-1"] != 1 || p.RunningInstances["uid-1/web"] != 1 || p.Revisions["default/web-node"] != 1 {
			t.Errorf("peaks: %+v", p)
		}
		if !strings.Contains(n.Dump(), "default/web-node uid=uid-1 attempt=0 ready=true") {
			t.Error(n.Dump())
		}
	})
}

func TestImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		ctx := t.Context()
		f.SetImages("busybox:1.36")
		f.SetPullable("nginx", "quay.io/a/b:1")
		for ref, there := range map[string]bool{
			"busybox:1.36": true, "docker.io/library/busybox:1.36": true, "busybox": false, "nginx": false,
		} {
			if i, err := c.ImageStatus(ctx, ref); err != nil || (i != nil) != there {
				t.Errorf("%s is there: %t %v", ref, i != nil, err)
			}
		}
		if _, err := c.PullImage(ctx, "missing", nil); !errors.Is(err, cri.ErrNotFound) {
			t.Errorf("pull of an image that is in no registry: %v", err)
		}
		hold := f.HoldPull("nginx")
		pulled := make(chan error, 2)
		for range 2 {
			go func() { _, err := c.PullImage(ctx, "docker.io/library/nginx:latest", nil); pulled <- err }()
		}
		f.Until(t, "two pulls", func() bool { return f.Pulling("nginx") == 2 })
		if _, err := c.PullImage(ctx, "quay.io/a/b:1", nil); err != nil {
			t.Errorf("another image is delayed too: %v", err)
		}
		hold.Release()
		if err := errors.Join(<-pulled, <-pulled); err != nil || f.Pulling("nginx") != 0 {
			t.Errorf("pulls: %v, %d in flight", err, f.Pulling("nginx"))
		}
		image, err := c.ImageStatus(ctx, "nginx")
		if err != nil || image == nil {
			t.Fatal(err)
		}
		for _, ref := range []string{image.Id, image.RepoDigests[0]} {
			if i, err := c.ImageStatus(ctx, ref); i == nil || err != nil {
				t.Errorf("%s: %v", ref, err)
			}
		}
		if images, err := c.ListImages(ctx); err != nil || len(images) != 3 || len(f.Images()) != 3 {
			t.Errorf("images: %v %v", images, err)
		}
		if fs, err := c.ImageFsInfo(ctx); err != nil || fs.ImageFilesystems[0].UsedBytes.Value != 3<<20 {
			t.Errorf("file system: %v %v", fs, err)
		}
		if err := c.RemoveImage(ctx, image.Id); err != nil || len(f.Images()) != 2 {
			t.Errorf("removal: %v %v", err, f.Images())
		}
	})
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.Wait(ctx, func() bool { return f.Running() == 1 }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited for an event that never happens: %v", err)
		}
		waited := make(chan error)
		go func() { waited <- f.Wait(t.Context(), func() bool { return f.Calls("Version") == 1 }) }()
		synctest.Wait()
		if _, err := c.Version(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-waited; err != nil {
			t.Error(err)
		}
		go func() { waited <- f.Wait(t.Context(), func() bool { return false }) }()
		synctest.Wait()
		f.Close()
		if err := <-waited; err == nil {
			t.Error("a wait outlives the fake")
		}
	})
}
