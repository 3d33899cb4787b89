package preflight

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testHost is a host made of files. It is healthy until a test breaks a part of it.
type testHost struct {
	t        *testing.T
	host     Host
	settings Settings
	space    map[string]Space
	synced   bool
	syncErr  error
}

var healthyFiles = map[string]string{
	"proc/self/status": "Name:\tx\nCapEff:\t000001ffffffffff\n",
	"proc/self/mountinfo": `22 1 0:21 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
23 1 254:0 / / rw - ext4 /dev/vda rw
`,
	"sys/fs/cgroup/cgroup.controllers":            "cpuset cpu io memory hugetlb pids rdma misc\n",
	"run/systemd/system/x":                        "",
	"proc/filesystems":                            "nodev\tsysfs\nnodev\toverlay\n\text4\n",
	"proc/swaps":                                  "Filename\tType\tSize\tUsed\tPriority\n",
	"proc/sys/kernel/osrelease":                   "6.12.1\n",
	"proc/sys/vm/overcommit_memory":               "1\n",
	"proc/sys/vm/panic_on_oom":                    "0\n",
	"proc/sys/kernel/panic":                       "10\n",
	"proc/sys/kernel/panic_on_oops":               "1\n",
	"proc/sys/kernel/keys/root_maxkeys":           "1000000\n",
	"proc/sys/kernel/keys/root_maxbytes":          "25000000\n",
	"proc/sys/fs/inotify/max_user_instances":      "128\n",
	"proc/sys/fs/inotify/max_user_watches":        "65536\n",
	"proc/sys/net/ipv4/ip_forward":                "1\n",
	"proc/sys/net/bridge/bridge-nf-call-iptables": "1\n",
	"proc/net/tcp": "  sl  local_address rem_address   st\n   0: 0100007F:1F90 " +
		"00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1594 1 0 100 0 0 10 0\n",
	"proc/net/tcp6":                  "  sl  local_address\n",
	"proc/net/route":                 "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\neth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n",
	"proc/1/cmdline":                 "init\x00",
	"etc/machine-id":                 "abc\n",
	"etc/resolv.conf":                "nameserver 10.0.0.1\n",
	"etc/pods/a.yaml":                "",
	"etc/cni/net.d/10-pods.conflist": `{"name": "pods", "plugins": [{"type": "bridge", "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local"}}, {"type": "portmap"}]}`,
	"var/lib/podstead/x":             "",
	"var/log/pods/x":                 "",
	"run/podstead/x":                 "",
	"run/containerd/containerd.sock": "",
}

var programs = []string{"usr/lib/cni/bridge", "usr/lib/cni/portmap", "usr/lib/cni/host-local", "usr/lib/cni/loopback",
	"usr/sbin/iptables", "usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/sbin/runc"}

func newTestHost(t *testing.T) *testHost {
	b := &testHost{t: t, synced: true, space: map[string]Space{}}
	b.host = Host{
		Root: t.TempDir(), Now: func() time.Time { return time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC) },
		Synchronized: func() (bool, error) { return b.synced, b.syncErr },
		Space: func(path string) (Space, error) {
			rel, _ := filepath.Rel(b.host.Root, path)
			if s, ok := b.space[rel]; ok {
				return s, nil
			}
			return Space{Bytes: 100, BytesFree: 50, Inodes: 100, InodesFree: 50}, nil
		},
		Path: []string{"/usr/bin", "/usr/sbin"},
	}
	b.settings = Settings{
		Root: "/var/lib/podstead", PodLogs: "/var/log/pods", Manifests: "/etc/pods", Socket: "/run/podstead/podstead.sock",
		Ports:      map[string]string{"health": "127.0.0.1:10248", "nothing": ""},
		CNI:        CNI{ConfDir: "/etc/cni/net.d", BinDirs: []string{"/opt/cni/bin", "/usr/lib/cni"}},
		ResolvConf: "/etc/resolv.conf",
		Built:      time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		MinFree: percent(map[string]int64{"nodefs.available": 10, "imagefs.available": 15, "nodefs.inodesFree": 5,
			"imagefs.inodesFree": 5}),
		Runtime: Runtime{Endpoint: "unix:///run/containerd/containerd.sock", Name: "containerd", Version: "v1.7.2",
			CgroupDriver: "systemd",
			PauseImage:   "pause:3.9"},
	}
	for path, text := range healthyFiles {
		b.write(path, text)
	}
	for _, path := range programs {
		b.write(path, "#!")
		b.chmod(path, 0o755)
	}
	return b
}

