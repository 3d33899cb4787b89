package pod

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestPolicyFor(t *testing.T) {
	for source, want := range map[Source]struct {
		static, rejects, restarts bool
		objects                   ObjectScope
	}{
		SourceFile: {static: true, restarts: true, objects: ManifestObjects},
		SourceHTTP: {static: true, restarts: true, objects: ManifestObjects},
		SourceAPI:  {rejects: true, objects: ClusterObjects},
		"":         {static: true, restarts: true},
	} {
		p := PolicyFor(source)
		if p.Source != source || p.Static != want.static || p.Rejects != want.rejects || p.Restarts != want.restarts ||
			p.Objects != want.objects {
			t.Errorf("source %q: %+v", source, p)
		}
		if p.VerifiesImages != (source == SourceAPI) {
			t.Errorf("source %q verifies images: %v", source, p.VerifiesImages)
		}
		if p.RemovedText == "" || p.ReplacedText == "" {
			t.Errorf("source %q has no texts", source)
		}
	}
	pod := &v1.Pod{}
	pod.Annotations = map[string]string{AnnotationSource: "api"}
	if PolicyOf(pod).Static {
		t.Error("a pod of the API server is static")
	}
}
