package devices

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/node/cpus"
	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// makeTerminal creates a device node of a virtual console that no program uses. It is a terminal, as a
// serial port is, and the runtime does not allow containers to open it.
func makeTerminal(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(4, 60))); err != nil {
		t.Fatal(err)
	}
}

// The manifests of docs/devices.md and docs/device-plugins.md run: a serial port, for which a virtual console stands, a
// GPU with Kubernetes' sample plugin instead of a vendor's, and exclusive CPUs.
func TestDevicesPage(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("cpu", "cpuset") {
			return
		}
		serial, gpu, control := harness.PageDocuments(t, "devices.md", "Local devices"),
			harness.PageDocuments(t, "device-plugins.md", "A GPU with its vendor's plugin"),
			harness.PageDocuments(t, "devices.md", "Exclusive CPUs")
		if len(serial) != 2 || len(gpu) != 2 || len(control) != 2 {
			t.Fatalf("documents of the pages: %d, %d, %d", len(serial), len(gpu), len(control))
		}
		dev := t.TempDir()
		port := filepath.Join(dev, "ttyUSB0")
		makeTerminal(t, port)
		file := filepath.Join(t.TempDir(), "config.yaml")
		config := strings.ReplaceAll(serial[0], "/dev/", dev+"/") + "---\n" + control[0]
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		n.Args = append(n.Args, "--config", file)
		busybox := regexp.MustCompile("image: .*")
		n.WriteManifest("serial.yaml", busybox.ReplaceAllString(serial[1], "image: "+testbed.BusyboxImage))
		n.OwnPort()
		n.MustStart()
		meter := n.AwaitRunning("meter")
		n.AwaitExec(meter, "cat", "cat", "/proc/1/comm") // after stty
		n.MustPrintIn(meter, "speed 38400", "sh", "-c", "stty -F "+port+" -a | grep -o 'speed 38400'")

		n.WriteManifest("control.yaml", busybox.ReplaceAllString(control[1], "image: "+testbed.BusyboxImage))
		process, _, err := harness.AllowedCPUs(n.AwaitRunning("control").Pid)
		if err != nil {
			t.Fatal(err)
		}
		if exclusive, err := cpus.ParseSet(process); err != nil || len(exclusive) != 1 || exclusive[0] == 0 {
			t.Errorf("the exclusive CPUs are %q (%v)", process, err)
		}

		n.WriteManifest("plugin.yaml", withSamplePlugin(n, gpu[0]))
		t.Cleanup(func() { removeSampleDevices(t) })
		pod := strings.NewReplacer("nvidia.com/gpu", samplePlugin, "nvidia-smi -L", "ls /tmp/Dev-[12]").Replace(gpu[1])
		n.WriteManifest("gpu.yaml", busybox.ReplaceAllString(pod, "image: "+testbed.BusyboxImage))
		n.AwaitReady("inference")
		n.AwaitNodeResource(samplePlugin, "2")
		out := n.CLI(0, []string{samplePlugin, "1 (50%)", port, "Healthy", "inference", "meter"}, "describe", "node")
		if !regexp.MustCompile(`(?m)^  example.com/resource +Dev-[12] +Healthy +default +inference +main$`).MatchString(out) {
			t.Errorf("describe node:\n%s", out)
		}
		k := harness.NewKubectl(n)
		out = k.Must([]string{"inference", "meter"}, "describe", "node", n.Name)
		for _, want := range []string{
			// capacity and allocatable
			`(?s)Capacity:.*\s+` + samplePlugin + `: +2\n.*Allocatable:.*\s+` + samplePlugin + `: +2\n`,
			`(?s)Allocated resources:.*\n +` + samplePlugin + ` +1 +1\n`, // requests and limits
		} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("kubectl describe node: no %s in:\n%s", want, out)
			}
		}
		k.Must([]string{"CPU", "MEMORY", n.Name}, "top", "node")
		n.CLI(0, []string{"DEVICES", samplePlugin + "=1/2", "edge.example/serial=1/1"}, "top", "nodes")
	})
}

// withSamplePlugin returns the manifest of a device plugin with Kubernetes' sample plugin in its place,
// and the directory of the node's registration socket in place of the default one.
func withSamplePlugin(n *harness.Node, manifest string) string {
	n.T.Helper()
	var p v1.Pod
	if err := yaml.UnmarshalStrict([]byte(manifest), &p); err != nil {
		n.T.Fatal(err)
	}
	c := &p.Spec.Containers[0]
	c.Image, c.Command = testbed.BusyboxImage, []string{"/plugin"}
	c.Env = append(c.Env, v1.EnvVar{Name: "PLUGIN_SOCK_DIR", Value: "/var/lib/kubelet/device-plugins"})
	i := slices.IndexFunc(p.Spec.Volumes,
		func(v v1.Volume) bool { return v.HostPath.Path == "/var/lib/kubelet/device-plugins" })
	p.Spec.Volumes[i].HostPath.Path = filepath.Join(n.Root, "device-plugins")
	for name, path := range map[string]string{"/plugin": testbed.SampleDevicePlugin(), "/tmp": "/tmp"} {
		volume := "sample" + strings.ReplaceAll(name, "/", "-")
		p.Spec.Volumes = append(p.Spec.Volumes,
			v1.Volume{Name: volume, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}}})
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: volume, MountPath: name})
	}
	out, err := yaml.Marshal(&p)
	if err != nil {
		n.T.Fatal(err)
	}
	return string(out)
}
