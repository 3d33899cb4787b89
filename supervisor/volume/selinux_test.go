package volume

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A volume of one pod is mounted with the label of the pod, if its driver supports that.
func TestSELinuxMount(t *testing.T) {
	recursive := v1.SELinuxChangePolicyRecursive
	level := func(l string) *v1.SELinuxOptions { return &v1.SELinuxOptions{Type: "spc_t", Level: l} }
	for name, c := range map[string]struct {
		change func(*clusterNode, *v1.Pod)
		want   string
	}{
		"of the pod": {func(*clusterNode, *v1.Pod) {}, `context="system_u:object_r:container_file_t:s0:c1,c2"`},
		"of the container": {func(_ *clusterNode, p *v1.Pod) {
			p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{SELinuxOptions: level("s0:c3")}
		}, `context="system_u:object_r:container_file_t:s0:c3"`},
		"with a user": {func(_ *clusterNode, p *v1.Pod) { p.Spec.SecurityContext.SELinuxOptions.User = "user_u" },
			`context="user_u:object_r:container_file_t:s0:c1,c2"`},
		"two users": {func(_ *clusterNode, p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
			p.Spec.Containers[1].SecurityContext = &v1.SecurityContext{
				SELinuxOptions: &v1.SELinuxOptions{User: "user_u", Level: "s0:c1,c2"}}
		}, ""},
		"two labels": {func(_ *clusterNode, p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
			p.Spec.Containers[1].SecurityContext = &v1.SecurityContext{SELinuxOptions: level("s0:c3")}
		}, ""},
		"one without": {func(_ *clusterNode, p *v1.Pod) {
			p.Spec.SecurityContext = nil
			p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
			p.Spec.Containers[1].SecurityContext = &v1.SecurityContext{SELinuxOptions: level("s0:c3")}
		}, ""},
		"no level": {func(_ *clusterNode, p *v1.Pod) { p.Spec.SecurityContext.SELinuxOptions.Level = "" },
			""},
		"no options": {func(_ *clusterNode, p *v1.Pod) { p.Spec.SecurityContext = nil }, ""},
		"a level that ends the text": {
			func(_ *clusterNode, p *v1.Pod) { p.Spec.SecurityContext.SELinuxOptions.Level = `s0",suid` }, ""},
		"the files are to be labelled": {func(_ *clusterNode, p *v1.Pod) {
			p.Spec.SecurityContext.SELinuxChangePolicy = &recursive
		}, ""},
		"a volume of several pods": {func(n *clusterNode, _ *v1.Pod) {
			n.volume.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
		}, ""},
		"a label of the volume": {func(n *clusterNode, _ *v1.Pod) {
			n.volume.Spec.MountOptions = append(n.volume.Spec.MountOptions, "context=system_u:object_r:own_t:s0")
		}, ""},
		"a driver without support": {func(n *clusterNode, _ *v1.Pod) { n.driver.SELinuxMount = false }, ""},
		"a host without SELinux":   {func(n *clusterNode, _ *v1.Pod) { n.fileLabel = func() string { return "" } }, ""},
	} {
		n, csi := newClusterCSI(t)
		n.driver.SELinuxMount = true
		n.fileLabel = func() string { return "system_u:object_r:container_file_t:s0" }
		n.volume.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
		p := claimPod(types.UID("u1"), "data")
		p.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: level("s0:c1,c2")}
		c.change(n, p)
		want := slices.Clone(n.volume.Spec.MountOptions)
		if c.want != "" {
			want = append(want, c.want)
		}
		if _, err := n.setup(p); err != nil || !slices.Equal(csi.last.MountOptions, want) {
			t.Errorf("%s: mounted with %q, %v; want %q", name, csi.last.MountOptions, err, want)
		}
	}
}

func TestFileLabel(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want string) {
		t.Helper()
		if got := fileLabelIn(dir); got != want {
			t.Errorf("the label is %q, want %q", got, want)
		}
	}
	is("")
	write("config", "# the policy\nSELINUX=enforcing\nSELINUXTYPE=targeted\n")
	is("")
	write("targeted/contexts/lxc_contexts", "process = \"system_u:system_r:container_t:s0\"\nfile = "+
		"\"system_u:object_r:container_file_t:s0\"\nro_file=\"x\"\n")
	is("system_u:object_r:container_file_t:s0")
	write("config", "SELINUXTYPE=../x\n")
	is("")
}
