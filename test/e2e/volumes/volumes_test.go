package volumes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestEmptyDirInMemory(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("memory") {
			return
		}
		n.WriteManifest("p.yaml", harness.VolumePod("p",
			"[{name: own, emptyDir: {medium: Memory, sizeLimit: 3Mi}}, {name: all, emptyDir: {medium: Memory}}, {name: huge, "+
				"emptyDir: {medium: HugePages-2Mi}}]",
			"[{name: own, mountPath: /own}, {name: all, mountPath: /all}, {name: huge, mountPath: /huge}]", ""))
		n.MustStart()
		main := n.AwaitRunning("p")
		n.MustContain(main, map[string]string{
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
		n.Restart()
		if _, err := n.Runtime.CRI.Exec(t.Context(), main.ID, "kill", "-9", "1"); err == nil {
			n.Exec(main, "true")
		}
		n.MustContain(n.AwaitRunning("p"), map[string]string{"cat /own/f": "kept"})
		p := n.AwaitReady("p")
		if got := len(n.MountsOf(string(p.UID))); got != 3 {
			t.Errorf("%d mounts for the pod's volumes, want 3: %v", got, n.MountsOf(string(p.UID)))
		}
		n.RemoveManifest("p.yaml")
		n.AwaitPodDirGone(p)
	})
}

func TestDownwardVolume(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		manifest := harness.VolumePod("p", `[{name: info, downwardAPI: {defaultMode: 0440, items: [
  {path: labels, fieldRef: {fieldPath: metadata.labels}},
  {path: "sub/tier", mode: 0400, fieldRef: {fieldPath: "metadata.labels['tier']"}},
  {path: name, fieldRef: {fieldPath: metadata.name}},
  {path: memory, resourceFieldRef: {containerName: main, resource: limits.memory, divisor: 1Mi}},
  {path: cpu, resourceFieldRef: {containerName: main, resource: requests.cpu}}]}}]`,
			"[{name: info, mountPath: /info}]", "")
		manifest = strings.Replace(manifest, "metadata: {", "metadata: {uid: fixed-"+n.Name+", ", 1)
		n.WriteManifest("p.yaml", manifest)
		n.MustStart()
		main := n.AwaitRunning("p")
		n.MustContain(main, map[string]string{
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
		n.WriteManifest("p.yaml", strings.Replace(manifest, "tier: front", "tier: back", 1))
		n.AwaitExec(main, "back", "cat", "/info/sub/tier")
		n.MustStillRun("p", main)
		// The previous directory is removed after the change.
		n.AwaitExec(main, "1", "sh", "-c", "ls -A /info | grep -c '^\\.\\.2'")
	})
}

