package manifest

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// What a cluster would act on and this node does not is reported by name; it does not
// reject the manifest, which may run already.
func TestFieldsWithoutEffect(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"another node": {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: other, containers: [{name: a, " +
			"image: b}]}", []string{"spec.nodeName"}},
		"this node": {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: Node1, containers: [{name: a, " +
			"image: b}]}", nil},
		"a plain claim": {"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {accessModes: " +
			"[ReadWriteOnce], storageClassName: '', resources: {requests: {storage: 1Gi}}}", nil},
		"a claim of a cluster": {"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {accessModes: " +
			"[ReadWriteOnce], storageClassName: fast, volumeName: pv1, selector: {matchLabels: {a: b}}, resources: {requests: " +
			"{storage: 1Gi}, limits: {storage: 2Gi}}, volumeAttributesClassName: gold}",
			[]string{"spec.resources.limits", "spec.volumeAttributesClassName"}},
		"a block device of a driver": {"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {accessModes: " +
			"[ReadWriteOnce], capacity: {storage: 1Gi}, volumeMode: Block, mountOptions: [ro], csi: {driver: d, volumeHandle: " +
			"h, fsType: ext4}}",
			[]string{"spec.csi.fsType", "spec.mountOptions"}},
		"a claim that needs a storage driver": {"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: " +
			"{accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 1Gi}}, dataSource: {kind: " +
			"PersistentVolumeClaim, name: d}}",
			[]string{"spec.dataSource"}},
		"a claim of a copy": {"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {accessModes: " +
			"[ReadWriteOnce], volumeMode: Filesystem, resources: {requests: {storage: 1Gi}}, dataSourceRef: {kind: " +
			"PersistentVolumeClaim, name: d}}",
			[]string{"spec.dataSourceRef"}},
		"a volume of a cluster": {"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {accessModes: " +
			"[ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /v}, mountOptions: [ro], " +
			"persistentVolumeReclaimPolicy: Delete, volumeAttributesClassName: gold}",
			[]string{"spec.mountOptions", "spec.persistentVolumeReclaimPolicy", "spec.volumeAttributesClassName"}},
		"a plain volume": {"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {accessModes: " +
			"[ReadWriteOnce], capacity: {storage: 1Gi}, nfs: {server: nas, path: /v}, mountOptions: [ro], claimRef: " +
			"{namespace: a, name: b}}", nil},
		"a class of a cluster": {"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: c}\nprovisioner: " +
			"kubernetes.io/no-provisioner\nvolumeBindingMode: Immediate\nallowVolumeExpansion: true\nmountOptions: " +
			"[ro]\nallowedTopologies: [{matchLabelExpressions: [{key: a, values: [b]}]}]",
			[]string{"allowVolumeExpansion", "allowedTopologies", "mountOptions", "volumeBindingMode"}},
	} {
		l := NewLoader("Node1", ModeStrict)
		request := LoadRequest{Source: SourceFile, Unit: "/x.yaml", Data: []byte(c.text)}
		content, faults := l.Load(request)
		again := func() Faults {
			request.Known = func(digest string) (*v1.Pod, bool) {
				for _, d := range content.Documents {
					if d.Digest == digest {
						return d.Pod, true
					}
				}
				return nil, false
			}
			_, faults := l.Load(request)
			return faults
		}()
		for _, faults := range []Faults{faults, again} {
			var got []string
			for _, f := range faults {
				got = append(got, f.Path)
			}
			slices.Sort(got)
			if faults.Fatal() || !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", name, faults, c.want)
			}
		}
	}
}

// A number means the same in JSON and in YAML.
func TestWholeNumbersInJSON(t *testing.T) {
	load := func(text string) (Content, Faults) {
		return NewLoader("Node1", ModeStrict).Load(LoadRequest{Source: SourceFile, Unit: "/x.yaml", Data: []byte(text)})
	}
	for number, want := range map[string]int64{"30.0": 30, "3e1": 30, "30.000": 30, "30": 30} {
		inJSON, faults := load(
			`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"terminationGracePeriodSeconds": ` +
				number + `, "containers": [{"name": "a", "image": "b"}]}}`)
		inYAML, yamlFaults := load(
			"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  terminationGracePeriodSeconds: " + number +
				"\n  containers: [{name: a, image: b}]\n")
		if len(faults)+len(yamlFaults) > 0 {
			t.Errorf("%s: %v, %v", number, faults, yamlFaults)
			continue
		}
		if a, b := inJSON.Documents[0].Pod, inYAML.Documents[0].Pod; a.UID != b.UID ||
			*a.Spec.TerminationGracePeriodSeconds != want {
			t.Errorf("%s: %d seconds and UID %s, in YAML %s", number, *a.Spec.TerminationGracePeriodSeconds, a.UID, b.UID)
		}
	}
	if _, faults := load(
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"terminationGracePeriodSeconds": 30.5, "containers": [{"name": "a", "image": "b"}]}}`); !faults.Fatal() {
		t.Error("half a second is accepted")
	}
}
