package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/status"
)

// replacedDisk is a disk that a test replaces while the daemon runs.
type replacedDisk struct{ statefile.Operations }

// imagesHarness is a Controller with one manifest, whose pods become what the test reports.
type imagesHarness struct {
	t       *testing.T
	dir     string
	ctl     *Controller
	stop    func()
	updates chan manifest.PodUpdate

	mu      sync.Mutex
	current *v1.Pod       // the last pod that was added
	refuses *status.Cause // of preparations
	// after is the wait of a preparation that is refused, slow how long one takes. prepared
	// counts them.
	after, slow time.Duration
	prepared    int
	// forgotten are the arguments of ForgetPrepared.
	forgotten []types.UID
	// disk is that of the daemon, with the operations of the test; nil are the real ones.
	disk replacedDisk
	// log is that of the next daemon; nil is none.
	log *slog.Logger
}

func (h *imagesHarness) Updates() <-chan manifest.PodUpdate { return h.updates }
func (h *imagesHarness) Sources() []manifest.Source         { return []manifest.Source{manifest.SourceFile} }
func (h *imagesHarness) FaultFor(types.UID) string          { return "" }
func (h *imagesHarness) WasRead(types.UID) bool             { return false }
func (h *imagesHarness) Subscribe() (<-chan struct{}, func()) {
	return make(chan struct{}), func() {}
}
func (h *imagesHarness) Recheck(*v1.Pod, *v1.Pod) (*status.Cause, time.Duration) {
	return nil, 0
}
func (h *imagesHarness) ForgetPrepared(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgotten = append(h.forgotten, uid)
}

func (h *imagesHarness) ShuttingDown() bool { return false }
func (h *imagesHarness) RuntimeAway() bool  { return false }
func (h *imagesHarness) Prepare(context.Context, *v1.Pod, *v1.Pod, func(status.Cause)) (*status.Cause, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.prepared++
	if slow := h.slow; slow > 0 {
		h.mu.Unlock()
		time.Sleep(slow)
		h.mu.Lock()
	}
	return h.refuses, h.after
}

func (h *imagesHarness) setSlow(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow = d
}

func (h *imagesHarness) attempts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.prepared
}

// refuse makes preparations fail for a cause; nil ends that.
func (h *imagesHarness) refuse(cause *status.Cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses = cause
}

// start starts a daemon and delivers the manifest.
func (h *imagesHarness) start(pod *v1.Pod) {
	h.t.Helper()
	h.begin()
	h.updates <- manifest.PodUpdate{Op: manifest.Add, Source: manifest.SourceFile, Pods: []*v1.Pod{pod}}
	synctest.Wait()
}

// begin starts a daemon whose source has not delivered.
func (h *imagesHarness) begin() {
	h.updates = make(chan manifest.PodUpdate)
	if h.disk.Operations == nil {
		h.disk.Operations = statefile.OS{}
	}
	h.ctl = New(Options{Pods: h, Dir: h.dir, Disk: statefile.Disk{Operations: &h.disk}, Log: h.log})
	ctx, cancel := context.WithCancel(h.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.ctl.Run(ctx, h) })
	wg.Go(func() {
		for {
			select {
			case u := <-h.ctl.Updates():
				if len(u.Pods) == 1 && u.Op != manifest.Remove {
					h.mu.Lock()
					h.current = u.Pods[0]
					h.mu.Unlock()
				}
			case <-ctx.Done():
				return
			}
		}
	})
	h.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
}

// edit replaces the manifest.
func (h *imagesHarness) edit(before, after *v1.Pod) {
	h.updates <- manifest.PodUpdate{Op: manifest.Remove, Source: manifest.SourceFile, Pods: []*v1.Pod{before},
		Replaced: map[types.UID]bool{before.UID: true}, Successors: map[types.UID]bool{before.UID: true}}
	h.updates <- manifest.PodUpdate{Op: manifest.Add, Source: manifest.SourceFile, Pods: []*v1.Pod{after}}
	synctest.Wait()
}

