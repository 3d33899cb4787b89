package validation

import (
	"strings"
	"testing"
)

// Each entry of podstead.io/allow-devices is a device volume of the pod. A device that a container
// mounts and cannot open is a warning.
func TestAllowDevices(t *testing.T) {
	const volumes = "{name: port, hostPath: {path: /dev/ttyS0, type: CharDevice}}, {name: disk, hostPath: {path: " +
		"/dev/sda, type: BlockDevice}}, {name: dir, hostPath: {path: /dev}}, {name: tmp, emptyDir: {}}, {name: nothing, " +
		"hostPath: {path: /dev/null, type: CharDevice}}"
	const cannot = "spec.containers[0].volumeMounts[%]: the container cannot open the device "
	for _, c := range []struct {
		name, annotations, mounts, more string
		faults, warnings                []string
	}{
		{"allowed", `podstead.io/allow-devices: "port, disk"`, "port disk", "", nil, nil},
		{"one of two", "podstead.io/allow-devices: port", "port disk", "", nil,
			[]string{"spec.containers[0].volumeMounts[1]: the container cannot open the device /dev/sda: its device cgroup " +
				"does not allow it; add the annotation podstead.io/allow-devices: disk, or request the device as a resource"}},
		{"none", "", "port", "", nil, []string{"spec.containers[0].volumeMounts[0]: the container cannot open the device " +
			"/dev/ttyS0"}},
		{"not mounted", "", "tmp dir", "", nil, nil},
		{"privileged", "", "port", "securityContext: {privileged: true}", nil, nil},
		{"open to all", "", "nothing", "", nil, nil},
		{"unknown volume", "podstead.io/allow-devices: prt", "port", "", []string{`"prt" is not a volume of this pod`},
			[]string{"/dev/ttyS0"}},
		{"no device", `podstead.io/allow-devices: "tmp,dir"`, "tmp", "",
			[]string{`volume "tmp" is not a hostPath`, `volume "dir" is not of type CharDevice or BlockDevice; set the type`},
			nil},
		{"empty", `podstead.io/allow-devices: ""`, "tmp", "", []string{"names no volume"}, nil},
		{"trailing comma", `podstead.io/allow-devices: "port,"`, "port", "", []string{`"" is not a volume of this pod`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var mounts []string
			for i, name := range strings.Fields(c.mounts) {
				mounts = append(mounts, "{name: "+name+", mountPath: /m"+string(rune('0'+i))+"}")
			}
			pod := defaultedPod(t, "metadata: {annotations: {"+c.annotations+"}}\nspec:\n  volumes: ["+volumes+
				"]\n  containers:\n  - name: a\n    image: x\n    volumeMounts: ["+strings.Join(mounts, ", ")+"]\n    "+c.more)
			compare := func(kind string, got []FieldFault, want []string, prefix string) {
				t.Helper()
				if len(got) != len(want) {
					t.Fatalf("%s %+v, want %q", kind, got, want)
				}
				for i, f := range got {
					text := f.Path + ": " + f.Problem + "; " + f.Remedy
					if !strings.Contains(text, want[i]) || !strings.HasPrefix(text, prefix) {
						t.Errorf("%s %q, want %q", kind, text, want[i])
					}
				}
			}
			compare("faults", CheckPod(pod), c.faults, "metadata.annotations[podstead.io/allow-devices]: ")
			compare("warnings", Warnings(pod), c.warnings, strings.Split(cannot, "[%]")[0])
		})
	}
}
