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
		"another node":  {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: other, containers: [{name: a, image: b}]}", []string{"spec.nodeName"}},
		"this node":     {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: Node1, containers: [{name: a, image: b}]}", nil},
		"a plain claim": {"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {accessModes: [ReadWriteOnce], storageClassName: '', resources: {requests: {storage: 1Gi}}}", nil},
		"a claim of a cluster": {"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {accessModes: [ReadWriteOnce], storageClassName: fast, volumeName: pv1, selector: {matchLabels: {a: b}}, resources: {requests: {storage: 1Gi}, limits: {storage: 2Gi}}, volumeAttributesClassName: gold}",
			[]string{"spec.resources.limits", "spec.selector", "spec.storageClassName", "spec.volumeAttributesClassName", "spec.volumeName"}},
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