// observe publishes the status of the pod in effect.
func (h *imagesHarness) observe(ready bool, restarts int32, waiting string) {
	begun := metav1.Now()
	st := &v1.PodStatus{Phase: v1.PodRunning, StartTime: &begun,
		ContainerStatuses: []v1.ContainerStatus{{Name: "web", RestartCount: restarts}}}
	if c := &st.ContainerStatuses[0]; waiting == "" {
		c.State.Running = &v1.ContainerStateRunning{}
	} else {
		c.State.Waiting = &v1.ContainerStateWaiting{Reason: waiting}
	}
	if restarts > 0 || waiting != "" {
		st.ContainerStatuses[0].LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: 1}
	}
	value := v1.ConditionFalse
	if ready {
		value = v1.ConditionTrue
	}
	st.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: value}}
	h.ctl.Observe(h.pod().UID, st)
	synctest.Wait()
}

func (h *imagesHarness) pod() *v1.Pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// image returns the image and pull policy that run.
func (h *imagesHarness) image() string {
	c := &h.pod().Spec.Containers[0]
	return c.Image + " " + string(c.ImagePullPolicy)
}

func (h *imagesHarness) target() ImageTarget {
	h.t.Helper()
	targets := h.ctl.AutoUpdated()
	if len(targets) != 1 {
		h.t.Fatalf("%d targets", len(targets))
	}
	return targets[0]
}

func manifestPod(uid types.UID, image string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-n1", UID: uid, Annotations: map[string]string{
			podinfo.AnnotationAutoUpdate: podinfo.AutoUpdateRegistry, podinfo.AnnotationSource: "file",
			podinfo.AnnotationHash: string(uid),
		}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web", Image: image, ImagePullPolicy: v1.PullAlways},
			{Name: "log", Image: "log:1", ImagePullPolicy: v1.PullAlways}}},
	}
}

const (
	tag    = "r.test/web:latest"
	oldest = tag + "@sha256:a1"
	newer  = tag + "@sha256:a2"
)

// images runs a test with a pod that is Ready.
func images(t *testing.T, f func(t *testing.T, h *imagesHarness, pod *v1.Pod)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &imagesHarness{t: t, dir: t.TempDir(), after: time.Minute}
		pod := manifestPod("u1", tag)
		h.start(pod)
		h.observe(true, 0, "")
		f(t, h, pod)
		h.stop()
	})
}

func web(image string) map[string]string { return map[string]string{"web": image} }

