package machine

import (
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// A pod with its own user namespace, with a containerd and a runc that support it: root of the
// container is another user of the host, and owns the files of its volumes.
func testUserNamespaces(m *Machine) {
	t := m.t
	for _, p := range []string{
		testbed.Containerd24.Binary(), filepath.Join(filepath.Dir(testbed.Containerd24.Binary()), "containerd-shim-runc-v2"),
		testbed.Containerd24.OtherRunc(),
	} {
		if _, err := os.Stat(p); err != nil {
			t.Fatal(err)
		}
		m.CopyIn(p, "/usr/local/bin/"+filepath.Base(p), 0o755)
	}
	m.Write("/etc/containerd/config.toml", `version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "`+pauseImage+`"
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    SystemdCgroup = true
`)
	m.Write("/etc/systemd/system/containerd.service.d/test.conf",
		"[Service]\nExecStart=\nExecStart=/usr/local/bin/containerd\n")
	m.Sh("systemctl daemon-reload && systemctl restart containerd && systemctl restart podstead")
	apply(m, testPod{name: "user", revision: "1", spec: ", hostUsers: false, volumes: [{name: data, emptyDir: {}}]",
		container: ", volumeMounts: [{name: data, mountPath: /data}]"})
	p := awaitReady(m, settle, "user")["user"]
	pid := mainPid(m, "user")
	if p.Status.Phase != v1.PodRunning {
		t.Fatal(p.Status.Phase)
	}
	if got := m.Sh("stat -c %u /proc/" + pid); got == "0" {
		t.Error("root of the container is root of the host")
	}
	if got := strings.Fields(m.Sh("cat /proc/" + pid + "/uid_map")); len(got) != 3 || got[0] != "0" || got[1] == "0" ||
		got[2] != "65536" {
		t.Errorf("uid_map is %q, want 65536 IDs of the host", got)
	}
	if out := m.Sh("podstead exec user -- sh -c 'id -u; touch /data/x && stat -c %u /data/x'"); out != "0\n0" {
		t.Errorf("in the container: %q, want root", out)
	}
	m.Sh("rm /etc/pods/user.yaml")
	awaitInstances(m, nil, settle)
}
