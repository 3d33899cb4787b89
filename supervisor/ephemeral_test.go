package supervisor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
)

// debug adds an ephemeral container to a running pod.
func (d *daemon) debug(uid types.UID, name string) error {
	return d.UpdateEphemeralContainers(uid, func(pod *v1.Pod) ([]v1.EphemeralContainer, error) {
		return append(slices.Clone(pod.Spec.EphemeralContainers), v1.EphemeralContainer{
			EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name, Image: "img:1",
				ImagePullPolicy: v1.PullIfNotPresent}, TargetContainerName: "app",
		}), nil
	})
}

// ephemeralOf returns the states of the ephemeral containers that the API shows.
func (d *daemon) ephemeralOf(uid types.UID) (text string) {
	for _, pod := range d.Pods() {
		if pod.UID != uid {
			continue
		}
		for _, c := range pod.Spec.EphemeralContainers {
			text += c.Name + ":"
			for _, st := range pod.Status.EphemeralContainerStatuses {
				switch {
				case st.Name != c.Name:
				case st.State.Running != nil:
					text += "running"
				case st.State.Terminated != nil:
					text += fmt.Sprint("ended with ", st.State.Terminated.ExitCode)
				default:
					text += "waiting"
				}
			}
			text += " "
		}
	}
	return text
}

func (b *supervisorHarness) awaitEphemeral(uid types.UID, want string) {
	b.t.Helper()
	b.until(time.Minute, fmt.Sprintf("ephemeral containers %q, now %q", want, b.daemon.ephemeralOf(uid)),
		func() bool { return b.daemon.ephemeralOf(uid) == want })
}

// Ephemeral containers that were added to a static pod are started once each, whenever the daemon
// is killed in the meantime, and affect nothing else in the pod.
func TestEphemeralContainersOfStaticPodAtRandomPoints(t *testing.T) {
	for seed := range seeds(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				rnd := rand.New(rand.NewPCG(seed, 3))
				b.fake.Latency("*", 7*time.Millisecond)
				pod := testPod("p", "u1", "r1")
				b.start().config.deliver(manifest.SourceFile, pod)
				b.runs(pod.UID)
				var names []string
				for round := range 12 {
					name := fmt.Sprint("debug", round)
					names = append(names, name)
					if round%2 == 0 {
						b.fake.Behave(name, critest.Behaviour{RunFor: 20 * time.Millisecond, ExitCode: 1})
					}
					b.until(time.Minute, "the pod is known", func() bool { return b.daemon.desiredPod(pod.UID) != nil })
					if err := b.daemon.debug(pod.UID, name); err != nil {
						t.Fatal(err)
					}
					b.after(time.Duration(rnd.IntN(150)) * time.Millisecond)
					if round%3 == 0 {
						b.kill()
					} else {
						b.sigkill()
					}
					b.start().config.deliver(manifest.SourceFile, pod)
				}
				b.after(time.Minute)
				for _, name := range append(names, "app") {
					if n := b.fake.Starts(string(pod.UID), name); n != 1 {
						t.Errorf("container %s was started %d times", name, n)
					}
				}
				want := ""
				for i, name := range names {
					want += name + map[bool]string{true: ":ended with 1 ", false: ":running "}[i%2 == 0]
				}
				if got := b.daemon.ephemeralOf(pod.UID); got != want {
					t.Errorf("ephemeral containers %q, want %q", got, want)
				}
				if st := b.daemon.status(pod.UID); st.Phase != v1.PodRunning || st.ContainerStatuses[0].RestartCount != 0 {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

// An ephemeral container belongs to a run of the pod: an ended one is not started again, also after
// it was removed and the daemon is another one, and a restart or another revision has none.
func TestEphemeralContainersEndWithTheRun(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("ended", critest.Behaviour{RunFor: time.Second, ExitCode: 3})
		pod := testPod("p", "u1", "r1")
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.runs(pod.UID)
		for _, name := range []string{"ended", "kept"} {
			if err := d.debug(pod.UID, name); err != nil {
				t.Fatal(err)
			}
		}
		b.awaitEphemeral(pod.UID, "ended:ended with 3 kept:running ")
		// The dead container is removed, as for a full disk, and nothing but the record knows of it.
		for _, c := range b.fake.Containers() {
			if c.Name == "ended" {
				if err := b.fake.Client(t).RemoveContainer(t.Context(), c.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		b.restart(pod)
		b.awaitEphemeral(pod.UID, "ended:ended with 3 kept:running ")
		b.after(time.Minute)
		if n := b.fake.Starts(string(pod.UID), "ended"); n != 1 {
			t.Errorf("it was started %d times", n)
		}

		// A restart of the pod has none, and a name can be used again.
		if err := b.daemon.Restart(pod.UID, "asked", time.Time{}); err != nil {
			t.Fatal(err)
		}
		b.until(time.Minute, "the pod is restarted", func() bool { return b.fake.Starts(string(pod.UID), "app") == 2 })
		b.awaitEphemeral(pod.UID, "")
		b.runs(pod.UID)
		if err := b.daemon.debug(pod.UID, "kept"); err != nil {
			t.Fatal(err)
		}
		b.awaitEphemeral(pod.UID, "kept:running ")
		if n := b.fake.Starts(string(pod.UID), "kept"); n != 2 {
			t.Errorf("kept was started %d times", n)
		}

		// Another revision has none, and nothing of them is left.
		next := testPod("p", "u2", "r2")
		b.daemon.config.deliver(manifest.SourceFile, next)
		b.gone(pod.UID)
		b.runs(next.UID)
		b.awaitEphemeral(next.UID, "")
		if left, _ := filepath.Glob(b.path("ephemeral-containers/*")); len(left) > 0 {
			t.Errorf("records are left: %v", left)
		}
	})
}

func TestEphemeralContainersRefused(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("app", critest.Behaviour{RunFor: time.Second})
		ended := testPod("p", "u1", "r1")
		ended.Spec.RestartPolicy = v1.RestartPolicyNever
		d := b.start(manifest.SourceFile, manifest.SourceAPI)
		d.config.deliver(manifest.SourceFile, ended)
		d.config.deliver(manifest.SourceAPI, boundPod("q", "u2"))
		b.until(time.Minute, "it has ended", func() bool { return d.status("u1").Phase == v1.PodSucceeded })
		for uid, want := range map[types.UID]error{"u1": ErrPodEnded, "u2": ErrPodOfCluster, "u3": ErrNoSuchPod} {
			if err := d.debug(uid, "x"); !errors.Is(err, want) {
				t.Errorf("pod %s: %v, want %v", uid, err, want)
			}
		}
		why := errors.New("refused")
		d.config.deliver(manifest.SourceFile, ended, testPod("r", "u4", "r1"))
		b.until(time.Minute, "it is known", func() bool { return d.desiredPod("u4") != nil })
		if err := d.UpdateEphemeralContainers("u4",
			func(*v1.Pod) ([]v1.EphemeralContainer, error) { return nil, why }); !errors.Is(err, why) {
			t.Errorf("an error of the change: %v", err)
		}
		if left, _ := filepath.Glob(b.path("ephemeral-containers/*")); len(left) > 0 {
			t.Errorf("records of refused changes: %v", left)
		}
	})
}
