package machine

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/api"
)

const (
	rolloutDir  = "/var/lib/podstead/rollouts/default/careful-machine"
	goodImage   = "registry.test/careful:1"
	failedImage = "registry.test/careful:2"
	// carefulPort is the port of the pod's server, in the network of the host: the server of one
	// revision cannot listen while that of another one does.
	carefulPort = "8085"
	// failedAfter is the time in which revision 2 has to become Ready. It is long enough for the
	// steps of the test in the meantime, on a host that does other work as well.
	failedAfter = 4 * time.Minute
)

// carefulPod returns a revision of the pod careful. Revision 1 becomes Ready, revision 2 never
// does: nothing listens on the port that its probe asks. A start logs to /root/log/careful what
// happens. The end of a revision takes 3 s, so that a cut can be in the middle of a replacement.
func carefulPod(revision string) testPod {
	image, after, port := goodImage, "1h", carefulPort
	if revision == "2" {
		image, after, port = failedImage, failedAfter.String(), "8086"
	}
	log := func(what string) string { return fmt.Sprintf("echo %s %s >>/log/careful; ", what, revision) }
	return testPod{
		name: "careful", revision: revision, image: image, grace: 60,
		annotations: "podstead.io/rollback-after: " + after,
		spec:        ", hostNetwork: true" + logVolume,
		script: "trap '" + log("term") + "sleep 3; " + log("end") + "exit 0' TERM; " +
			log("start") + "mkdir -p /www; httpd -p " + carefulPort + " -h /www || { " + log("overlap") +
			"}; while :; do sleep 1000 & wait; done",
		container: logMount + fmt.Sprintf(", readinessProbe: {tcpSocket: {port: %s}, periodSeconds: 1, timeoutSeconds: 60}",
			port),
	}
}

// Power cuts in each state of a rollout that ends in a rollback: while the revision is prepared,
// amid the replacement, while it has to become Ready, while the rollback waits for its image, amid
// the rollback, and after it. After each boot one revision runs, the stored state can be read, and
// the rollout goes on where it was.
func TestPowerCutsDuringRollout(t *testing.T) {
	m := newInstalled(t)
	m.Start()
	testPowerCutsDuringRollout(m, uint64(time.Now().UnixNano()))
}

func testPowerCutsDuringRollout(m *Machine, seed uint64) {
	t := m.t
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	// moment is a time within what a replacement takes.
	moment := func() {
		d := time.Duration(random.Int64N(int64(8 * time.Second)))
		t.Logf("the power is cut %v later", d.Round(100*time.Millisecond))
		time.Sleep(d) // not a wait for something: the moment of the cut
	}
	loadAs(m, goodImage)
	apply(m, carefulPod("1"))
	awaitInstances(m, map[string]string{"careful": "1"}, settle)
	awaitReady(m, settle, "careful")
	first := awaitRollout(m, "Stable").Revision

	apply(m, carefulPod("2"))
	awaitRollout(m, "Preparing")
	cutDuringRollout(m, "1")
	awaitRollout(m, "Preparing")
	onlyRuns(m, "1")

	loadAs(m, failedImage)
	moment()
	cutDuringRollout(m, "", "1", "2")
	awaitRollout(m, "Preparing", "Progressing")
	// The cut may have taken the image.
	if !hasImage(m, failedImage) {
		loadAs(m, failedImage)
	}
	awaitRollout(m, "Progressing")
	onlyRuns(m, "2")

	m.Sh("ctr -n k8s.io images rm --sync " + goodImage)
	cutDuringRollout(m, "2")
	// The rollback waits for its image. Revision 2 runs on.
	awaitRollout(m, "RollingBack")
	onlyRuns(m, "2")
	// After a boot nothing of revision 2 runs, so that it may be given up before the other one can run.
	cutDuringRollout(m, "", "2")
	awaitRollout(m, "RollingBack", "RolledBack")

	loadAs(m, goodImage)
	moment()
	cutDuringRollout(m, "", "1", "2")
	awaitRollout(m, "RollingBack", "RolledBack")
	if !hasImage(m, goodImage) {
		loadAs(m, goodImage)
	}
	mustBeRolledBack(m, first)
	cutDuringRollout(m, "1")
	mustBeRolledBack(m, first)

	if log := m.Sh("cat /root/log/careful"); strings.Contains(log, "overlap") {
		t.Errorf("two revisions ran at once:\n%s", log)
	}
}