func (b *testHost) write(path, text string) {
	b.t.Helper()
	path = filepath.Join(b.host.Root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *testHost) remove(paths ...string) {
	b.t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(filepath.Join(b.host.Root, path)); err != nil {
			b.t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(b.host.Root, path)); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *testHost) chmod(path string, mode os.FileMode) {
	b.t.Helper()
	if err := os.Chmod(filepath.Join(b.host.Root, path), mode); err != nil {
		b.t.Fatal(err)
	}
}

// listen lets a process listen on the health port.
func (b *testHost) listen(pid, address string) {
	b.write("proc/net/tcp", "  sl  local_address rem_address   st\n   0: "+address+
		" 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0 100 0 0 10 0\n")
	b.write("proc/"+pid+"/comm", "nginx\n")
	b.write("proc/"+pid+"/fd/x", "")
	if err := os.Symlink("socket:[777]", filepath.Join(b.host.Root, "proc", pid, "fd", "3")); err != nil {
		b.t.Fatal(err)
	}
}

const (
	healthPort = "0100007F:2808" // 127.0.0.1:10248
)

// A healthy host gets no warning; each broken part gets one finding, with its fix.
func TestRun(t *testing.T) {
	const v1 = "31 1 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup " +
		"rw,cpu\n33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"34 31 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n35 31 0:32 / /sys/fs/cgroup/cpuset rw - cgroup " +
		"cgroup rw,cpuset\n"
	for name, tc := range map[string]struct {
		breaks func(b *testHost)
		// check is empty if the host is healthy.
		check   string
		level   Level
		message string
		fix     string
	}{
		"healthy": {func(*testHost) {}, "", OK, "", ""},
		"healthy, cgroup v1": {func(
			b *testHost) {
			b.write("proc/self/mountinfo", v1)
			b.settings.Runtime.CgroupDriver = "cgroupfs"
		}, "", OK, "", ""},
		"healthy, a daemon runs": {func(b *testHost) { b.listen("42", healthPort); b.settings.Running = 42 }, "", OK, "", ""},
		"healthy, private runtime": {func(b *testHost) {
			b.remove("etc/cni/net.d", "run/containerd/containerd.sock")
			b.settings.Runtime = Runtime{Endpoint: "unix:///run/podstead/containerd/containerd.sock", Private: true,
				Err: errors.New("no such file")}
		}, "", OK, "", ""},
		"healthy, nothing made yet": {func(b *testHost) { b.remove("var/lib/podstead", "var/log/pods", "run/podstead") }, "",
			OK, "", ""},
		"healthy, forwarding comes": {func(b *testHost) { b.write("proc/sys/net/ipv4/ip_forward", "0\n") }, "", OK, "", ""},
		"healthy, IPv6 only": {func(b *testHost) {
			b.write("proc/net/route", "Iface\n")
			b.write("proc/net/ipv6_route",
				strings.Repeat("0", 32)+" 00 "+strings.Repeat("0", 32)+" 00 fe80 00000400 00000001 00000000 00450003 eth0\n")
		}, "", OK, "", ""},
		"healthy, swap on": {func(b *testHost) {
			b.write("proc/swaps", "Filename\n/dev/sda2 partition 1 0 -2\n")
			b.write("sys/fs/cgroup/system.slice/memory.swap.max", "max")
		}, "", OK, "", ""},
		"healthy, overlay as a module": {func(b *testHost) {
			b.write("proc/filesystems", "\text4\n")
			b.write("lib/modules/6.12.1/modules.dep", "kernel/fs/overlayfs/overlay.ko.xz:\n")
		}, "", OK, "", ""},

		"not root": {func(b *testHost) { b.host.UID = 1000 }, "user", Fail, "user 1000", "sudo"},
		"no CAP_SYS_ADMIN": {func(b *testHost) { b.write("proc/self/status", "CapEff:\t000001ffffdfffff\n") },
			"capabilities", Fail, "CAP_SYS_ADMIN", "with all capabilities"},
		"no CAP_SYS_RESOURCE": {func(b *testHost) { b.write("proc/self/status", "CapEff:\t000001fffeffffff\n") },
			"capabilities", Fail, "containerd does not have CAP_SYS_RESOURCE, so it cannot set the OOM score of sandboxes: no pod",
			"restrict_oom_score_adj = true\\n' >>/etc/containerd/config.toml && systemctl restart containerd"},
		"no CAP_SYS_RESOURCE, not restricted": {func(b *testHost) {
			b.write("proc/4/status", "CapEff:\t000001fffeffffff\n")
			b.write("proc/4/oom_score_adj", "-997\n")
			b.write("etc/own.toml", "version = 3\n")
			b.remove("run/systemd/system")
			r := &b.settings.Runtime
			r.PID, r.ConfigFile, r.RestrictsOOMScore, r.CgroupDriver = 4, "/etc/own.toml", new(bool), "cgroupfs"
		}, "capabilities", Fail, "no pod can start", `printf '\n[plugins."io.containerd.cri.v1.runtime"]\n` +
			`restrict_oom_score_adj = true\n' >>/etc/own.toml  (then restart containerd, which is process 4)`},
		"healthy, restricted without CAP_SYS_RESOURCE": {func(b *testHost) {
			restricts := true
			b.settings.Runtime.RestrictsOOMScore = &restricts
			b.write("proc/self/status", "CapEff:\t000001fffeffffff\n")
		}, "", OK, "", ""},
		"healthy, only the runtime has CAP_SYS_RESOURCE": {func(b *testHost) {
			b.settings.Runtime.PID = 4
			b.write("proc/self/status", "CapEff:\t000001fffeffffff\n")
			b.write("proc/4/status", "CapEff:\t000001ffffffffff\n")
		}, "", OK, "", ""},
		"healthy, a low OOM score without CAP_SYS_RESOURCE": {func(b *testHost) {
			b.settings.Runtime.PID = 4
			b.write("proc/4/status", "CapEff:\t000001fffeffffff\n")
			b.write("proc/4/oom_score_adj", "-999\n")
		}, "", OK, "", ""},
		"no CAP_SYS_RESOURCE, CRI-O": {func(b *testHost) {
			b.write("proc/self/status", "CapEff:\t000001fffeffffff\n")
			r := &b.settings.Runtime
			r.Endpoint, r.Name, r.Version = "unix:///run/crio/crio.sock", "cri-o", "1.30.0"
		}, "capabilities", Fail, "no pod can start", "run crio with CAP_SYS_RESOURCE"},
		"healthy, private runtime to start without CAP_SYS_RESOURCE": {func(b *testHost) {
			b.settings.Runtime = Runtime{Endpoint: "unix:///run/podstead/containerd/containerd.sock", Private: true,
				Err: errors.New("no such file")}
			b.write("proc/self/status", "CapEff:\t000001fffeffffff\n")
		}, "", OK, "", ""},
		"private runtime of a boot with CAP_SYS_RESOURCE": {func(b *testHost) {
			b.settings.Runtime.Private, b.settings.Runtime.RestrictsOOMScore = true, new(bool)
			b.write("proc/self/status", "CapEff:\t000001fffeffffff\n")
		}, "capabilities", Fail, "no pod can start", "reboot"},
		"a kubelet": {func(b *testHost) {
			proc := fakeProc{t, filepath.Join(b.host.Root, "proc")}
			proc.add("77", "/usr/bin/kubelet")
			for _, kind := range []string{"pid", "mnt"} {
				target, _ := os.Readlink(filepath.Join(proc.dir, "77/ns", kind))
				b.write("proc/self/ns/"+kind, "")
				proc.link("self/ns/"+kind, target)
			}
		}, "kubelet", Fail, "pid 77", "systemctl disable --now kubelet"},
		"an unknown runtime": {func(b *testHost) {
			b.settings.Runtime.Endpoint, b.settings.Runtime.Err = "", errors.New("runtime-endpoint cannot be used")
		}, "runtime", Fail, "is unknown: runtime-endpoint cannot be used", "crictl --runtime-endpoint"},
		"no runtime": {func(b *testHost) {
			b.remove("run/containerd/containerd.sock")
			b.settings.Runtime.Err = errors.New("x")
		}, "runtime", Fail, "socket /run/containerd/containerd.sock does not exist", "systemctl enable --now containerd"},
		"an unresponsive runtime": {func(b *testHost) { b.settings.Runtime.Err = errors.New("deadline exceeded") }, "runtime",
			Fail, "does not respond: deadline", "systemctl restart containerd"},
		"a runtime without CRI": {func(
			b *testHost) {
			b.settings.Runtime.Err = errors.New("unknown service runtime.v1.RuntimeService")
		}, "runtime", Fail, "CRI plugin is disabled", "disabled_plugins"},
		"a CRI-O without CRI v1": {func(b *testHost) {
			b.settings.Runtime.Endpoint, b.settings.Runtime.Err = "unix:///run/crio/crio.sock",
				errors.New("unknown service runtime.v1.RuntimeService")
			b.write("run/crio/crio.sock", "")
		}, "runtime", Fail, "too old", "upgrade crio"},
		"no pause image of CRI-O": {func(b *testHost) {
			b.settings.Runtime.Endpoint, b.settings.Runtime.PauseImage,
				b.settings.Runtime.PauseMissing = "unix:///run/crio/crio.sock", "pause:1", true
		}, "pause-image", Warn, "pause:1 is missing", "crictl --runtime-endpoint unix:///run/crio/crio.sock pull pause:1"},
		"no pause image of Docker": {func(b *testHost) {
			b.settings.Runtime.Endpoint, b.settings.Runtime.PauseImage,
				b.settings.Runtime.PauseMissing = "unix:///run/cri-dockerd.sock", "pause:1", true
		}, "pause-image", Warn, "pause:1 is missing", "docker pull pause:1"},
		"no pause image of the private containerd": {func(b *testHost) {
			b.settings.Runtime.Endpoint, b.settings.Runtime.Private = "unix:///run/podstead/containerd/containerd.sock", true
			b.settings.Runtime.PauseImage, b.settings.Runtime.PauseMissing = "pause:1", true
		}, "pause-image", Warn, "pause:1 is missing",
			"ctr --address /run/podstead/containerd/containerd.sock -n k8s.io images pull pause:1"},
		"no pause image of another containerd": {func(b *testHost) {
			b.settings.Runtime.Endpoint, b.settings.Runtime.PauseMissing = "unix:///run/k/c.sock", true
		}, "pause-image", Warn, "pause:3.9 is missing", "ctr --address /run/k/c.sock -n k8s.io images pull pause:3.9"},
		"cgroupfs of CRI-O": {func(b *testHost) {
			b.settings.Runtime.Endpoint, b.settings.Runtime.CgroupDriver = "unix:///run/crio/crio.sock", "cgroupfs"
		}, "cgroup-driver", Warn, "although systemd manages", "cgroup_manager = \"systemd\""},
		"cgroupfs of Docker": {func(b *testHost) {
			b.settings.Runtime.Endpoint, b.settings.Runtime.CgroupDriver = "unix:///run/cri-dockerd.sock", "cgroupfs"
		}, "cgroup-driver", Warn, "although systemd manages", "native.cgroupdriver=systemd"},
		"an old runtime": {func(b *testHost) { b.settings.Runtime.Version = "1.5.9~ds1" }, "runtime", Fail,
			"version 1.6.0 or later", "apt-get install"},
		"a runtime not ready": {func(b *testHost) { b.settings.Runtime.NotReady = "shim is missing" }, "runtime", Fail,
			"shim is missing", "journalctl -u containerd"},
		"a private runtime not ready": {func(b *testHost) {
			b.settings.Runtime = Runtime{Endpoint: "unix:///run/podstead/containerd/containerd.sock", Private: true,
				Log:  "/var/lib/podstead/containerd/containerd.log",
				Name: "containerd", Version: "v1.7.2", NotReady: "shim is missing"}
		}, "runtime", Fail, "shim is missing", "tail -n 50 /var/lib/podstead/containerd/containerd.log"},
		"CRI-O not ready": {func(b *testHost) {
			b.settings.Runtime = Runtime{Endpoint: "unix:///run/crio/crio.sock", Name: "cri-o", Version: "1.30.0",
				NoNetwork: "bad subnet"}
		}, "cni", Fail, "bad subnet", "journalctl -u crio | grep -i cni"},
		"a private runtime without a network": {func(b *testHost) {
			b.settings.Runtime = Runtime{Endpoint: "unix:///run/podstead/containerd/containerd.sock", Private: true,
				Log:  "/x/containerd.log",
				Name: "containerd", Version: "v1.7.2", NoNetwork: "bad subnet"}
		}, "cni", Fail, "bad subnet", "tail -n 500 /x/containerd.log | grep -i cni"},
		"CRI-O not running": {func(b *testHost) {
			b.settings.Runtime = Runtime{Endpoint: "unix:///run/crio/crio.sock", Err: errors.New("x")}
		}, "runtime", Fail, "/run/crio/crio.sock", "systemctl enable --now crio"},
		"no pause image": {func(b *testHost) { b.settings.Runtime.PauseMissing = true }, "pause-image", Warn, "pause:3.9",
			"ctr -n k8s.io images pull pause:3.9"},
		"no runc of our own": {func(b *testHost) { b.remove("usr/sbin/runc"); b.settings.Runtime.Private = true }, "runtime",
			Fail, "runc is not installed", "apt-get install"},
		"no network config": {func(b *testHost) {
			b.remove("etc/cni/net.d")
			b.settings.Runtime.NoNetwork = "cni plugin not initialized"
		}, "cni", Fail, "cni plugin not initialized", "/etc/cni/net.d"},
		"a broken config": {func(b *testHost) { b.write("etc/cni/net.d/00-x.conf", "{") }, "cni", Fail,
			"00-x.conf is not a valid CNI network configuration", "mv /etc/cni/net.d/00-x.conf"},
		"an unusable config": {func(b *testHost) { b.settings.Runtime.NoNetwork = "bad subnet" }, "cni", Fail,
			"although /etc/cni/net.d/10-pods.conflist exists: bad subnet", "journalctl"},
		"no plugins": {func(b *testHost) { b.remove("usr/lib/cni/portmap", "usr/lib/cni/host-local") },
			"cni", Fail, "plugins host-local, portmap, which", "containernetworking-plugins"},
		"a plugin that is not executable": {func(b *testHost) { b.chmod("usr/lib/cni/bridge", 0o644) }, "cni", Fail,
			"plugins bridge", "containernetworking-plugins"},
		"no iptables": {func(b *testHost) { b.remove("usr/sbin/iptables") }, "iptables", Fail, "pods fail to start",
			"apt-get install iptables"},
		"no forwarding": {func(b *testHost) {
			b.write("etc/cni/net.d/10-pods.conflist", `{"type": "ptp", "ipam": {"type": "host-local"}}`)
			b.write("usr/lib/cni/ptp", "#!")
			b.chmod("usr/lib/cni/ptp", 0o755)
			b.write("proc/sys/net/ipv4/ip_forward", "0\n")
		}, "ip-forward", Fail, "can only reach this host", "net.ipv4.ip_forward=1"},
		"no br_netfilter": {func(b *testHost) { b.remove("proc/sys/net/bridge") }, "br-netfilter", Warn, "not loaded",
			"modprobe br_netfilter"},
		"br_netfilter is off": {func(b *testHost) { b.write("proc/sys/net/bridge/bridge-nf-call-iptables", "0\n") },
			"br-netfilter", Warn, "is 0", "bridge-nf-call-iptables=1"},
		"host ports with the rule": {func(b *testHost) {
			b.settings.RouteLocalnet, b.settings.LocalnetRule = []string{"cni0"}, true
		}, "", OK, "", ""},
		"the name server of pods": {func(b *testHost) {
			b.settings.PodDNS = PodDNS{Running: true, Given: true,
				Failed: map[string]string{"10.88.0.1": "listen udp 10.88.0.1:53: bind: address already in use"}}
		}, "pod-dns", Warn, "10.88.0.1:53: bind: address already in use", "ss -lunp"},
		"the name server of pods of an earlier setting": {func(b *testHost) {
			b.settings.PodDNS = PodDNS{Running: true, Failed: map[string]string{"10.88.0.1": "in use"}}
		}, "", OK, "", ""},
		"host ports without the rule": {func(b *testHost) { b.settings.RouteLocalnet = []string{"all", "cni0"} }, "loopback",
			Warn, "route_localnet is enabled (all, cni0) and podstead's firewall rule is missing", "systemctl start podstead"},
		"a flushed firewall": {func(b *testHost) {
			b.settings.RouteLocalnet, b.settings.Running = []string{"cni0"}, 42
		}, "loopback", Warn, "rule is missing", "systemctl restart podstead"},
		"no resolv.conf": {func(b *testHost) { b.remove("etc/resolv.conf") }, "dns", Fail, "/etc/resolv.conf does not exist",
			"--resolv-conf"},
		"no name server": {func(b *testHost) { b.write("etc/resolv.conf", "search x\n") }, "dns", Warn,
			"contains no name server", "nameserver"},
		"a stub resolver": {func(b *testHost) {
			b.write("etc/resolv.conf", "nameserver 127.0.0.53\n")
			b.write("run/systemd/resolve/resolv.conf", "nameserver 10.0.0.1\n")
		}, "dns", Warn, "loopback", "--resolv-conf /run/systemd/resolve/resolv.conf"},
		"no route": {func(b *testHost) { b.write("proc/net/route", "Iface\n") }, "route", Warn, "no default route",
			"--node-ip"},
		"no cgroups": {func(b *testHost) { b.write("proc/self/mountinfo", "23 1 254:0 / / rw - ext4 /dev/vda rw\n") },
			"cgroups", Fail, "no cgroups are mounted", "mount -t cgroup2"},
		"cgroups read-only": {func(b *testHost) {
			b.write("proc/self/mountinfo", "22 1 0:21 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup2 rw\n")
		}, "cgroups", Fail, "read-only", "mount -o remount,bind,rw /sys/fs/cgroup"},
		"cgroup v1 read-only": {func(b *testHost) {
			b.write("proc/self/mountinfo", strings.NewReplacer("cpu rw -", "cpu ro -", "rw,memory", "ro,memory").Replace(v1)+
				"36 31 0:33 / /sys/fs/cgroup/unified ro - cgroup2 cgroup rw\n"+
				"37 31 0:34 / /sys/fs/cgroup/systemd ro - cgroup cgroup rw,xattr,name=systemd\n")
			b.settings.Runtime.CgroupDriver = ""
		}, "cgroups", Fail, "read-only (/sys/fs/cgroup/cpu, /sys/fs/cgroup/memory, /sys/fs/cgroup/unified)",
			"mount -o remount,bind,rw /sys/fs/cgroup/cpu && mount -o remount,rw /sys/fs/cgroup/memory && "},
		"healthy, read-only mounts that pods do not need": {func(b *testHost) {
			b.write("proc/self/mountinfo", v1+"36 31 0:33 / /sys/fs/cgroup/unified ro - cgroup2 cgroup rw\n"+
				"37 31 0:34 / /sys/fs/cgroup/systemd ro - cgroup cgroup rw,xattr,name=systemd\n"+
				"38 31 0:30 / /other/memory ro - cgroup cgroup rw,memory\n")
			b.settings.Runtime.CgroupDriver = ""
		}, "", OK, "", ""},
		"no memory controller": {func(b *testHost) {
			b.write("sys/fs/cgroup/cgroup.controllers",
				"cpuset cpu io hugetlb pids\n")
		}, "cgroups", Fail, "memory controller is disabled", "cgroup_enable=memory"},
		"no memory on v1": {func(b *testHost) {
			b.write("proc/self/mountinfo", strings.Replace(v1, "rw,memory", "rw,freezer", 1))
			b.settings.Runtime.CgroupDriver = ""
		}, "cgroups", Fail, "memory controller is disabled", "cgroup_enable=memory"},
		"memory of v1 that is not mounted": {func(b *testHost) {
			b.write("proc/self/mountinfo", strings.Replace(v1, "rw,memory", "rw,freezer", 1))
			b.write("proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t9\t1\n")
			b.settings.Runtime.CgroupDriver = ""
		}, "cgroups", Fail, "controller memory is active but not mounted: pods with a memory limit fail",
			"mount -t cgroup -o memory cgroup /sys/fs/cgroup/memory"},
		"a v1 controller that is not mounted": {func(b *testHost) {
			b.write("proc/self/mountinfo", v1)
			b.write("proc/cgroups",
				"#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t9\t1\nnet_cls\t0\t1\t1\nhugetlb\t11\t1\t1\nrdma\t12\t1\t0\n")
			b.settings.Runtime.CgroupDriver = ""
		}, "cgroups", Warn, "active but not mounted: hugetlb:", "mount -t cgroup -o hugetlb cgroup /sys/fs/cgroup/hugetlb"},
		"controllers of one v1 hierarchy that is not mounted": {func(b *testHost) {
			b.write("proc/self/mountinfo", strings.Replace(v1, "rw,cpu\n", "rw,freezer\n", 1))
			b.write("proc/cgroups",
				"#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t4\t9\t1\ncpuacct\t4\t9\t1\nmemory\t5\t9\t1\n")
			b.settings.Runtime.CgroupDriver = ""
		}, "cgroups", Fail, "controller cpu (in one hierarchy with cpuacct) is active but not mounted: CPU limits",
			"mkdir -p /sys/fs/cgroup/cpu,cpuacct && mount -t cgroup -o cpu,cpuacct cgroup /sys/fs/cgroup/cpu,cpuacct && { " +
				"rmdir /sys/fs/cgroup/cpu /sys/fs/cgroup/cpuacct 2>/dev/null; ln -sfT cpu,cpuacct /sys/fs/cgroup/cpu; ln -sfT " +
				"cpu,cpuacct /sys/fs/cgroup/cpuacct; }"},
		"v1 hierarchies that are not mounted": {func(b *testHost) {
			b.write("proc/self/mountinfo", v1)
			b.write("proc/cgroups",
				"#subsys_name\thierarchy\tnum_cgroups\tenabled\nnet_cls\t9\t1\t1\nperf_event\t7\t1\t1\nnet_prio\t9\t1\t1\n")
			b.settings.Runtime.CgroupDriver = ""
		}, "cgroups", Warn, "active but not mounted: net_cls, net_prio, perf_event:",
			"-o net_cls,net_prio cgroup /sys/fs/cgroup/net_cls,net_prio && { rmdir /sys/fs/cgroup/net_cls " +
				"/sys/fs/cgroup/net_prio 2>/dev/null; ln -sfT net_cls,net_prio /sys/fs/cgroup/net_cls; ln -sfT net_cls,net_prio " +
				"/sys/fs/cgroup/net_prio; }; mkdir -p /sys/fs/cgroup/perf_event && mount -t cgroup -o perf_event "},
		"no pids controller": {func(b *testHost) {
			b.write("sys/fs/cgroup/cgroup.controllers",
				"cpuset cpu io memory hugetlb\n")
		}, "cgroups", Warn, "pids", "CONFIG_CGROUP_PIDS"},
		"hugepages alone": {func(b *testHost) {
			b.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
			b.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "8\n")
		}, "cgroups", Warn, "hugetlb", "HUGETLB"},
		"another driver": {func(b *testHost) { b.settings.CgroupDriver = "cgroupfs" }, "cgroup-driver",
			Fail, "configured to use cgroupfs, but the runtime uses systemd", "--cgroup-driver"},
		"a driver for the next boot": {
			func(b *testHost) { b.settings.CgroupDriver, b.settings.Runtime.Private = "cgroupfs", true }, "cgroup-driver", Warn,
			"the private containerd still uses systemd", "reboot"},
		"cgroupfs with systemd": {func(b *testHost) { b.settings.Runtime.CgroupDriver = "cgroupfs" },
			"cgroup-driver", Warn, "although systemd manages", "SystemdCgroup = true"},
		"cgroupfs of the private containerd": {
			func(b *testHost) { b.settings.Runtime.CgroupDriver, b.settings.Runtime.Private = "cgroupfs", true },
			"cgroup-driver", Warn, "although systemd manages", "reboot: the private containerd uses systemd then"},
		"cgroupfs with a setting": {func(b *testHost) {
			b.write("etc/containerd/config.toml", "version = 2\n    SystemdCgroup = false\n")
			b.settings.Runtime.CgroupDriver = "cgroupfs"
		}, "cgroup-driver", Warn, "although systemd manages", "sed -i 's/SystemdCgroup *=.*/SystemdCgroup = true/' " +
			"/etc/containerd/config.toml && systemctl restart containerd"},
		"cgroupfs with containerd 2": {func(b *testHost) {
			b.write("etc/containerd/config.toml", "version = 3\n")
			b.settings.Runtime.CgroupDriver = "cgroupfs"
		}, "cgroup-driver", Warn, "although systemd manages",
			`printf '\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]\nruntime_type`},
		"cgroupfs with other runtimes": {func(b *testHost) {
			b.write("etc/containerd/config.toml",
				"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.kata]\n")
			b.settings.Runtime.CgroupDriver = "cgroupfs"
		}, "cgroup-driver", Warn, "although systemd manages", "in the runc options of"},
		"no network config, with a free subnet": {func(b *testHost) {
			b.remove("etc/cni/net.d")
			b.settings.Runtime.NoNetwork, b.settings.CNI.NewConfig = "cni plugin not initialized", `{"name":"podstead"}`
		}, "cni", Fail, "cni plugin not initialized",
			`mkdir -p /etc/cni/net.d && echo '{"name":"podstead"}' >/etc/cni/net.d/10-podstead.conflist`},
		"systemd driver without systemd": {func(b *testHost) { b.remove("run/systemd/system") }, "cgroup-driver", Fail,
			"systemd is not running", "SystemdCgroup = false"},
		"no overlay": {func(b *testHost) { b.write("proc/filesystems", "\text4\n") }, "overlay", Fail,
			"not support overlayfs", "modprobe overlay"},
		"overcommit": {func(b *testHost) { b.write("proc/sys/vm/overcommit_memory", "2\n") },
			"kernel-settings", Warn, "vm.overcommit_memory is 2, not 1", "vm.overcommit_memory=1"},
		"no restart after panic": {func(b *testHost) { b.write("proc/sys/kernel/panic", "0\n") }, "kernel-settings", Warn,
			"kernel.panic is 0", "kernel.panic=10"},
		"few keys": {func(b *testHost) { b.write("proc/sys/kernel/keys/root_maxkeys", "200\n") },
			"kernel-settings", Warn, "root_maxkeys is 200", "root_maxkeys=1000000"},
		"few instances": {func(b *testHost) { b.write("proc/sys/fs/inotify/max_user_instances", "10\n") },
			"inotify", Warn, "max_user_instances is 10", "fs.inotify.max_user_instances=128"},
		"swap": {func(b *testHost) { b.write("proc/swaps", "Filename\n/dev/sda2 partition 1 0 -2\n") },
			"swap", Warn, "cannot keep pods from using it", "swapoff -a"},
		"a port taken": {func(b *testHost) { b.listen("42", healthPort) }, "ports", Fail,
			"127.0.0.1:10248 is in use by nginx (pid 42), but podstead requires it (health)", "ss -ltnp"},
		"a port on all addresses": {func(b *testHost) { b.listen("42", "00000000:2808") }, "ports", Fail, "nginx (pid 42)",
			"ss -ltnp"},
		"a port of another process": {func(b *testHost) { b.listen("42", healthPort); b.settings.Running = 43 }, "ports",
			Fail, "nginx", "ss"},
		"a full disk": {func(b *testHost) { b.space["var/lib/podstead"] = Space{Bytes: 1000, BytesFree: 99} }, "disk", Fail,
			"9.9% of the disk of the root directory", "podstead images prune"},
		"another threshold": {func(b *testHost) {
			b.space["var/lib/podstead"] = Space{Bytes: 1000, BytesFree: 399}
			b.settings.MinFree = percent(map[string]int64{"nodefs.available": 40})
		}, "disk", Fail, "39.9% of the disk of the root directory (/var/lib/podstead) is free: pods are evicted below 40%",
			"podstead images prune"},
		"no inodes": {func(b *testHost) {
			b.space["var/log/pods"] = Space{Bytes: 10, BytesFree: 5, Inodes: 100, InodesFree: 4}
		}, "disk", Fail, "4% of the inodes", "find /var/log/pods"},
		"a tight disk": {func(b *testHost) { b.space["var/lib/podstead"] = Space{Bytes: 100, BytesFree: 12} }, "disk", Warn,
			"12.0%", "prune"},
		"a full disk of images": {func(b *testHost) {
			b.settings.Runtime.Images.Dir = "/var/lib/containerd/images"
			b.write("var/lib/containerd/images/x", "")
			b.space["var/lib/containerd/images"] = Space{Bytes: 100, BytesFree: 14}
		}, "disk", Fail, "14.0% of the disk of the images (/var/lib/containerd/images) is free: pods are evicted below 15%",
			"podstead images prune"},
		"a root directory in memory": {
			func(b *testHost) { b.space["var/lib/podstead"] = Space{Bytes: 100, BytesFree: 90, InMemory: true} }, "directories",
			Warn, "memory file system", "--root-dir"},
		"noexec": {
			func(b *testHost) { b.space["var/lib/podstead"] = Space{Bytes: 100, BytesFree: 90, NoExec: true} }, "directories",
			Warn, "noexec", "remount,exec"},
		"read-only": {
			func(b *testHost) { b.space["var/log/pods"] = Space{Bytes: 100, BytesFree: 90, ReadOnly: true} }, "directories",
			Fail, "read-only", "remount,rw"},
		"a file instead of a directory": {func(b *testHost) { b.remove("var/log/pods"); b.write("var/log/pods", "") },
			"directories", Fail, "/var/log/pods is not a directory", "mv /var/log/pods"},
		"a world-writable directory": {func(b *testHost) { b.chmod("var/lib/podstead", 0o777) }, "directories", Fail,
			"world-writable", "chmod o-w /var/lib/podstead"},
		"world-writable manifests": {func(b *testHost) { b.chmod("etc/pods", 0o777) }, "manifests", Fail,
			"run anything as root", "chmod o-w /etc/pods"},
		"no manifests": {func(b *testHost) { b.remove("etc/pods") }, "manifests", Warn, "/etc/pods does not exist",
			"mkdir -p /etc/pods"},
		"a clock before the build": {func(b *testHost) {
			b.host.Now = func() time.Time { return time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC) }
		}, "clock", Fail, "2026-02-01, before the build date of this program (2026-03-01)", "timedatectl"},
		"a clock of 1970": {func(b *testHost) {
			b.host.Now, b.settings.Built = func() time.Time { return time.Unix(100, 0) }, time.Time{}
		}, "clock", Fail, "1970-01-01", "timedatectl"},
		"an unsynchronized clock": {func(b *testHost) { b.synced = false }, "clock", Warn, "not synchronized", "chrony"},
		"an unknown clock status": {func(b *testHost) { b.syncErr = errors.New("no adjtimex") }, "clock", Warn, "no adjtimex",
			""},
		"no machine-id": {func(b *testHost) { b.write("etc/machine-id", "uninitialized\n") }, "machine-id", Warn,
			"no machine ID", "systemd-machine-id-setup"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestHost(t)
			tc.breaks(b)
			var findings []Finding
			for _, f := range Run(b.host, b.settings) {
				if f.Level != OK {
					findings = append(findings, f)
				} else if f.Fix != "" || f.Message == "" {
					t.Errorf("%+v", f)
				}
			}
			switch {
			case tc.check == "" && len(findings) > 0:
				t.Errorf("unexpected findings: %+v", findings)
			case tc.check == "":
			case len(findings) != 1:
				t.Errorf("%d findings, want one: %+v", len(findings), findings)
			case findings[0].Repair != "" && exec.Command("sh", "-n", "-c", findings[0].Repair).Run() != nil:
				t.Errorf("%q is not a shell command", findings[0].Repair)
			case findings[0].Check != tc.check || findings[0].Level != tc.level ||
				!strings.Contains(findings[0].Message, tc.message) || !strings.Contains(findings[0].Fix, tc.fix) || tc.fix != "" &&
				findings[0].Fix == "":
				t.Errorf("got %+v\nwant %s %s %q %q", findings[0], tc.check, tc.level, tc.message, tc.fix)
			}
			if n := Failed(findings); (n == 1) != (tc.level == Fail) {
				t.Errorf("%d failed", n)
			}
		})
	}
}

