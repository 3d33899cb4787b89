package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// LoopDevice returns a block device with the content of a file.
func LoopDevice(t *testing.T, file string) string {
	t.Helper()
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return device
}

// BlockPod is a pod whose unprivileged container has a claim as /dev/disk.
func BlockPod(name, claim string, readOnly bool) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: apps}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: disk, persistentVolumeClaim: {claimName: %s, readOnly: %t}}]
  containers:
    - name: main
      image: %s
      command: [sleep, "100000"]
      volumeDevices: [{name: disk, devicePath: /dev/disk}]
`, name, claim, readOnly, testbed.BusyboxImage)
}

// MountDisk mounts a small private file system on a directory.
func MountDisk(t *testing.T, directory string, size int64) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-m", "0", file}, {"mount", "-o", "loop", file, directory}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	// Processes that still use it exit after this.
	t.Cleanup(func() { _ = unix.Unmount(directory, unix.MNT_DETACH) })
}

// StorageClaim is a claim; more are further fields of its spec.
func StorageClaim(name, size, more string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: %s, namespace: apps}\nspec: "+
		"{accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}, %s}\n", name, size, more)
}

// ClaimPod is a pod that mounts claims, by their names, each at /NAME.
func ClaimPod(name string, claims ...string) string {
	var volumes, mounts []string
	for _, claim := range claims {
		volumes = append(volumes, fmt.Sprintf("{name: %[1]s, persistentVolumeClaim: {claimName: %[1]s}}", claim))
		mounts = append(mounts, fmt.Sprintf("{name: %[1]s, mountPath: /%[1]s}", claim))
	}
	return VolumePod(name, "["+strings.Join(volumes, ", ")+"]", "["+strings.Join(mounts, ", ")+"]", "")
}

// MustHaveFile fails the test unless a file of the host has this content.
func (n *Node) MustHaveFile(path, want string) {
	n.T.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		n.T.Errorf("%s has %q, %v; want %q", path, got, err, want)
	}
}

// VolumePod returns the manifest of a pod with one container, volumes, mounts and additional
// fields of its spec, each as YAML in flow style.
func VolumePod(name, volumes, mounts, more string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: apps, labels: {tier: front, app: web}}
spec:
  terminationGracePeriodSeconds: 1
%s
  volumes: %s
  containers:
    - name: main
      image: %s
      command: [sleep, "100000"]
      resources: {requests: {cpu: 50m}, limits: {memory: 64Mi}}
      env: [{name: PART, value: from-env}]
      volumeMounts: %s
`, name, more, volumes, testbed.BusyboxImage, mounts)
}

// MustContain fails the test unless each shell command in a container prints the desired
// output.
func (n *Node) MustContain(i Instance, wants map[string]string) {
	n.T.Helper()
	for _, command := range Keys(wants) {
		if got := n.Exec(i, "sh", "-c", command); got != wants[command] {
			n.T.Errorf("%s: %q, want %q", command, got, wants[command])
		}
	}
}

// AwaitWaiting waits until a pod is waiting and its status or events contain all words.
func (n *Node) AwaitWaiting(name string, words ...string) {
	n.T.Helper()
	n.AwaitStatus(name, fmt.Sprintf("waits and says %q", words), func(p v1.Pod) error {
		text := p.Status.Reason + ": " + p.Status.Message + "\n"
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Waiting != nil {
				text += c.State.Waiting.Reason + ": " + c.State.Waiting.Message + "\n"
			}
		}
		for _, word := range words {
			if !strings.Contains(text, word) {
				return fmt.Errorf("no %q in %q", word, text)
			}
		}
		return nil
	})
}

// MountsOf returns the mount points on this host below a node's directory whose path contains
// the word.
func (n *Node) MountsOf(word string) []string {
	n.T.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(n.Root + "/pods"))
	if err != nil {
		n.T.Fatal(err)
	}
	var found []string
	for _, m := range mounts {
		if strings.Contains(m.Mountpoint, word) {
			found = append(found, m.Mountpoint)
		}
	}
	return found
}

// AwaitPodDirGone waits until a pod's directory is removed and nothing of it is mounted.
func (n *Node) AwaitPodDirGone(p v1.Pod) {
	n.T.Helper()
	n.Await("the pod's directory is removed", func() error {
		if mounts := n.MountsOf(string(p.UID)); len(mounts) > 0 {
			return fmt.Errorf("still mounted: %v", mounts)
		}
		if _, err := os.Lstat(filepath.Join(n.Root, "pods", string(p.UID))); !os.IsNotExist(err) {
			return fmt.Errorf("it still exists: %v", err)
		}
		return nil
	})
}