// mustBeRolledBack waits until the last good revision runs and is Ready, and checks that
// the commands say why the other one does not.
func mustBeRolledBack(m *Machine, first string) {
	m.t.Helper()
	got := awaitRollout(m, "RolledBack")
	cause := "it was not Ready within " + failedAfter.String()
	if got.Revision != first || !strings.Contains(got.Message, cause) {
		m.t.Errorf("the rollout is %+v, want revision %s and the cause of the rollback", got, first)
	}
	onlyRuns(m, "1")
	awaitReady(m, settle, "careful")
	out, err := m.Try("podstead rollout status careful")
	if err == nil || !strings.Contains(out, "RolledBack") || !strings.Contains(out, cause) {
		m.t.Errorf("podstead rollout status: %v, %s", err, out)
	}
	for _, command := range []string{"podstead get pods", "podstead describe pod careful"} {
		if out := m.Sh(command); !strings.Contains(out, "RolledBack") {
			m.t.Errorf("%s does not show the rollback:\n%s", command, out)
		}
	}
	if out := m.Sh("podstead rollout history careful"); !strings.Contains(out, "in effect, ready") {
		m.t.Errorf("podstead rollout history:\n%s", out)
	}
}

// loadAs loads busybox under another name.
func loadAs(m *Machine, name string) {
	m.t.Helper()
	awaitActive(m)
	m.Sh("podstead images load --name " + name + " /root/busybox.tar")
}

func hasImage(m *Machine, name string) bool {
	m.t.Helper()
	return slices.Contains(strings.Fields(m.Sh("ctr -n k8s.io images ls -q")), name)
}

// cutDuringRollout cuts the power, and waits after the boot until one of these revisions runs. The
// empty revision reports that none has to.
func cutDuringRollout(m *Machine, revisions ...string) {
	m.t.Helper()
	began := time.Now()
	m.PowerCut()
	m.Start()
	onlyRuns(m, revisions...)
	checkRolloutFiles(m)
	m.t.Logf("recovered in %v", time.Since(began).Round(time.Second))
}

// onlyRuns waits until one of these revisions of the pod careful runs, or none if the empty one is
// among them, and fails if two run at once.
func onlyRuns(m *Machine, revisions ...string) {
	m.t.Helper()
	m.Await("one revision runs", settle, func() error {
		all, err := instances(m)
		if err != nil {
			return err
		}
		got := all["careful"]
		if len(got) > 1 {
			m.t.Fatalf("the revisions %q run at once", got)
		}
		if !slices.Contains(revisions, strings.Join(got, " ")) {
			return fmt.Errorf("%q runs, want one of %q", got, revisions)
		}
		return nil
	})
}

// checkRolloutFiles checks that what is stored of the rollout can be read, and that the daemon has
// put no file aside.
func checkRolloutFiles(m *Machine) {
	m.t.Helper()
	for _, file := range strings.Fields(m.Sh("find /var/lib/podstead/rollouts -type f")) {
		switch name := path.Base(file); {
		case strings.HasSuffix(name, ".damaged"), strings.HasSuffix(name, ".newer"):
			m.t.Errorf("the daemon could not use %s:\n%s", file, m.CopyOut(file))
		case path.Dir(file) == rolloutDir && strings.HasSuffix(name, ".json"):
			if text := m.CopyOut(file); !json.Valid(text) {
				m.t.Errorf("%s is %q", file, text)
			}
		}
	}
}

// awaitRollout waits until the rollout of the pod careful has one of these states.
func awaitRollout(m *Machine, states ...api.RolloutState) (found api.Rollout) {
	m.t.Helper()
	m.Await(fmt.Sprint("the rollout is one of ", states), settle, func() error {
		out, err := m.Try("podstead rollout status -o json")
		if err != nil {
			return err
		}
		var list []api.Rollout
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		i := slices.IndexFunc(list, func(r api.Rollout) bool { return r.Name == "careful-machine" })
		if i < 0 || !slices.Contains(states, list[i].State) {
			return fmt.Errorf("%s", out)
		}
		found = list[i]
		return nil
	})
	return found
}
