package supervisor

import (
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/podinputs"
)

// logLines returns the lines of the log from Info on that contain a text.
func (d *daemon) logLines(text string) []string {
	var lines []string
	for line := range strings.Lines(d.log.String()) {
		if strings.Contains(line, text) && !strings.Contains(line, "level=DEBUG") {
			lines = append(lines, line)
		}
	}
	return lines
}

// logsOnce fails unless exactly one line contains a text.
func (d *daemon) logsOnce(t *testing.T, text string) {
	t.Helper()
	if lines := d.logLines(text); len(lines) != 1 {
		t.Errorf("%q is logged %d times:\n%s", text, len(lines), strings.Join(lines, ""))
	}
}

func TestEditIsNotLoggedAsRemoval(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		edited := testPod("web", "u2", "r2")
		edited.Annotations[podinfo.AnnotationSource] = string(file)
		d.config.updates <- manifest.PodUpdate{
			Op: manifest.Remove, Source: file, Pods: []*v1.Pod{testPod("web", "u1", "r1")},
			Replaced: map[types.UID]bool{"u1": true}, Successors: map[types.UID]bool{"u1": true},
		}
		d.config.updates <- manifest.PodUpdate{Op: manifest.Add, Source: file, Pods: []*v1.Pod{edited}}
		b.runs("u2")
		d.logsOnce(t, `msg="Pod replaced" reason="another revision is in effect"`)
		d.logsOnce(t, "Stopping container app: another revision is in effect")
		d.logsOnce(t, "Pod terminated")
		if lines := d.logLines("its manifest was removed"); len(lines) > 0 {
			t.Error(lines)
		}
		d.config.updates <- manifest.PodUpdate{Op: manifest.Remove, Source: file, Pods: []*v1.Pod{edited}}
		b.gone("u2")
		d.logsOnce(t, `msg="Pod removed" reason="its manifest was removed"`)
		d.logsOnce(t, "Stopping container app: its manifest was removed")
		if lines := d.logLines("Pod terminated"); len(lines) != 2 {
			t.Error(lines)
		}
	})
}

// A pod of an incomplete source comes from the checkpoint only if its own
// manifest could not be read.
func TestRestoredPodsAreLogged(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.updates <- manifest.PodUpdate{
			Op: manifest.Restore, Source: file, Pods: []*v1.Pod{testPod("new", "u1", "r1"), testPod("old", "u2", "r1")},
			FromCheckpoint: map[types.UID]bool{"u2": true},
		}
		b.runs("u1")
		b.runs("u2")
		d.logsOnce(t, `msg="Pod added, its source is not complete" pod=default/new`)
		d.logsOnce(t, `msg="Pod restored from the checkpoint" pod=default/old`)
	})
}

// An API pod has no manifest on the node whose change could be logged.
func TestRemovalFromTheClusterIsLogged(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start(manifest.SourceAPI)
		one, two := boundPod("web", "u1"), boundPod("web", "u2")
		d.config.deliver(manifest.SourceAPI, one)
		b.runs("u1")
		d.config.updates <- manifest.PodUpdate{Op: manifest.Remove, Source: manifest.SourceAPI, Pods: []*v1.Pod{one},
			Replaced: map[types.UID]bool{"u1": true}}
		d.config.update(manifest.Add, two)
		b.runs("u2")
		d.logsOnce(t, `msg="Pod replaced" reason="the cluster has a new pod of this name"`)
		d.logsOnce(t, "Stopping container app: the cluster has a new pod of this name")
		d.config.update(manifest.Remove, two)
		b.gone("u2")
		d.logsOnce(t, `msg="Pod removed" reason="the pod was removed from the cluster"`)
		d.logsOnce(t, "Stopping container app: the pod was removed from the cluster")
		if lines := d.logLines("manifest"); len(lines) > 0 {
			t.Error(lines)
		}
	})
}

func TestContainerExitsAreLoggedOnce(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		pod := testPod("web", "u1", "r1")
		d.config.deliver(file, pod)
		b.runs("u1")
		b.after(5 * time.Second)
		b.fake.Exit("app", 3)
		b.after(5 * time.Minute)
		d.logsOnce(t, "Container exited")
		d.logsOnce(t, "container=app exitCode=3 reason=Error ran=5s")
		// The next daemon finds that termination and does not log it
		// again.
		b.kill()
		d = b.restart(pod)
		b.after(5 * time.Minute)
		if lines := d.logLines("exited"); len(lines) > 0 {
			t.Error(lines)
		}
	})
}

func TestCompletedPodIsLogged(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		pod := testPod("job", "u1", "r1")
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		d.config.deliver(file, pod)
		b.runs("u1")
		b.fake.Exit("app", 0)
		b.after(time.Minute)
		d.logsOnce(t, "container=app exitCode=0 reason=Completed")
		d.logsOnce(t, "Pod terminated")
		d.logsOnce(t, "phase=Succeeded")
		b.kill()
		d = b.restart(pod)
		b.after(5 * time.Minute)
		if lines := d.logLines("exited"); len(lines) > 0 {
			t.Error(lines)
		}
	})
}

func TestVolumeThatCannotBeSetUpIsShown(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		pod := testPod("web", "u1", "r1")
		kind := v1.HostPathDirectory
		pod.Spec.Volumes = []v1.Volume{{Name: "data",
			VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: b.path("nowhere"), Type: &kind}}}}
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		d.config.deliver(file, pod)
		b.after(time.Minute)
		if st := d.status("u1"); st.Reason != podinputs.ReasonFailedMount ||
			!strings.Contains(st.Message, "nowhere does not exist") {
			t.Errorf("status is %q %q", st.Reason, st.Message)
		}
		d.logsOnce(t, "nowhere does not exist")
	})
}

// Another podstead's pod from the same manifest has the same UID: its remains
// hold the names in the runtime even when nothing of it runs. They are left alone and
// keep no pod down.
func TestDeadSandboxesOfAnotherPodsteadKeepNoPodDown(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Put(critest.Pod{UID: "u1", Name: "web", Namespace: "default", Instance: "foreign",
			Containers: []string{"app"}})
		b.fake.StopPod("u1")
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
	})
}

func TestRecordThatCannotBeSavedIsLoggedOnce(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		if err := os.RemoveAll(b.path("records")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(b.path("records"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.after(20 * time.Minute)
		d.logsOnce(t, "Failed to save pod record")
	})
}