func TestSubPaths(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		host := filepath.Join(n.Dir(), "host")
		harness.WriteAll(t, host+"/in", map[string]string{"file": "inside\n"})
		harness.WriteAll(t, host+"/secret", map[string]string{"key": "outside\n"})
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
		n.WriteManifest("p.yaml", harness.VolumePod("p", volumes, `[
  {name: host, mountPath: /etc/file, subPath: file},
  {name: host, mountPath: /etc/near, subPath: near, readOnly: true},
  {name: host, mountPath: /made, subPath: made/below},
  {name: tmp, mountPath: /all},
  {name: tmp, mountPath: /part, subPathExpr: "a/$(PART)"}]`, ""))
		for link, word := range map[string]string{"up/key": "leads out of the volume",
			"absolute/key": "leads out of the volume", "round": "too many levels"} {
			name := "bad-" + link[:2]
			n.WriteManifest(name+".yaml", harness.VolumePod(name, volumes,
				fmt.Sprintf("[{name: host, mountPath: /x, subPath: %s}]", link), ""))
			_ = word
		}
		n.WriteManifest("unset.yaml", harness.VolumePod("unset", volumes,
			`[{name: tmp, mountPath: /x, subPathExpr: "$(NOBODY)"}]`, ""))
		n.MustStart()
		main := n.AwaitRunning("p")
		n.MustContain(main, map[string]string{
			"cat /etc/file /etc/near":                              "inside\ninside",
			"stat -c %a /made":                                     "2775",
			"echo x > /part/y; cat /all/a/from-env/y":              "x",
			"stat -c %a /part":                                     "777",
			"echo more >> /etc/near 2>/dev/null || echo read-only": "read-only",
		})
		if _, err := os.Stat(filepath.Join(host, "in/made/below")); err != nil {
			t.Error(err)
		}
		n.AwaitWaiting("bad-up", "CreateContainerConfigError", "leads out of the volume", "up/key")
		n.AwaitWaiting("bad-ab", "CreateContainerConfigError", "leads out of the volume", "absolute/key")
		n.AwaitWaiting("bad-ro", "CreateContainerConfigError", "too many levels of symbolic links")
		n.AwaitWaiting("unset", "CreateContainerConfigError", "NOBODY")
		p := n.AwaitReady("p")
		if got := len(n.MountsOf(string(p.UID))); got != 4 {
			t.Errorf("%d subpaths are mounted, want 4: %v", got, n.MountsOf(string(p.UID)))
		}
		// Removing the pod removes none of the host's files.
		n.RemoveManifest("p.yaml")
		n.AwaitPodDirGone(p)
		for _, file := range []string{"in/file", "in/near", "in/made/below", "secret/key"} {
			if _, err := os.Stat(filepath.Join(host, file)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestFSGroup(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		host := filepath.Join(n.Dir(), "host")
		harness.WriteAll(t, host, map[string]string{"file": "x"})
		n.WriteManifest("p.yaml", harness.VolumePod("p",
			fmt.Sprintf(
				`[{name: disk, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}, {name: host, hostPath: {path: %s}},
  {name: info, downwardAPI: {defaultMode: 0400, items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]`, host),
			"[{name: disk, mountPath: /disk}, {name: memory, mountPath: /memory}, {name: host, mountPath: /host}, {name: "+
				"info, mountPath: /info}]",
			"  securityContext: {runAsUser: 1234, fsGroup: 2345, fsGroupChangePolicy: OnRootMismatch}"))
		n.MustStart()
		n.MustContain(n.AwaitRunning("p"), map[string]string{
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
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
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
		n.WriteManifest("p.yaml", harness.VolumePod("p", fmt.Sprintf("[{name: host, hostPath: {path: %s}}]", host), `[
  {name: host, mountPath: /follows, mountPropagation: HostToContainer}, {name: host, mountPath: /stays}]`, ""))
		n.WriteManifest("q.yaml", harness.VolumePod("q", fmt.Sprintf("[{name: host, hostPath: {path: %s}}]", private),
			"[{name: host, mountPath: /x, mountPropagation: HostToContainer}]", ""))
		n.MustStart()
		n.WriteManifest("r.yaml", strings.Replace(harness.VolumePod("r", "[{name: up, emptyDir: {}}]",
			"[{name: up, mountPath: /up, mountPropagation: Bidirectional}]", ""), "      volumeMounts",
			"      securityContext: {privileged: true}\n      volumeMounts", 1))
		main := n.AwaitRunning("p")
		mount(t, "tmpfs", host+"/disk")
		harness.WriteAll(t, host+"/disk", map[string]string{"late": "here"})
		n.MustContain(main, map[string]string{
			"cat /follows/disk/late":                          "here",
			"cat /stays/disk/late 2>/dev/null || echo hidden": "hidden",
		})
		n.AwaitWaiting("q", "CreateContainerConfigError", "mountPropagation HostToContainer needs a shared mount",
			"mount --make-rshared "+private)
		mountShared(n, private)
		r := n.AwaitRunning("r")
		n.Exec(r, "sh", "-c", "mkdir /up/m && mount -t tmpfs none /up/m && touch /up/m/x")
		made := filepath.Join(n.Root, "pods", string(n.AwaitReady("r").UID), "volumes/kubernetes.io~empty-dir/up/m")
		if _, err := os.Stat(made + "/x"); err != nil {
			t.Errorf("the container's mount is not on the host: %v", err)
		}
		n.Exec(r, "sh", "-c", "umount /up/m")
	})
}

// On a host whose mounts are private, those below the daemon's directory are made shared.
func TestMountPropagationOnAPrivateHost(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if err := os.MkdirAll(n.Root, 0o755); err != nil {
			t.Fatal(err)
		}
		mount(t, "tmpfs", n.Root)
		if err := unix.Mount("", n.Root, "", unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		n.WriteManifest("p.yaml", strings.Replace(harness.VolumePod("p", "[{name: up, emptyDir: {medium: Memory}}]",
			"[{name: up, mountPath: /up, mountPropagation: Bidirectional}]", ""), "      volumeMounts",
			"      securityContext: {privileged: true}\n      volumeMounts", 1))
		n.MustStart()
		main := n.AwaitRunning("p")
		n.Exec(main, "sh", "-c", "mkdir /up/m && mount -t tmpfs none /up/m && touch /up/m/x")
		p := n.AwaitReady("p")
		if _, err := os.Stat(filepath.Join(n.Root, "pods", string(p.UID),
			"volumes/kubernetes.io~empty-dir/up/m/x")); err != nil {
			t.Errorf("the container's mount is not on the host: %v", err)
		}
		n.Exec(main, "sh", "-c", "umount /up/m")
		n.Restart()
		n.MustStillRun("p", main)
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		if len(n.MountsOf("/pods")) == 0 {
			t.Error("the mounts of a pod that runs are gone after the end of the daemon")
		}
		n.MustStart()
		n.Exec(main, "sh", "-c", "mkdir -p /up/m && mount -t tmpfs none /up/m && touch /up/m/y && umount /up/m")
		n.RemoveManifest("p.yaml")
		n.AwaitPodDirGone(p)
		// The directories stay mounted while another mount namespace has them, as that of a container which another
		// test starts at this moment has until it has changed its root. Another end of the daemon unmounts them then.
		for attempt := 1; ; attempt++ {
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			err := errors.Join(os.RemoveAll(filepath.Join(n.Root, "pods")), os.RemoveAll(filepath.Join(n.Root, "plugins")))
			if err == nil {
				break
			}
			if attempt == 10 {
				t.Fatalf("after %d ends of the daemon without pods: %v", attempt, err)
			}
			n.MustStart()
		}
	})
}

// mountShared makes a private mount shared, as the pod's message requests, and waits until the
// pod starts.
func mountShared(n *harness.Node, path string) {
	n.T.Helper()
	if err := unix.Mount("", path, "", unix.MS_SHARED, ""); err != nil {
		n.T.Fatal(err)
	}
	n.AwaitRunning("q")
}

// mount mounts a file system on a directory until the test ends.
func mount(t *testing.T, fsType, path string) {
	t.Helper()
	if err := unix.Mount(fsType, path, fsType, 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
}

// NFS needs the host's mount.nfs. If it is missing, the pod's status reports it; with it, the
// volume is mounted and later unmounted. The kernel of the test hosts has no NFS, so a
// replacement mounts a tmpfs.
func TestNFSByTheHostsProgram(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.VolumePod("p",
			"[{name: share, nfs: {server: files.example.com, path: /export, readOnly: true}}]",
			"[{name: share, mountPath: /share}]", ""))
		bin := filepath.Join(n.Dir(), "bin")
		n.Env = append(n.Env, "PATH="+bin+":"+os.Getenv("PATH"))
		n.MustStart()
		n.AwaitWaiting("p", "FailedMount", `volume "share"`, "this host cannot mount NFS", "apt-get install nfs-common")
		harness.WriteAll(t, bin, map[string]string{"mount.nfs": "#!/bin/sh\nmount -t tmpfs none \"$2\" && echo \"$1 $3 " +
			"$4\" > \"$2/arguments\"\n"})
		if err := os.Chmod(filepath.Join(bin, "mount.nfs"), 0o755); err != nil {
			t.Fatal(err)
		}
		main := n.AwaitRunning("p")
		n.MustContain(main, map[string]string{
			"cat /share/arguments":                         "files.example.com:/export -o ro",
			"touch /share/x 2>/dev/null || echo read-only": "read-only",
		})
		n.Restart()
		p := n.AwaitReady("p")
		if got := n.MountsOf(string(p.UID)); len(got) != 1 {
			t.Errorf("mounted %v, want one mount", got)
		}
		n.RemoveManifest("p.yaml")
		n.AwaitPodDirGone(p)
	})
}

