package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// volumePod returns the manifest of a pod with one container, volumes, mounts and additional
// fields of its spec, each as YAML in flow style.
func volumePod(name, volumes, mounts, more string) string {
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

// mustContain fails the test unless each shell command in a container prints the wanted
// output.
func (n *node) mustContain(i instance, wants map[string]string) {
	n.t.Helper()
	for _, command := range keys(wants) {
		if got := n.exec(i, "sh", "-c", command); got != wants[command] {
			n.t.Errorf("%s: %q, want %q", command, got, wants[command])
		}
	}
}

// awaitWaiting waits until a pod is waiting and its status or events contain all words.
func (n *node) awaitWaiting(name string, words ...string) {
	n.t.Helper()
	n.awaitStatus(name, fmt.Sprintf("waits and says %q", words), func(p v1.Pod) error {
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

// mountsOf returns the mount points on this host below a node's directory whose path contains
// the word.
func (n *node) mountsOf(word string) []string {
	n.t.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(n.Root + "/pods"))
	if err != nil {
		n.t.Fatal(err)
	}
	var found []string
	for _, m := range mounts {
		if strings.Contains(m.Mountpoint, word) {
			found = append(found, m.Mountpoint)
		}
	}
	return found
}

// awaitPodDirGone waits until a pod's directory is removed and nothing of it is mounted.
func (n *node) awaitPodDirGone(p v1.Pod) {
	n.t.Helper()
	n.await("the pod's directory is removed", func() error {
		if mounts := n.mountsOf(string(p.UID)); len(mounts) > 0 {
			return fmt.Errorf("still mounted: %v", mounts)
		}
		if _, err := os.Lstat(filepath.Join(n.Root, "pods", string(p.UID))); !os.IsNotExist(err) {
			return fmt.Errorf("it still exists: %v", err)
		}
		return nil
	})
}

func TestEmptyDirInMemory(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		if !n.needs("memory") {
			return
		}
		n.writeManifest("p.yaml", volumePod("p",
			"[{name: own, emptyDir: {medium: Memory, sizeLimit: 3Mi}}, {name: all, emptyDir: {medium: Memory}}, {name: huge, emptyDir: {medium: HugePages-2Mi}}]",
			"[{name: own, mountPath: /own}, {name: all, mountPath: /all}, {name: huge, mountPath: /huge}]", ""))
		n.start()
		main := n.awaitRunning("p")
		n.mustContain(main, map[string]string{
			"grep ' /own ' /proc/mounts | cut -d' ' -f3":                                    "tmpfs",
			"df -k /own | tail -1 | awk '{print $2}'":                                       "3072",
			"df -k /all | tail -1 | awk '{print $2}'":                                       "65536",
			"stat -c %a /own /all":                                                          "1777\n1777",
			"dd if=/dev/zero of=/own/f bs=1M count=4 2>&1 | grep -c 'No space left'":        "1",
			"grep ' /huge ' /proc/mounts | cut -d' ' -f3":                                   "hugetlbfs",
			"grep ' /huge ' /proc/mounts | tr ', ' '\\n' | grep pagesize":                   "pagesize=2M",
			"rm /own/f; echo kept > /own/f; cat /own/f; grep -c ' /own tmpfs' /proc/mounts": "kept\n1",
		})
		// A new container of the pod, and a new daemon, find the existing files.
		n.restart()
		if _, err := n.rt.CRI.Exec(t.Context(), main.ID, "kill", "-9", "1"); err == nil {
			n.exec(main, "true")
		}
		n.mustContain(n.awaitRunning("p"), map[string]string{"cat /own/f": "kept"})
		p := n.awaitReady("p")
		if got := len(n.mountsOf(string(p.UID))); got != 3 {
			t.Errorf("%d mounts for the pod's volumes, want 3: %v", got, n.mountsOf(string(p.UID)))
		}
		n.removeManifest("p.yaml")
		n.awaitPodDirGone(p)
	})
}

func TestDownwardVolume(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		manifest := volumePod("p", `[{name: info, downwardAPI: {defaultMode: 0440, items: [
  {path: labels, fieldRef: {fieldPath: metadata.labels}},
  {path: "sub/tier", mode: 0400, fieldRef: {fieldPath: "metadata.labels['tier']"}},
  {path: name, fieldRef: {fieldPath: metadata.name}},
  {path: memory, resourceFieldRef: {containerName: main, resource: limits.memory, divisor: 1Mi}},
  {path: cpu, resourceFieldRef: {containerName: main, resource: requests.cpu}}]}}]`,
			"[{name: info, mountPath: /info}]", "")
		manifest = strings.Replace(manifest, "metadata: {", "metadata: {uid: fixed-"+n.Name+", ", 1)
		n.writeManifest("p.yaml", manifest)
		n.start()
		main := n.awaitRunning("p")
		n.mustContain(main, map[string]string{
			"cat /info/labels":          "app=\"web\"\ntier=\"front\"",
			"cat /info/sub/tier":        "front",
			"cat /info/name":            n.PodName("p"),
			"cat /info/memory":          "64",
			"cat /info/cpu":             "1",
			"stat -L -c %a /info/name":  "440",
			"stat -L -c %a /info/sub/*": "400",
			"readlink /info/name":       "..data/name",
			"grep ' /info ' /proc/mounts | cut -d' ' -f3,4 | cut -d, -f1": "tmpfs ro",
			"touch /info/x 2>/dev/null || echo read-only":                 "read-only",
		})
		n.writeManifest("p.yaml", strings.Replace(manifest, "tier: front", "tier: back", 1))
		n.awaitExec(main, "back", "cat", "/info/sub/tier")
		n.mustStillRun("p", main)
		// The previous directory is removed after the change.
		n.awaitExec(main, "1", "sh", "-c", "ls -A /info | grep -c '^\\.\\.2'")
	})
}

