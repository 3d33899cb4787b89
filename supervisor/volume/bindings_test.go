package volume

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
	"github.com/podstead/podstead/supervisor/volume/binding"
)

func TestBindingsFile(t *testing.T) {
	open := func(dir string, disk statefile.Disk) *Volumes {
		return &Volumes{Bindings: dir + "/volume-bindings.json", Disk: disk}
	}
	statefiletest.Store{
		Files: []string{"volume-bindings.json"}, Before: "volume-bindings.before.json", After: "volume-bindings.after.json",
		Old: "pv-a", New: "pv-a pv-b", None: "", Rules: statefiletest.RulesOf(&bindingsFormat),
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			list, err := open(dir, disk).ListBindings()
			var names []string
			for _, b := range list {
				names = append(names, b.Volume.Name)
			}
			return strings.Join(names, " "), err
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			v := open(dir, disk)
			if err := v.load(); err != nil {
				return err
			}
			return v.saveBinding(&binding.Binding{
				Namespace: "default", Claim: "b", Provisioned: true, Used: true,
				Volume: &v1.PersistentVolume{
					ObjectMeta: metav1.ObjectMeta{Name: "pv-b"},
					Spec: v1.PersistentVolumeSpec{
						PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/data/b"}}},
				},
			})
		},
	}.Run(t)
}