// A daemon that crashed leaves mounts; the next one unmounts those of pods that are no longer
// desired. A foreign mount in a pod's directory is neither deleted nor unmounted, and the
// directory stays until the mount is gone.
func TestTeardownStopsAtMounts(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		host := filepath.Join(n.Dir(), "precious")
		harness.WriteAll(t, host, map[string]string{"data": "do not delete"})
		n.WriteManifest("p.yaml", harness.VolumePod("p",
			"[{name: memory, emptyDir: {medium: Memory}}, {name: disk, emptyDir: {}}]",
			"[{name: memory, mountPath: /memory}, {name: disk, mountPath: /disk, subPath: part}, {name: disk, mountPath: "+
				"/whole}]", ""))
		n.MustStart()
		main := n.AwaitRunning("p")
		n.Exec(main, "sh", "-c", "mkdir -p /whole/a/b; ln -s "+host+" /whole/a/link; echo x > /whole/a/b/c")
		p := n.AwaitReady("p")
		inside := filepath.Join(n.Root, "pods", string(p.UID), "volumes/kubernetes.io~empty-dir/disk/a/b")
		if err := unix.Mount(host, inside, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(inside, unix.MNT_DETACH) })
		n.Kill()
		n.RemoveManifest("p.yaml")
		n.RemovePods()
		n.MustStart()
		n.Await("the log names the foreign mount", func() error {
			log, err := os.ReadFile(n.Log())
			if err == nil && !strings.Contains(string(log), "umount "+inside) {
				err = errors.New("it does not contain " + inside)
			}
			return err
		})
		if data, err := os.ReadFile(filepath.Join(host, "data")); err != nil || string(data) != "do not delete" {
			t.Fatalf("%q, %v: deleted across a mount", data, err)
		}
		if got := n.MountsOf("/disk/a/b"); len(got) != 1 {
			t.Fatalf("a foreign mount was unmounted: %v", got)
		}
		if err := unix.Unmount(inside, 0); err != nil {
			t.Fatal(err)
		}
		n.AwaitPodDirGone(p)
		if data, err := os.ReadFile(filepath.Join(host, "data")); err != nil || string(data) != "do not delete" {
			t.Fatalf("%q, %v: deleted through a link", data, err)
		}
	})
}
