package upgrade

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// beforeNodeResources are the previous versions whose state of devices, CPUs, resource claims and rollouts is older
// than what TestUpgradeWithNodeResources upgrades and goes back to.
var beforeNodeResources = append([]string{"456c968"}, beforeStorage...)

// onEachNodeResourceVersion calls test with each previous version that has all node resources.
func onEachNodeResourceVersion(t *testing.T, test func(t *testing.T, binary string)) {
	t.Helper()
	tested := false
	for commit, binary := range testbed.PreviousVersions() {
		if slices.Contains(beforeNodeResources, commit) {
			continue
		}
		tested = true
		t.Run(commit, func(t *testing.T) {
			if _, err := os.Stat(binary); err != nil {
				t.Fatalf("podstead %s is not built: %v; run make setup", commit, err)
			}
			test(t, binary)
		})
	}
	if !tested {
		t.Fatal("no commit of PREVIOUS_COMMITS has all node resources")
	}
}

// upgradedPods are pods that run over an upgrade, by name.
type upgradedPods map[string]harness.Instance

// mustStillRun fails the test unless all of them run as they did.
func (u upgradedPods) mustStillRun(n *harness.Node) {
	n.T.Helper()
	for name, i := range u {
		n.MustStillRun(name, i)
	}
}

// rolloutPod returns a revision of pod p, which is rolled back if its probe does not succeed in time.
func rolloutPod(word, after, probe string) string {
	return strings.Replace(harness.SleepPod("p", word), "metadata:\n",
		"metadata:\n  annotations: {podstead.io/rollback-after: "+after+"}\n", 1) +
		fmt.Sprintf("      readinessProbe: {exec: {command: [%q]}, periodSeconds: 1, timeoutSeconds: 300}\n", probe)
}

// awaitRollout waits until the rollout of pod p has the state and a message with the words.
func awaitRollout(n *harness.Node, state api.RolloutState, words string) (found api.Rollout) {
	n.T.Helper()
	n.Await("the rollout of pod p is "+string(state), func() error {
		body, err := n.Get(n.T.Context(), "/podstead/v1/rollouts")
		if err != nil {
			return err
		}
		var list []api.Rollout
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(r api.Rollout) bool { return r.Name == n.PodName("p") })
		if i < 0 || list[i].State != state || !strings.Contains(list[i].Message, words) {
			return fmt.Errorf("%s", body)
		}
		found = list[i]
		return nil
	})
	return found
}

// An upgrade keeps what pods have of the node: devices, exclusive CPUs, volumes of CSI drivers, claims, and the
// revision to which a rollout has been rolled back. A downgrade to the previous version keeps them too, with what
// the newer one has changed meanwhile: the formats of the state files are the same. Nothing restarts.
func TestUpgradeWithNodeResources(t *testing.T) {
	onEachNodeResourceVersion(t, func(t *testing.T, binary string) {
		harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) { upgradeNodeResources(t, n, binary) })
	})
}

