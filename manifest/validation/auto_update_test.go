package validation

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

func autoUpdated(mode string, containers ...v1.Container) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default",
			Annotations: map[string]string{podinfo.AnnotationAutoUpdate: mode}},
		Spec: v1.PodSpec{Containers: containers},
	}
	SetDefaults(pod)
	return pod
}

func TestAutoUpdateValues(t *testing.T) {
	for mode, want := range map[string]string{
		"registry": "", "local": "",
		"image":    `"image" is not supported`,
		"":         `"" is not supported`,
		"disabled": `supported values: "registry", "local"`,
	} {
		pod := autoUpdated(mode, v1.Container{Name: "web", Image: "registry.test/web:1"})
		var texts []string
		for _, f := range CheckPod(pod) {
			texts = append(texts, f.Path+": "+f.Problem+"; "+f.Remedy)
		}
		text := strings.Join(texts, "\n")
		if want == "" && text != "" || !strings.Contains(text, want) || want != "" &&
			!strings.HasPrefix(text, "metadata.annotations[podstead.io/auto-update]: ") {
			t.Errorf("%q: %q, want %q", mode, text, want)
		}
		if errs := UnsupportedBound(pod); len(errs) > 0 {
			t.Errorf("%q of an API pod: %v", mode, errs)
		}
	}
}

// A container that cannot be updated is a warning, which names it.
func TestAutoUpdateWarnings(t *testing.T) {
	digest := v1.Container{Name: "pinned", Image: "registry.test/web@sha256:" + strings.Repeat("a", 64)}
	never := v1.Container{Name: "never", Image: "registry.test/web:1", ImagePullPolicy: v1.PullNever}
	tag := v1.Container{Name: "tag", Image: "registry.test/web:1"}
	for _, c := range []struct {
		mode       string
		containers []v1.Container
		want       string
	}{
		{"registry", []v1.Container{tag}, ""},
		{"local", []v1.Container{tag, never}, ""},
		{"registry", []v1.Container{tag, never}, "spec.containers[1].imagePullPolicy"},
		{"registry", []v1.Container{tag, digest}, "spec.containers[1].image"},
		{"local", []v1.Container{digest}, "spec.containers[0].image"},
	} {
		var paths []string
		for _, w := range Warnings(autoUpdated(c.mode, c.containers...)) {
			if paths = append(paths, w.Path); !w.Warning || w.Remedy == "" {
				t.Errorf("%+v", w)
			}
		}
		if got := strings.Join(paths, " "); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.mode, c.containers, got, c.want)
		}
	}
}