func TestSubPaths(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		host := filepath.Join(n.Dir(), "host")
		writeAll(t, host+"/in", map[string]string{"file": "inside\n"})
		writeAll(t, host+"/secret", map[string]string{"key": "outside\n"})
		for link, target := range map[string]string{
			"in/near": "file", "in/up": "../secret", "in/absolute": host + "/secret", "in/round": "round",
		} {
			if err := os.Symlink(target, filepath.Join(host, link)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Join(host, "in"), os.ModeSetgid|0o775); err != nil {
			t.Fatal(err)
		}
		volumes := fmt.Sprintf("[{name: host, hostPath: {path: %s/in}}, {name: tmp, emptyDir: {}}]", host)
		n.writeManifest("p.yaml", volumePod("p", volumes, `[
  {name: host, mountPath: /etc/file, subPath: file},
  {name: host, mountPath: /etc/near, subPath: near, readOnly: true},
  {name: host, mountPath: /made, subPath: made/below},
  {name: tmp, mountPath: /all},
  {name: tmp, mountPath: /part, subPathExpr: "a/$(PART)"}]`, ""))
		for link, word := range map[string]string{"up/key": "leads out of the volume", "absolute/key": "leads out of the volume", "round": "too many levels"} {
			name := "bad-" + link[:2]
			n.writeManifest(name+".yaml", volumePod(name, volumes, fmt.Sprintf("[{name: host, mountPath: /x, subPath: %s}]", link), ""))
			_ = word
		}
		n.writeManifest("unset.yaml", volumePod("unset", volumes, `[{name: tmp, mountPath: /x, subPathExpr: "$(NOBODY)"}]`, ""))
		n.start()
		main := n.awaitRunning("p")
		n.mustContain(main, map[string]string{
			"cat /etc/file /etc/near":                              "inside\ninside",
			"stat -c %a /made":                                     "2775",
			"echo x > /part/y; cat /all/a/from-env/y":              "x",
			"stat -c %a /part":                                     "777",
			"echo more >> /etc/near 2>/dev/null || echo read-only": "read-only",
		})
		if _, err := os.Stat(filepath.Join(host, "in/made/below")); err != nil {
			t.Error(err)
		}
		n.awaitWaiting("bad-up", "CreateContainerConfigError", "leads out of the volume", "up/key")
		n.awaitWaiting("bad-ab", "CreateContainerConfigError", "leads out of the volume", "absolute/key")
		n.awaitWaiting("bad-ro", "CreateContainerConfigError", "too many levels of symbolic links")
		n.awaitWaiting("unset", "CreateContainerConfigError", "NOBODY")
		p := n.awaitReady("p")
		if got := len(n.mountsOf(string(p.UID))); got != 4 {
			t.Errorf("%d subpaths are mounted, want 4: %v", got, n.mountsOf(string(p.UID)))
		}
		// Removing the pod removes none of the host's files.
		n.removeManifest("p.yaml")
		n.awaitPodDirGone(p)
		for _, file := range []string{"in/file", "in/near", "in/made/below", "secret/key"} {
			if _, err := os.Stat(filepath.Join(host, file)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestFSGroup(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		host := filepath.Join(n.Dir(), "host")
		writeAll(t, host, map[string]string{"file": "x"})
		n.writeManifest("p.yaml", volumePod("p", fmt.Sprintf(`[{name: disk, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}, {name: host, hostPath: {path: %s}},
  {name: info, downwardAPI: {defaultMode: 0400, items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]`, host),
			"[{name: disk, mountPath: /disk}, {name: memory, mountPath: /memory}, {name: host, mountPath: /host}, {name: info, mountPath: /info}]",
			"  securityContext: {runAsUser: 1234, fsGroup: 2345, fsGroupChangePolicy: OnRootMismatch}"))
		n.start()
		n.mustContain(n.awaitRunning("p"), map[string]string{
			"stat -c '%g %a' /disk":                             "2345 2777",
			"stat -c '%g %a' /memory":                           "2345 3777",
			"stat -c '%g' /host /host/file":                     "0\n0",
			"stat -L -c '%g %a' /info/name":                     "2345 440",
			"id -G":                                             "0 2345",
			"touch /disk/x /memory/x; stat -c '%u %g' /disk/x":  "1234 2345",
			"cat /info/name":                                    n.PodName("p"),
			"echo x > /info/name 2>/dev/null || echo read-only": "read-only",
		})
	})
}

// File systems mounted later on the host below a hostPath are visible in the container.
func TestMountPropagation(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		host := filepath.Join(n.Dir(), "host")
		private := filepath.Join(n.Dir(), "private")
		for _, dir := range []string{host + "/disk", private} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		mount(t, "tmpfs", private)
		if err := unix.Mount("", private, "", unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		n.writeManifest("p.yaml", volumePod("p", fmt.Sprintf("[{name: host, hostPath: {path: %s}}]", host), `[
  {name: host, mountPath: /follows, mountPropagation: HostToContainer}, {name: host, mountPath: /stays}]`, ""))
		n.writeManifest("q.yaml", volumePod("q", fmt.Sprintf("[{name: host, hostPath: {path: %s}}]", private),
			"[{name: host, mountPath: /x, mountPropagation: HostToContainer}]", ""))
		n.start()
		n.writeManifest("r.yaml", strings.Replace(volumePod("r", "[{name: up, emptyDir: {}}]",
			"[{name: up, mountPath: /up, mountPropagation: Bidirectional}]", ""), "      volumeMounts", "      securityContext: {privileged: true}\n      volumeMounts", 1))
		main := n.awaitRunning("p")
		mount(t, "tmpfs", host+"/disk")
		writeAll(t, host+"/disk", map[string]string{"late": "here"})
		n.mustContain(main, map[string]string{
			"cat /follows/disk/late":                          "here",
			"cat /stays/disk/late 2>/dev/null || echo hidden": "hidden",
		})
		n.awaitWaiting("q", "CreateContainerConfigError", "mountPropagation HostToContainer needs a shared mount", "mount --make-rshared "+private)
		n.mountShared(private)
		r := n.awaitRunning("r")
		n.exec(r, "sh", "-c", "mkdir /up/m && mount -t tmpfs none /up/m && touch /up/m/x")
		made := filepath.Join(n.Root, "pods", string(n.awaitReady("r").UID), "volumes/kubernetes.io~empty-dir/up/m")
		if _, err := os.Stat(made + "/x"); err != nil {
			t.Errorf("the container's mount is not on the host: %v", err)
		}
		n.exec(r, "sh", "-c", "umount /up/m")
	})
}

// On a host whose mounts are private, those below the daemon's directory are made shared.
func TestMountPropagationOnAPrivateHost(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		if err := os.MkdirAll(n.Root, 0o755); err != nil {
			t.Fatal(err)
		}
		mount(t, "tmpfs", n.Root)
		if err := unix.Mount("", n.Root, "", unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		n.writeManifest("p.yaml", strings.Replace(volumePod("p", "[{name: up, emptyDir: {medium: Memory}}]",
			"[{name: up, mountPath: /up, mountPropagation: Bidirectional}]", ""), "      volumeMounts", "      securityContext: {privileged: true}\n      volumeMounts", 1))
		n.start()
		main := n.awaitRunning("p")
		n.exec(main, "sh", "-c", "mkdir /up/m && mount -t tmpfs none /up/m && touch /up/m/x")
		p := n.awaitReady("p")
		if _, err := os.Stat(filepath.Join(n.Root, "pods", string(p.UID), "volumes/kubernetes.io~empty-dir/up/m/x")); err != nil {
			t.Errorf("the container's mount is not on the host: %v", err)
		}
		n.exec(main, "sh", "-c", "umount /up/m")
		n.restart()
		n.mustStillRun("p", main)
		n.removeManifest("p.yaml")
		n.awaitPodDirGone(p)
	})
}

