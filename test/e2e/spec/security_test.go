package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// procStatus returns the lines of /proc/PID/status. The process of a container that was just
// started may still be runc.
func procStatus(t *testing.T, pid int) map[string]string {
	t.Helper()
	var lines map[string]string
	harness.Await(t, fmt.Sprintf("process %d runs the container's command", pid), func() error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return err
		}
		lines = map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			lines[name] = strings.Join(strings.Fields(value), " ")
		}
		if strings.HasPrefix(lines["Name"], "runc") {
			return fmt.Errorf("it is %s", lines["Name"])
		}
		return nil
	})
	return lines
}

// idMap returns a user or group as it is in /proc/PID/status: real, effective, saved and file
// system ID.
func idMap(n int) string { return fmt.Sprintf("%[1]d %[1]d %[1]d %[1]d", n) }

// namespace returns the identity of a process's namespace.
func namespace(t *testing.T, pid int, kind string) string {
	t.Helper()
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// userImage returns the busybox image with a user, under its own name.
func userImage(t *testing.T, user string) string {
	t.Helper()
	img, err := testbed.Busybox()
	if err != nil {
		t.Fatal(err)
	}
	img.Config.User = user
	ref := "docker.io/library/user-" + strings.NewReplacer(":", "-").Replace(user) + ":1"
	if err := harness.Registry.Push(ref, img); err != nil {
		t.Fatal(err)
	}
	return ref
}

// imageWithGroup returns the busybox image with a user 1000 who is in group 5000.
func imageWithGroup(t *testing.T) string {
	t.Helper()
	img, err := testbed.Busybox()
	if err != nil {
		t.Fatal(err)
	}
	img, err = testbed.WithFiles(img, map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n",
		"etc/group":  "root:x:0:\nalice:x:1000:\nfive:x:5000:alice\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	const ref = "docker.io/library/group:1"
	if err := harness.Registry.Push(ref, img); err != nil {
		t.Fatal(err)
	}
	return ref
}

// The users, groups, capabilities and file system access of a container, as the kernel has
// them.
func TestSecurityContext(t *testing.T) {
	numeric := userImage(t, "1234:5678")
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		harness.WriteAll(t, filepath.Join(n.Root, "seccomp/profiles"), map[string]string{
			"no-mkdir.json": `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13}]}`,
		})
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  securityContext:
    runAsUser: 1000
    runAsGroup: 2000
    runAsNonRoot: true
    supplementalGroups: [3001, 3002]
    seccompProfile: {type: RuntimeDefault}
  initContainers:
    - {name: init, image: %[1]s, command: [sh, -c, "id -u > /dev/termination-log"], securityContext: {runAsUser: 1003}}
  containers:
    - {name: plain, image: %[1]s, command: [sleep, "100000"]}
    - name: own
      image: %[1]s
      command: [sleep, "100000"]
      securityContext:
        runAsUser: 1001
        runAsGroup: 2001
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
        seccompProfile: {type: Unconfined}
    - name: root
      image: %[1]s
      command: [sleep, "100000"]
      securityContext:
        runAsUser: 0
        runAsNonRoot: false
        capabilities: {drop: [ALL], add: [NET_BIND_SERVICE, cap_chown]}
        seccompProfile: {type: Localhost, localhostProfile: profiles/no-mkdir.json}
    - name: privileged
      image: %[1]s
      command: [sleep, "100000"]
      securityContext: {runAsUser: 0, runAsNonRoot: false, privileged: true}
---
apiVersion: v1
kind: Pod
metadata: {name: image}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - {name: users, image: %[2]s, command: [sleep, "100000"], securityContext: {runAsNonRoot: true}}
    - {name: group, image: %[2]s, command: [sleep, "100000"], securityContext: {runAsGroup: 2001}}
    - {name: open, image: %[2]s, command: [sleep, "100000"]}
`, testbed.BusyboxImage, numeric))
		n.MustStart()
		status := func(pod, container string) (harness.Instance, map[string]string) {
			i := n.AwaitContainer(pod, container)
			return i, procStatus(t, i.Pid)
		}
		for _, c := range []struct {
			pod, container string
			want           map[string]string
		}{
			{"p", "plain", map[string]string{"Uid": idMap(1000), "Gid": idMap(2000), "Groups": "2000 3001 3002",
				"CapEff": "0000000000000000", "NoNewPrivs": "0", "Seccomp": "2"}},
			{"p", "own", map[string]string{"Uid": idMap(1001), "Gid": idMap(2001), "Groups": "2001 3001 3002",
				"CapBnd": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "0"}},
			// CAP_CHOWN is bit 0, CAP_NET_BIND_SERVICE bit 10.
			{"p", "root", map[string]string{"Uid": idMap(0), "CapEff": "0000000000000401", "CapBnd": "0000000000000401",
				"Seccomp": "2"}},
			{"p", "privileged", map[string]string{"Uid": idMap(0), "CapEff": procStatus(t, os.Getpid())["CapEff"],
				"Seccomp": "0"}},
			{"image", "users", map[string]string{"Uid": idMap(1234), "Gid": idMap(5678)}},
			{"image", "group", map[string]string{"Uid": idMap(1234), "Gid": idMap(2001)}},
			// The runtime's defaults.
			{"image", "open", map[string]string{"Uid": idMap(1234), "Gid": idMap(5678), "CapBnd": "00000000a80425fb",
				"NoNewPrivs": "0", "Seccomp": "0"}},
		} {
			_, got := status(c.pod, c.container)
			for name, want := range c.want {
				if got[name] != want {
					t.Errorf("%s of %s/%s is %q, want %q", name, c.pod, c.container, got[name], want)
				}
			}
		}
		if got := n.AwaitReady("p").Status.InitContainerStatuses[0].State.Terminated.Message; strings.TrimSpace(
			got) != "1003" {
			t.Errorf("the init container ran as %q, want 1003", got)
		}
		// The status has the users if the runtime reports them.
		for _, s := range slices.Concat(n.AwaitReady("p").Status.ContainerStatuses,
			n.AwaitReady("image").Status.ContainerStatuses) {
			pod := "p"
			if slices.Contains([]string{"users", "group", "open"}, s.Name) {
				pod = "image"
			}
			_, proc := status(pod, s.Name)
			switch {
			case n.Runtime.Kind == testbed.Containerd16:
				if s.User != nil {
					t.Errorf("user of %s: %+v", s.Name, s.User)
				}
			case s.User == nil || s.User.Linux == nil:
				t.Errorf("%s has no user", s.Name)
			default:
				groups := slices.Sorted(slices.Values(s.User.Linux.SupplementalGroups))
				if u := s.User.Linux; idMap(int(u.UID)) != proc["Uid"] || idMap(int(u.GID)) != proc["Gid"] ||
					strings.Trim(fmt.Sprint(groups), "[]") != strings.TrimSpace(proc["Groups"]) {
					t.Errorf("user of %s is %+v, the kernel has %s, %s, %s", s.Name, u, proc["Uid"], proc["Gid"], proc["Groups"])
				}
			}
		}
		plain, _ := status("p", "plain")
		own, _ := status("p", "own")
		root, _ := status("p", "root")
		privileged, _ := status("p", "privileged")
		for _, c := range []struct {
			in        harness.Instance
			run, want string
		}{
			{plain, "touch /etc/x 2>/dev/null && echo yes || echo no", "no"}, // the container does not run as root
			{own, "grep -c ' / overlay ro,' /proc/self/mounts", "1"},
			{root, "grep -c ' / overlay ro,' /proc/self/mounts", "0"},
			{root, "mkdir /tmp/y 2>/dev/null || echo denied", "denied"},
			{privileged, "mkdir /tmp/y && echo made", "made"},
			{root, "test -e /dev/kmsg || echo none", "none"},
			{privileged, "test -c /dev/kmsg && echo there", "there"},
			{root, "grep -c ' /proc/sys ' /proc/self/mounts", "1"},
			{privileged, "grep -c ' /proc/sys ' /proc/self/mounts", "0"},
		} {
			if got := n.Exec(c.in, "sh", "-c", c.run+"; true"); got != c.want {
				t.Errorf("%s: got %q, want %q", c.run, got, c.want)
			}
		}
	})
}

// A container whose security context cannot be satisfied is not started, and its status reports
// why.
func TestSecurityContextThatCannotBe(t *testing.T) {
	named := userImage(t, "nobody")
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true}
  containers:
    - {name: image, image: %[1]s, command: [sleep, "100000"]}
    - {name: named, image: %[2]s, command: [sleep, "100000"]}
    - {name: zero, image: %[1]s, command: [sleep, "100000"], securityContext: {runAsUser: 0}}
    - {name: profile, image: %[1]s, command: [sleep, "100000"], securityContext: {runAsUser: 1, seccompProfile: {type: Localhost, localhostProfile: gone.json}}}
    - {name: good, image: %[2]s, command: [sleep, "100000"], securityContext: {runAsUser: 7}}
`, testbed.BusyboxImage, named))
		n.MustStart()
		good := n.AwaitContainer("p", "good")
		if got := procStatus(t, good.Pid)["Uid"]; got != idMap(7) {
			t.Errorf("runs as %q", got)
		}
		want := map[string]string{
			"image":   "the image runs as root",
			"named":   `names its user "nobody"`,
			"zero":    "runAsUser is 0",
			"profile": "put it at " + filepath.Join(n.Root, "seccomp/gone.json"),
		}
		n.AwaitStatus("p", "the others wait with a message", func(p v1.Pod) error {
			for _, c := range p.Status.ContainerStatuses {
				words, bad := want[c.Name]
				if w := c.State.Waiting; bad &&
					(w == nil || w.Reason != "CreateContainerConfigError" || !strings.Contains(w.Message, words)) {
					return fmt.Errorf("%s is %+v", c.Name, c.State)
				}
			}
			return nil
		})
	})
}

