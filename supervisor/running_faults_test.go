package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/probe"
)

// A volume that is no longer available blocks the next start of the container
// that mounts it, and no other container of a running pod.
func TestVolumeFaultInARunningPod(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		probes := &fakeProbes{changed: make(chan struct{}, 1)}
		b.sources = func(s *Sources) { s.Probes = probes }
		directory := b.path("data")
		if err := os.Mkdir(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		there := v1.HostPathDirectory
		pod := testPod("web", "u1", "r1")
		pod.Spec.Volumes = []v1.Volume{
			{Name: "data", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: directory, Type: &there}}}}
		reader := *pod.Spec.Containers[0].DeepCopy()
		reader.Name = "reader"
		reader.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		pod.Spec.Containers = append(pod.Spec.Containers, reader)
		d := b.start()
		d.config.deliver(file, pod)
		b.until(time.Minute, "both run", func() bool { return b.running("u1") == 2 })
		if err := os.Remove(directory); err != nil {
			t.Fatal(err)
		}
		b.fake.Kill("app")
		b.until(time.Minute, "the container without the volume is restarted",
			func() bool { return b.running("u1") == 2 && b.fake.Starts("u1", "app") == 2 })
		app, _ := b.fake.Newest("app")
		probes.set("u1", probe.Results{Failed: map[string]probe.Kind{app.ID: probe.Liveness}})
		b.until(2*time.Minute, "a failed probe restarts it",
			func() bool { return b.running("u1") == 2 && b.fake.Starts("u1", "app") == 3 })
		if n := b.fake.Starts("u1", "reader"); n != 1 {
			t.Errorf("the other container was started %d times", n)
		}
		b.fake.Kill("reader")
		b.until(2*time.Minute, "the container with the volume waits", func() bool {
			for _, c := range d.status("u1").ContainerStatuses {
				if c.Name == "reader" && c.State.Waiting != nil &&
					strings.Contains(c.State.Waiting.Message, `MountVolume.SetUp failed for volume "data" : `) {
					return c.State.Waiting.Reason == "CreateContainerConfigError"
				}
			}
			return false
		})
		if err := os.Mkdir(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		b.until(5*time.Minute, "it runs again when the volume is back", func() bool { return b.running("u1") == 2 })
	})
}

// A running pod is still monitored when its user IDs can no longer be
// determined: a container that fails its probe is killed, and its restart
// waits.
func TestUserNamespaceFaultInARunningPod(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		probes := &fakeProbes{changed: make(chan struct{}, 1)}
		b.sources = func(s *Sources) { s.Probes = probes }
		b.fake.SetHandlers(&runtimeapi.RuntimeHandler{Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}})
		own := false
		pod := testPod("web", "u1", "r1")
		pod.Spec.HostUsers = &own
		d := b.start()
		d.config.deliver(file, pod)
		b.runs("u1")
		files, err := filepath.Glob(b.path("pods/u1/*user*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("files of user IDs: %q, %v", files, err)
		}
		whole, err := os.ReadFile(files[0])
		if err == nil {
			err = os.WriteFile(files[0], []byte("torn"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		app, _ := b.fake.Newest("app")
		probes.set("u1", probe.Results{Failed: map[string]probe.Kind{app.ID: probe.Liveness}})
		b.until(2*time.Minute, "it is ended", func() bool { return b.running("u1") == 0 })
		b.after(time.Minute)
		if n := b.fake.Starts("u1", "app"); n != 1 {
			t.Errorf("it was started %d times, without a range of user IDs", n)
		}
		if err := os.WriteFile(files[0], whole, 0o600); err != nil {
			t.Fatal(err)
		}
		b.runs("u1")
	})
}