// mountShared makes a private mount shared, as the pod's message requests, and waits until the
// pod starts.
func (n *node) mountShared(path string) {
	n.t.Helper()
	if err := unix.Mount("", path, "", unix.MS_SHARED, ""); err != nil {
		n.t.Fatal(err)
	}
	n.awaitRunning("q")
}

// mount mounts a file system on a directory until the test ends.
func mount(t *testing.T, fsType, path string) {
	t.Helper()
	if err := unix.Mount(fsType, path, fsType, 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
}

// NFS needs the host's mount.nfs. If it is missing, the pod's status says so; with it, the
// volume is mounted and later unmounted. The kernel of the test hosts has no NFS, so a
// replacement mounts a tmpfs.
func TestNFSByTheHostsProgram(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", volumePod("p", "[{name: share, nfs: {server: files.example.com, path: /export, readOnly: true}}]", "[{name: share, mountPath: /share}]", ""))
		bin := filepath.Join(n.Dir(), "bin")
		n.Env = append(n.Env, "PATH="+bin+":"+os.Getenv("PATH"))
		n.start()
		n.awaitWaiting("p", "FailedMount", `volume "share"`, "this host cannot mount NFS", "apt-get install nfs-common")
		writeAll(t, bin, map[string]string{"mount.nfs": "#!/bin/sh\nmount -t tmpfs none \"$2\" && echo \"$1 $3 $4\" > \"$2/arguments\"\n"})
		if err := os.Chmod(filepath.Join(bin, "mount.nfs"), 0o755); err != nil {
			t.Fatal(err)
		}
		main := n.awaitRunning("p")
		n.mustContain(main, map[string]string{
			"cat /share/arguments":                         "files.example.com:/export -o ro",
			"touch /share/x 2>/dev/null || echo read-only": "read-only",
		})
		n.restart()
		p := n.awaitReady("p")
		if got := n.mountsOf(string(p.UID)); len(got) != 1 {
			t.Errorf("mounted %v, want one mount", got)
		}
		n.removeManifest("p.yaml")
		n.awaitPodDirGone(p)
	})
}