func upgradeNodeResources(t *testing.T, n *harness.Node, binary string) {
	d := n.NewCSIDriver("disk")
	d.Volume("data")
	d.Volume("late")
	// All but one CPU is for pods without exclusive ones.
	unrequested := func(manifest string) string { return strings.Replace(manifest, "requests: {cpu: 50m}, ", "", 1) }
	pods := upgradedPods{}
	if n.Needs("cpu", "cpuset") {
		n.Args = append(n.Args, "--cpu-manager-policy=static", "--reserved-cpus=0")
		n.WriteManifest("own.yaml", harness.SleepPod("own", "one")+harness.Resources("limits: {cpu: 1, memory: 40Mi}"))
		pods["own"] = harness.Instance{}
	}
	n.WriteManifest("device.yaml", harness.DevicePod("device", 1))
	// The previous version binds a volume that is not reserved to the claim whose pod starts first, also to dir, which
	// names none.
	n.WriteManifest("app.yaml", unrequested(harness.ClaimPod("app", "data"))+
		d.CSIVolume("data", "", "claimRef: {namespace: apps, name: data}"))
	n.WriteManifest("files.yaml", unrequested(harness.ClaimPod("files", "dir"))+harness.StorageClaim("dir", "1Mi", ""))
	n.WriteManifest("p.yaml", rolloutPod("one", "1h", "true"))
	n.Binary = binary
	n.MustStart()
	pods[d.PodName()] = d.Start()
	n.DevicePlugin("a", "b")
	n.AwaitRevision("p", "one")
	n.AwaitReady("p")
	awaitRollout(n, "Stable", "")
	n.WriteManifest("p.yaml", rolloutPod("unready", "5s", "false"))
	// On a busy machine the revision runs for less than the test needs to see it.
	awaitRollout(n, "RolledBack", "it was not Ready within 5s")
	pods["p"] = n.AwaitRevision("p", "one")
	n.AwaitReady("p")
	shown := map[string]v1.Pod{}
	for _, name := range []string{"own", "device", "app", "files"} {
		if _, desired := pods[name]; name == "own" && !desired {
			continue
		}
		shown[name], pods[name] = n.AwaitReady(name), n.AwaitRunning(name)
	}
	rollout := awaitRollout(n, "RolledBack", "it was not Ready within 5s")
	n.MustContain(pods["app"], map[string]string{"echo kept > /data/file; cat /data/file": "kept"})
	n.MustContain(pods["files"], map[string]string{"echo kept > /dir/file; cat /dir/file": "kept"})
	device := strings.TrimSpace(n.Exec(pods["device"], "sh", "-c", "echo $SERIAL"))
	ownCPUs := func() (process string) {
		t.Helper()
		if i, desired := pods["own"]; desired {
			var err error
			if process, _, err = harness.AllowedCPUs(i.Pid); err != nil {
				t.Fatal(err)
			}
		}
		return process
	}
	exclusive, mounts := ownCPUs(), csiMountIDs(n)
	// unchanged checks what is the same in each version.
	unchanged := func(version string) {
		t.Helper()
		n.AwaitNodeDevices("2") // the plugin has registered again
		for name, before := range shown {
			if after := n.AwaitReady(name); after.UID != before.UID || !after.Status.StartTime.Equal(before.Status.StartTime) {
				t.Errorf("%s: pod %s went from %s, %v to %s, %v", version, name, before.UID, before.Status.StartTime, after.UID,
					after.Status.StartTime)
			}
		}
		pods.mustStillRun(n)
		n.MustContain(pods["app"], map[string]string{"cat /data/file": "kept"})
		n.MustContain(pods["files"], map[string]string{"cat /dir/file": "kept"})
		if got := ownCPUs(); got != exclusive {
			t.Errorf("%s: the exclusive CPUs are %s, want %s", version, got, exclusive)
		}
		now := csiMountIDs(n)
		for path, ids := range mounts {
			if !slices.Equal(now[path], ids) {
				t.Errorf("%s: %s is mount %v, and was %v", version, path, now[path], ids)
			}
		}
		d.MustHaveCalled("data", "Stage", "Publish")
	}

	n.Kill()
	n.Binary = testbed.Product()
	n.MustStart()
	unchanged("after the upgrade")
	if got := awaitRollout(n, "RolledBack", "it was not Ready within 5s"); got.Revision != rollout.Revision ||
		got.LastGood != rollout.LastGood {
		t.Errorf("the rollout is %+v after the upgrade, and was %+v", got, rollout)
	}
	// The device is still given: only one is left.
	n.WriteManifest("two.yaml", harness.DevicePod("two", 2))
	n.AwaitHeld("two", "OutOfexample.com/serial", "requested 2, available 1")
	n.RemoveManifest("two.yaml")

	// What the new version records is read by the previous one.
	n.WriteManifest("other.yaml", harness.DevicePod("other", 1))
	n.WriteManifest("late.yaml", unrequested(harness.ClaimPod("late", "late"))+d.CSIVolume("late", "", ""))
	n.WriteManifest("p.yaml", rolloutPod("two", "1h", "true"))
	pods["p"] = n.AwaitRevision("p", "two")
	n.AwaitReady("p")
	rollout = awaitRollout(n, "Stable", "")
	for _, name := range []string{"other", "late"} {
		shown[name], pods[name] = n.AwaitReady(name), n.AwaitRunning(name)
	}
	mounts = csiMountIDs(n)
	n.Kill()
	n.Binary = binary
	n.MustStart()
	unchanged("after the downgrade")
	if got := awaitRollout(n, "Stable", ""); got.Revision != rollout.Revision || got.LastGood != rollout.LastGood {
		t.Errorf("the rollout is %+v after the downgrade, and was %+v", got, rollout)
	}
	n.WriteManifest("third.yaml", harness.DevicePod("third", 1))
	n.AwaitHeld("third", "OutOfexample.com/serial", "requested 1, available 0")
	n.RemoveManifest("third.yaml")
	d.MustHaveCalled("late", "Stage", "Publish")

	// And back, with what each has removed.
	n.RemoveManifest("late.yaml")
	n.AwaitPodDirGone(shown["late"])
	delete(shown, "late")
	delete(pods, "late")
	mounts = csiMountIDs(n)
	n.Kill()
	n.Binary = testbed.Product()
	n.MustStart()
	unchanged("after the second upgrade")
	d.MustHaveCalled("late", "Stage", "Publish", "Unpublish", "Unstage")
	// A container keeps its device when it starts again.
	n.Exec(pods["device"], "touch", "/tmp/exit")
	n.MustPrintIn(n.AwaitOther("device", pods["device"]), device, "sh", "-c", "echo $SERIAL")
	n.RemoveManifest("app.yaml")
	n.AwaitPodDirGone(shown["app"])
	n.AwaitNoCSI()
}