// The process and IPC namespaces of a pod.
func TestSharedNamespaces(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		for name, fields := range map[string]string{"host": "hostPID: true, hostIPC: true",
			"share": "shareProcessNamespace: true", "own": "shareProcessNamespace: false"} {
			n.WriteManifest(name+".yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[2]s}
spec:
  {%[3]s, terminationGracePeriodSeconds: 0, containers: [
    {name: a, image: %[1]s, command: [sleep, "100000"]},
    {name: b, image: %[1]s, command: [sleep, "100000"]}]}
`, testbed.BusyboxImage, name, fields))
		}
		n.MustStart()
		all := map[string]map[string][2]string{}
		host := os.Getpid()
		for _, name := range []string{"host", "share", "own"} {
			a, b := n.AwaitContainer(name, "a").Pid, n.AwaitContainer(name, "b").Pid
			all[name] = map[string][2]string{}
			for _, kind := range []string{"pid", "ipc"} {
				all[name][kind] = [2]string{namespace(t, a, kind), namespace(t, b, kind)}
			}
		}
		pid, ipc := namespace(t, host, "pid"), namespace(t, host, "ipc")
		if got := all["host"]; got["pid"] != [2]string{pid, pid} || got["ipc"] != [2]string{ipc, ipc} {
			t.Errorf("hostPID and hostIPC: got %v, want the host's %s %s", got, pid, ipc)
		}
		for _, name := range []string{"share", "own"} {
			got := all[name]
			if got["ipc"][0] != got["ipc"][1] || got["ipc"][0] == ipc {
				t.Errorf("%s: IPC namespaces %v, want one for the pod", name, got["ipc"])
			}
			if shared := got["pid"][0] == got["pid"][1]; shared != (name == "share") || got["pid"][0] == pid {
				t.Errorf("%s: PID namespaces %v", name, got["pid"])
			}
		}
	})
}

// --seccomp-default applies to containers without a seccomp profile. Setting it, or removing
// it, leaves running containers as they are.
func TestSeccompDefault(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("before.yaml", harness.SleepPod("before", "one"))
		n.MustStart()
		before := n.AwaitRunning("before")
		n.AwaitReady("before")
		n.Kill()
		n.Args = []string{"--seccomp-default"}
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - {name: main, image: %[1]s, command: [sleep, "100000"]}
    - {name: open, image: %[1]s, command: [sleep, "100000"], securityContext: {seccompProfile: {type: Unconfined}}}
`, testbed.BusyboxImage))
		n.MustStart()
		if got := procStatus(t, n.AwaitRunning("p").Pid)["Seccomp"]; got != "2" {
			t.Errorf("Seccomp is %s, want 2 (a filter)", got)
		}
		if got := procStatus(t, n.AwaitContainer("p", "open").Pid)["Seccomp"]; got != "0" {
			t.Errorf("Seccomp of the unconfined container is %s", got)
		}
		n.AwaitReady("p")
		n.AwaitReady("before")
		n.MustStillRun("before", before)
		if got := procStatus(t, before.Pid)["Seccomp"]; got != "0" {
			t.Errorf("Seccomp of the container from before is %s", got)
		}
		after := n.AwaitRunning("p")
		n.Kill()
		n.Args = nil
		n.WriteManifest("next.yaml", harness.SleepPod("next", "one"))
		n.MustStart()
		n.AwaitReady("next")
		n.AwaitReady("p")
		n.MustStillRun("p", after)
		n.MustStillRun("before", before)
	})
}

// Annotations of profiles from before Kubernetes 1.19 and 1.30 have their effect, and a
// warning.
func TestProfileAnnotations(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations:
    seccomp.security.alpha.kubernetes.io/pod: runtime/default
    container.seccomp.security.alpha.kubernetes.io/open: unconfined
    container.apparmor.security.beta.kubernetes.io/open: unconfined
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - {name: plain, image: %[1]s, command: [sleep, "100000"]}
    - {name: open, image: %[1]s, command: [sleep, "100000"]}
`, testbed.BusyboxImage))
		n.MustStart()
		for container, mode := range map[string]string{"plain": "2", "open": "0"} {
			if got := procStatus(t, n.AwaitContainer("p", container).Pid)["Seccomp"]; got != mode {
				t.Errorf("%s: Seccomp is %q, want %q", container, got, mode)
			}
		}
	})
}
