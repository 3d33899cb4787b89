package manifestview_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/manifestview"
	"github.com/podstead/podstead/test/manifestapi"
)

// A manifest names its pods also while a new revision is in effect whose pod the supervisor
// does not have yet: podstead wait --for=revision reads them directly after an edit.
func TestManifestsNameThePodsInEffect(t *testing.T) {
	text := func(image string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: " + image + "}]}\n"
	}
	h := manifestapi.New(t, map[string]string{"web.yaml": text("a")})
	file := filepath.Join(h.Dir, "web.yaml")
	view := manifestview.View{Config: h.Config}
	digest := ""
	for _, image := range []string{"a", "b"} {
		h.Write("web.yaml", text(image))
		h.Await("the manifest with image "+image+" is in effect", func() bool {
			unit := view.Manifests()[0].Units[0]
			if unit.Name != file || !slices.Equal(unit.Pods, []string{"default/web"}) {
				t.Fatalf("%s has the pods %q", unit.Name, unit.Pods)
			}
			return unit.Digest == manifest.Digest([]byte(text(image))) && unit.Digest != digest
		})
		digest = view.Manifests()[0].Units[0].Digest
		if got := view.Find("Pod", "default", "web-n1"); got != file {
			t.Errorf("the manifest of the pod is %q", got)
		}
	}
	if got := view.Find("Pod", "default", "web"); got != "" {
		t.Errorf("a pod of another name has the manifest %q", got)
	}
}