// An upgrade, and a downgrade, keep the devices of resource claims as their driver has prepared them, also for a
// pod that is deleted meanwhile.
func TestUpgradeWithResourceClaims(t *testing.T) {
	t.Parallel()
	onEachNodeResourceVersion(t, func(t *testing.T, binary string) {
		n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
		n.Binary = binary
		a, driver, start := n.StartWithResourceClaims()
		start()
		a.Create(n.ResourceClaimPod("own", "resourceClaimTemplateName: own", ", request: first"))
		a.Create(n.ResourceClaimPod("one", "resourceClaimName: shared", ""))
		own, one := n.AwaitRunning("own"), n.AwaitRunning("one")
		n.MustPrintIn(one, "blue", "sh", "-c", "echo $user_color")
		n.AwaitPrepared(driver, 3)
		before := fmt.Sprint(n.DynamicResources("one"))
		change := func(to string) {
			t.Helper()
			n.Kill()
			n.Binary = to
			n.MustStart()
			n.Await("the claims of pod one are known", func() error {
				got, err := n.FindDynamicResources("one")
				if err == nil && fmt.Sprint(got) != before {
					err = fmt.Errorf("%v, want %s", got, before)
				}
				return err
			})
			n.MustStillRun("one", one)
			n.AwaitPrepared(driver, 3)
		}
		change(testbed.Product())
		n.MustStillRun("own", own)
		a.Create(n.ResourceClaimPod("two", "resourceClaimName: shared", ""))
		two := n.AwaitRunning("two")
		change(binary)
		n.MustStillRun("own", own)
		n.MustStillRun("two", two)

		n.Kill()
		a.Must("delete", "pod", n.PodName("own"), "--force", "--grace-period=0")
		n.Binary = testbed.Product()
		n.MustStart()
		n.AwaitGone("own")
		n.AwaitPrepared(driver, 1)
		n.MustStillRun("two", two)
		for _, name := range []string{"one", "two"} {
			a.Must("delete", "pod", n.PodName(name))
			n.AwaitGone(name)
		}
		n.AwaitPrepared(driver, 0)
	})
}

// An earlier version passes the limits of a pod on to none of its containers. After an upgrade those that run have
// them too, also one that restarts for another limit, and nothing restarts; neither does it after a downgrade.
func TestUpgradeWithPodLevelLimits(t *testing.T) {
	onEachNodeResourceVersion(t, func(t *testing.T, binary string) {
		harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
			if !n.Needs("cpu", "memory") || len(harness.UnmountedControllers(t)) > 0 {
				return
			}
			n.WriteManifest("p.yaml", strings.Replace(harness.SleepPod("p", "one"), "spec:\n",
				"spec:\n  resources: {limits: {cpu: 300m, memory: 64Mi}}\n", 1)+"      resizePolicy: "+
				"[{resourceName: memory, restartPolicy: RestartContainer}, {resourceName: cpu, restartPolicy: RestartContainer}]\n")
			n.Binary = binary
			n.MustStart()
			pods := upgradedPods{"p": n.AwaitRunning("p")}
			n.AwaitReady("p")
			n.Kill()
			n.Binary = testbed.Product()
			n.MustStart()
			n.Await("the container has the limits of its pod", func() error {
				for file, want := range map[string]string{"cpu.cfs_quota_us": "30000", "memory.limit_in_bytes": "67108864"} {
					controller, _, _ := strings.Cut(file, ".")
					at, err := harness.CgroupPath(pods["p"].Pid, controller)
					if err != nil {
						return err
					}
					if got, err := harness.CgroupValue(controller, at, file); err != nil || got != want {
						return fmt.Errorf("%s is %s (%v)", file, got, err)
					}
				}
				return nil
			})
			n.AwaitReady("p")
			pods.mustStillRun(n)
			n.Kill()
			n.Binary = binary
			n.MustStart()
			n.AwaitReady("p")
			pods.mustStillRun(n)
		})
	})
}