// A daemon that crashed leaves mounts; the next one unmounts those of pods that are no longer
// wanted. A foreign mount in a pod's directory is neither deleted nor unmounted, and the
// directory stays until the mount is gone.
func TestTeardownStopsAtMounts(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		host := filepath.Join(n.Dir(), "precious")
		writeAll(t, host, map[string]string{"data": "do not delete"})
		n.writeManifest("p.yaml", volumePod("p", "[{name: memory, emptyDir: {medium: Memory}}, {name: disk, emptyDir: {}}]",
			"[{name: memory, mountPath: /memory}, {name: disk, mountPath: /disk, subPath: part}, {name: disk, mountPath: /whole}]", ""))
		n.start()
		main := n.awaitRunning("p")
		n.exec(main, "sh", "-c", "mkdir -p /whole/a/b; ln -s "+host+" /whole/a/link; echo x > /whole/a/b/c")
		p := n.awaitReady("p")
		inside := filepath.Join(n.Root, "pods", string(p.UID), "volumes/kubernetes.io~empty-dir/disk/a/b")
		if err := unix.Mount(host, inside, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(inside, unix.MNT_DETACH) })
		n.Kill()
		n.removeManifest("p.yaml")
		n.removePods()
		n.start()
		n.await("the log names the foreign mount", func() error {
			log, err := os.ReadFile(n.Log())
			if err == nil && !strings.Contains(string(log), "umount "+inside) {
				err = errors.New("it does not contain " + inside)
			}
			return err
		})
		if data, err := os.ReadFile(filepath.Join(host, "data")); err != nil || string(data) != "do not delete" {
			t.Fatalf("%q, %v: deleted across a mount", data, err)
		}
		if got := n.mountsOf("/disk/a/b"); len(got) != 1 {
			t.Fatalf("a foreign mount was unmounted: %v", got)
		}
		if err := unix.Unmount(inside, 0); err != nil {
			t.Fatal(err)
		}
		n.awaitPodDirGone(p)
		if data, err := os.ReadFile(filepath.Join(host, "data")); err != nil || string(data) != "do not delete" {
			t.Fatalf("%q, %v: deleted through a link", data, err)
		}
	})
}