// The state of this host can be read.
func TestThisHost(t *testing.T) {
	h := ThisHost()
	if s, err := h.Space("/"); err != nil || s.Bytes == 0 || s.BytesFree > s.Bytes {
		t.Errorf("space %+v, %v", s, err)
	}
	if _, err := h.Synchronized(); err != nil {
		t.Errorf("clock: %v", err)
	}
	if h.command("sh") == "" {
		t.Error("no shell")
	}
}

// percent returns thresholds in percent by signal, for Settings.MinFree.
func percent(thresholds map[string]int64) func(string, int64) int64 {
	return func(signal string, capacity int64) int64 { return thresholds[signal] * capacity / 100 }
}

// Thresholds of the configuration replace the defaults, and none is no finding.
func TestLowEvictionThreshold(t *testing.T) {
	b := newTestHost(t)
	b.settings.MinFree = percent(nil)
	b.space["var/lib/podstead"] = Space{Bytes: 1000, BytesFree: 10}
	for _, f := range Run(b.host, b.settings) {
		if f.Check == "disk" && f.Level != OK {
			t.Errorf("%+v", f)
		}
	}
}

// The process that an earlier setting has left does not make check say that pods get its names.
func TestNameServerOfAnEarlierSetting(t *testing.T) {
	for given, want := range map[bool]string{true: "the name server of pods listens on 10.88.0.1",
		false: "new pods do not get the name server of pods"} {
		s := &Settings{PodDNS: PodDNS{Running: true, Given: given, Listening: []string{"10.88.0.1"}}}
		if list := podDNS(nil, s); len(list) != 1 || list[0].Level != OK || !strings.HasPrefix(list[0].Message, want) {
			t.Errorf("given %v: %+v", given, list)
		}
	}
}

// The disk of several directories is reported once, although what is free on it changes meanwhile.
func TestDiskOfSeveralDirectories(t *testing.T) {
	b := newTestHost(t)
	free := uint64(50)
	b.host.Space = func(string) (Space, error) {
		free--
		return Space{ID: 7, Bytes: 100, BytesFree: free, Inodes: 100, InodesFree: 50}, nil
	}
	if list := disks(&b.host, &b.settings); len(list) != 1 {
		t.Errorf("one disk has the findings %+v", list)
	}
}