// An update runs by digest and without another pull, and holds over restarts of the daemon
// until the manifest changes.
func TestUpdateImages(t *testing.T) {
	images(t, func(t *testing.T, h *imagesHarness, pod *v1.Pod) {
		if got := h.target(); got.Busy != "" || got.Images != nil || got.UID != "u1" {
			t.Fatalf("%+v", got)
		}
		if err := h.ctl.UpdateImages("default/web-n1", web(newer), web(oldest)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := h.image(); got != newer+" IfNotPresent" || h.pod().Spec.Containers[1].ImagePullPolicy != v1.PullAlways ||
			h.pod().UID == "u1" {
			t.Fatalf("runs %s, %s", got, h.pod().UID)
		}
		if got := h.target(); got.Busy == "" || !maps.Equal(got.Images, web(newer)) {
			t.Errorf("before it is Ready: %+v", got)
		}
		h.observe(true, 0, "")
		time.Sleep(minReady)
		synctest.Wait()
		if got := h.target(); got.Busy != "" || !maps.Equal(got.Images, web(newer)) || got.UID != h.pod().UID ||
			got.Manifest.UID != "u1" {
			t.Errorf("when it was Ready: %+v", got)
		}
		time.Sleep(time.Minute)
		h.stop()
		h.start(pod)
		if got := h.image(); got != newer+" IfNotPresent" {
			t.Errorf("after a restart of the daemon: %s", got)
		}
		h.observe(true, 0, "")
		h.edit(pod, manifestPod("u2", "r.test/web:2"))
		if got, target := h.image(), h.target(); got != "r.test/web:2 Always" || target.Images != nil {
			t.Errorf("after an edit: %s, %+v", got, target)
		}
	})
}

// What does not become Ready in 5 minutes, or crashes again and again although it is Ready
// for a moment, is replaced by the exact image that ran before, not by what the tag means now.
// Until then the daemon may have been restarted.
func TestUpdatedImageIsRolledBack(t *testing.T) {
	for name, fails := range map[string]func(h *imagesHarness){
		"not ready": func(h *imagesHarness) {
			h.observe(false, 0, "")
			time.Sleep(imageRollbackAfter + time.Second)
		},
		"crashes": func(h *imagesHarness) {
			for restarts := range int32(4) {
				h.observe(true, restarts, "")
				time.Sleep(time.Second)
				h.observe(false, restarts, "CrashLoopBackOff")
				time.Sleep(time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			images(t, func(t *testing.T, h *imagesHarness, pod *v1.Pod) {
				h.refuse(&status.Cause{Reason: "ErrImagePull", Message: "no route to host"})
				if err := h.ctl.UpdateImages("default/web-n1", web(newer), web(oldest)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := h.target(); got.Busy != "" || !maps.Equal(got.Candidate, web(newer)) || h.image() != tag+" Always" {
					t.Fatalf("while it is prepared: %+v, runs %s", got, h.image())
				}
				time.Sleep(2 * time.Second)
				h.stop()
				h.start(pod)
				h.observe(true, 0, "")
				h.refuse(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				if h.image() != newer+" IfNotPresent" {
					t.Fatalf("runs %s", h.image())
				}
				fails(h)
				synctest.Wait()
				if h.image() != oldest+" IfNotPresent" {
					t.Fatalf("runs %s, %+v", h.image(), h.ctl.Rollouts())
				}
				h.observe(true, 0, "")
				if got := h.target(); got.Busy != "" || !maps.Equal(got.Rejected, web(newer)) ||
					!maps.Equal(got.Images, web(oldest)) {
					t.Errorf("%+v", got)
				}
				if err := h.ctl.UpdateImages("default/web-n1", web(newer), web(oldest)); !errors.Is(err, ErrRejected) {
					t.Errorf("the same image again: %v", err)
				}
				if err := h.ctl.UpdateImages("default/web-n1", web(oldest), nil); err != nil || h.target().Rejected != nil ||
					h.image() != oldest+" IfNotPresent" {
					t.Errorf("the tag is back: %v, %+v", err, h.target())
				}
				if err := h.ctl.UpdateImages("default/web-n1", web(tag+"@sha256:a3"), web(oldest)); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if !strings.Contains(h.image(), "a3") {
					t.Errorf("runs %s", h.image())
				}
			})
		})
	}
}

// A further update supersedes one that is prepared, and the images in effect cancel it. What
// else a rollout does makes the pod busy.
func TestUpdateImagesWhileARolloutIsInProgress(t *testing.T) {
	images(t, func(t *testing.T, h *imagesHarness, pod *v1.Pod) {
		h.refuse(&status.Cause{Reason: "ErrImagePull", Message: "not found"})
		for _, image := range []string{newer, tag + "@sha256:a3"} {
			if err := h.ctl.UpdateImages("default/web-n1", web(image), web(oldest)); err != nil {
				t.Fatal(err)
			}
			if got := h.target(); !maps.Equal(got.Candidate, web(image)) {
				t.Errorf("%+v", got)
			}
		}
		if err := h.ctl.UpdateImages("default/web-n1", nil, nil); err != nil {
			t.Fatal(err)
		}
		if got := h.target(); got.Candidate != nil || got.Busy != "" || h.image() != tag+" Always" || h.pod().UID != "u1" {
			t.Errorf("cancelled: %+v", got)
		}
		h.edit(pod, manifestPod("u2", "r.test/web:2"))
		if got := h.target(); !strings.Contains(got.Busy, "another revision of its manifest") || got.Candidate != nil {
			t.Errorf("an edit: %+v", got)
		}
		if err := h.ctl.UpdateImages("default/none", nil, nil); !errors.Is(err, ErrUnknownPod) {
			t.Error(err)
		}
		other := manifestPod("u3", tag)
		other.Name, other.Annotations = "other-n1", map[string]string{podinfo.AnnotationSource: "file"}
		h.updates <- manifest.PodUpdate{Op: manifest.Add, Source: manifest.SourceFile, Pods: []*v1.Pod{other}}
		synctest.Wait()
		if targets := fmt.Sprint(len(h.ctl.AutoUpdated())); targets != "1" {
			t.Errorf("%s targets", targets)
		}
	})
}
