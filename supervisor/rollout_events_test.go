package supervisor

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/supervisor/rollout"
	"github.com/podstead/podstead/supervisor/status"
)

// A revision that is held comes into effect when what it waits for arrives, though its
// back-off is at 5 minutes.
func TestHeldRevisionIsPreparedOnTheEvent(t *testing.T) {
	for name, c := range map[string]struct {
		// setup prepares the next daemon, and returns what makes the revision possible.
		setup func(b *supervisorHarness) (arrive func())
		edit  func(pod *v1.Pod)
		held  string
	}{
		"a ConfigMap": {func(b *supervisorHarness) func() {
			objects := withObjects(b)
			return func() { objects.store("default", "cm", map[string]string{"a": "1"}) }
		}, func(pod *v1.Pod) { pod.Spec.Containers[0].Env = objectPod("").Spec.Containers[0].Env }, "ConfigMap default/cm"},
		"a Secret with the login of the registry": {func(b *supervisorHarness) func() {
			objects := &secrets{all: map[string]*v1.Secret{}, changed: make(chan struct{}, 10)}
			b.sources = func(s *Sources) { s.Objects = objects }
			return func() {
				b.fake.SetPullable("img:1", "r.test/web:1")
				objects.store("login", "1", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey,
					`{"auths": {"r.test": {"username": "bob", "password": "x"}}}`)
			}
		}, func(pod *v1.Pod) {
			pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "login"}}
			pod.Spec.Containers[0].Image = "r.test/web:1"
		}, "r.test/web:1"},
		"an image that is loaded": {func(b *supervisorHarness) func() {
			return func() {
				b.fake.SetImages("img:1", "img:2")
				b.daemon.ImagesAdded()
			}
		}, func(pod *v1.Pod) { withImage(pod, "img:2") }, "img:2"},
		"an address of the node": {func(b *supervisorHarness) func() {
			ips := &fakeHostIPs{changed: make(chan struct{}, 1)}
			b.network.HostIPs = ips
			return func() { ips.set("192.0.2.1") }
		}, func(pod *v1.Pod) {
			pod.Spec.Containers[0].Env = []v1.EnvVar{
				{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.hostIP"}}}}
		}, "IP address"},
		"the end of pressure": {func(b *supervisorHarness) func() {
			closed := true
			b.gates = []Gate{func(pod *v1.Pod) *status.Cause {
				if closed && pod.UID == "u2" {
					return &status.Cause{Reason: "DiskPressure", Message: "the disk is full"}
				}
				return nil
			}}
			return func() { closed = false; b.daemon.RetryHeld() }
		}, func(*v1.Pod) {}, "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				b.fake.SetImages("img:1")
				b.fake.SetPullable("img:1")
				arrive := c.setup(b)
				d := b.start()
				d.config.deliver(file, testPod("web", "u1", "r1"))
				b.runs("u1")
				edited := testPod("web", "u2", "r2")
				c.edit(edited)
				d.config.deliver(file, edited)
				b.awaitHeld("u1", c.held)
				b.after(42 * time.Minute)
				b.only("u1", 1)
				arrive()
				if took := b.runs("u2"); took > 5*time.Second {
					t.Errorf("it came into effect %s after that", took)
				}
				b.gone("u1")
			})
		})
	}
}

// A revision whose images are pulled reserves nothing: admission is judged again before it
// replaces what runs, and it waits if others have taken the resources by then.
func TestAdmissionIsJudgedAgainAfterThePull(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		b.allocatable = cpus("4")
		sized := func(pod *v1.Pod, cpu string) *v1.Pod {
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
			return pod
		}
		d := b.start()
		first := sized(testPod("web", "u1", "r1"), "1")
		d.config.deliver(file, first)
		b.runs("u1")
		hold := b.fake.HoldPull("img:2")
		edited := sized(withImage(testPod("web", "u2", "r2"), "img:2"), "3")
		d.config.deliver(file, edited)
		b.awaitHeld("u1", "Pulling")
		// Another pod takes what it would need, and starts at once.
		other := sized(testPod("other", "o1", "r1"), "2")
		d.config.deliver(file, edited, other)
		b.runs("o1")
		hold.Release()
		b.awaitHeld("u1", "not enough cpu")
		b.after(time.Hour)
		if b.running("u1") != 1 || b.running("o1") != 1 || b.fake.Starts("u2", "app") != 0 {
			t.Errorf("%d, %d run, the revision was started %d times\n%s", b.running("u1"), b.running("o1"),
				b.fake.Starts("u2", "app"), b.fake.Dump())
		}
		if st := d.rollout(t, "web"); st.State != rollout.Preparing || !strings.Contains(st.Message, "podstead.io/replace") {
			t.Errorf("%+v", st)
		}
		// Its turn comes when they are free.
		d.config.deliver(file, edited)
		if took := b.runs("u2"); took > time.Minute {
			t.Errorf("it came into effect %s after that", took)
		}
		b.gone("u1")
	})
}

// Of two revisions that one change edits and that do not fit together one comes into effect;
// the other one does not end what runs.
func TestRevisionsThatDoNotFitTogether(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("7")
		sized := func(name, revision, cpu string) *v1.Pod {
			pod := testPod(name, types.UID(name+revision), revision)
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
			return pod
		}
		all := func(revision, cpu string) (pods []*v1.Pod) {
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				pods = append(pods, sized(name, revision, cpu))
			}
			return pods
		}
		d := b.start()
		d.config.deliver(file, all("1", "1")...)
		b.until(time.Minute, "all run", func() bool { return b.fake.Running() == 5 })
		b.after(time.Minute)
		before := b.fake.Running()
		d.config.deliver(file, all("2", "2")...)
		b.after(10 * time.Minute)
		changed := 0
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			old, edited := b.running(types.UID(name+"1")), b.running(types.UID(name+"2"))
			if old+edited != 1 {
				t.Errorf("%s: %d of the old revision run, %d of the new one", name, old, edited)
			}
			if changed += edited; old == 1 && !strings.Contains(d.held(types.UID(name+"1")), "not enough cpu") {
				t.Errorf("%s: %q", name, d.held(types.UID(name+"1")))
			}
		}
		if changed != 2 || b.fake.Running() != before {
			t.Errorf("%d of the edited revisions run, %d in all\n%s", changed, b.fake.Running(), b.fake.Dump())
		}
	})
}
