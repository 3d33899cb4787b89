package oracle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/podstead/podstead/manifest"
)

// corpusDir contains typical manifests, which package manifest tests as well.
const corpusDir = "../../manifest/testdata/corpus"

// strictly decodes like an API server with strict field validation.
var strictly = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// TestManifests loads each manifest of the corpus with podstead's loader and with
// Kubernetes. If both accept it, the results must be equal; if only one does, the
// reason must be listed.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob(corpusDir + "/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	byReference := 0
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			theirs := upstreamUnit(t, data)
			content, faults := manifest.NewLoader(nodeName, manifest.ModeStrict).
				Load(manifest.LoadRequest{Source: manifest.SourceFile, Unit: name, Data: data})
			for _, pod := range theirs.pods {
				compare(t, pod)
			}
			checkVerdict(t, name, faults, theirs.faults)
			if faults.Fatal() || len(theirs.faults) > 0 {
				return
			}
			if len(content.Documents) != len(theirs.pods) {
				t.Fatalf("%d pods, want %d", len(content.Documents), len(theirs.pods))
			}
			for i, pod := range theirs.pods {
				compareLoaded(t, content.Documents[i].Pod, pod)
				byReference += servedByObjects(t, pod)
			}
		})
	}
	for name := range verdictDifferences {
		if !slices.Contains(files, filepath.Join(corpusDir, name)) {
			t.Errorf("a difference is listed for %s, which does not exist", name)
		}
	}
	if byReference == 0 {
		t.Error("no pod refers to a local object")
	}
}

// checkVerdict fails if the two disagree without a listed reason, or agree in spite
// of one.
func checkVerdict(t *testing.T, name string, ours manifest.Faults, theirs []string) {
	t.Helper()
	reason, listed := verdictDifferences[name]
	switch agree := ours.Fatal() == (len(theirs) > 0); {
	case !agree && isNotYet(ours):
	case agree && listed:
		t.Errorf("both agree, but a difference is listed: %s", reason)
	case !agree && !listed:
		t.Errorf("no difference is listed.\nours:\n%s\ntheirs:\n%s", ours.Error(), strings.Join(theirs, "\n"))
	}
}

// isNotYet reports whether a unit is rejected only for what a later version may
// support.
func isNotYet(faults manifest.Faults) bool {
	return faults.Fatal() && !slices.ContainsFunc(faults, func(fault manifest.Fault) bool {
		return !fault.Warning && !strings.Contains(fault.Problem, "not supported yet by this version")
	})
}

// compareLoaded compares a loaded pod with what Kubernetes makes of the same
// document, apart from the identity of a static pod.
func compareLoaded(t *testing.T, loaded, decoded *v1.Pod) {
	t.Helper()
	ours, theirs := loaded.DeepCopy(), upstreamDefaults(t, decoded)
	if got, want := manifest.BaseName(ours), theirs.Name; got != want {
		t.Errorf("name %q, want %q", got, want)
	}
	ours.Spec.NodeName, theirs.Spec.NodeName = "", ""
	// API servers translate the annotations of profiles outside of defaulting.
	translateAnnotations(theirs)
	static := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	if !slices.Contains(ours.Spec.Tolerations, static) {
		t.Error("a static pod must tolerate NoExecute")
	}
	isStatic := func(toleration v1.Toleration) bool { return toleration == static }
	ours.Spec.Tolerations = slices.DeleteFunc(ours.Spec.Tolerations, isStatic)
	theirs.Spec.Tolerations = slices.DeleteFunc(theirs.Spec.Tolerations, isStatic)
	if len(theirs.Spec.Tolerations) == 0 {
		ours.Spec.Tolerations, theirs.Spec.Tolerations = nil, nil
	}
	if got, want := toJSON(t, ours.Spec), toJSON(t, theirs.Spec); got != want {
		t.Errorf("the spec is\n%s\nwant\n%s", got, want)
	}
	if got, want := toJSON(t, ours.Labels), toJSON(t, theirs.Labels); got != want {
		t.Errorf("the labels are %s, want %s", got, want)
	}
	for key, value := range theirs.Annotations {
		if ours.Annotations[key] != value {
			t.Errorf("annotation %s is %q, want %q", key, ours.Annotations[key], value)
		}
	}
}

// servedByObjects returns 1 for a pod that the kubelet would reject in a file
// because it refers to an object of the API server; here local objects are used.
func servedByObjects(t *testing.T, pod *v1.Pod) int {
	t.Helper()
	refers, resource, err := podutil.HasAPIObjectReference(upstreamPod(t, pod))
	if err != nil {
		t.Fatal(err)
	}
	if !refers {
		return 0
	}
	kind, _, _ := strings.Cut(resource, " ")
	if kind == "serviceaccounts" && pod.Spec.AutomountServiceAccountToken != nil &&
		!*pod.Spec.AutomountServiceAccountToken {
		return 0 // The name of an account that the pod asks nothing of.
	}
	if kind == "csidrivers" {
		return 0 // The driver of an inline volume needs no CSIDriver object here.
	}
	if !slices.Contains([]string{"configmaps", "secrets", "persistentvolumeclaims"}, kind) {
		t.Errorf("refers to %s, which cannot be a local object, but is accepted", resource)
	}
	return 1
}

// unit is the result of Kubernetes for one file.
type unit struct {
	// pods are all pods that could be decoded, not defaulted.
	pods   []*v1.Pod
	faults []string
}

// upstreamUnit reads all documents of a file, as kubectl does.
func upstreamUnit(t *testing.T, data []byte) unit {
	t.Helper()
	u := unit{}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return u
		}
		if err != nil {
			u.faults = append(u.faults, err.Error())
			return u
		}
		text, err := utilyaml.ToJSON(document)
		switch {
		case err != nil:
			u.faults = append(u.faults, err.Error())
		case string(text) != "null":
			u.object(t, text)
		}
	}
}

// object decodes and validates an object or the items of a list. The classes
// belong to other API groups and are ignored.
func (u *unit) object(t *testing.T, text []byte) {
	t.Helper()
	if bytes.Contains(text, []byte(`"kind":"PriorityClass"`)) || bytes.Contains(text, []byte(`"kind":"RuntimeClass"`)) {
		return
	}
	object, _, err := strictly.Decode(text, nil, nil)
	if err != nil {
		u.faults = append(u.faults, err.Error())
		return
	}
	switch object := object.(type) {
	case *v1.Pod:
		u.pod(t, object)
	case *v1.PodList:
		for i := range object.Items {
			u.pod(t, &object.Items[i])
		}
	case *v1.List:
		for _, item := range object.Items {
			u.object(t, item.Raw)
		}
	default:
		u.other(t, object)
	}
}

func (u *unit) pod(t *testing.T, pod *v1.Pod) {
	t.Helper()
	pod.Status = v1.PodStatus{} // That of another pod: neither side looks at it.
	u.pods = append(u.pods, pod)
	for _, err := range upstreamFaults(t, pod) {
		u.faults = append(u.faults, err.Error())
	}
}

// other validates objects other than pods.
func (u *unit) other(t *testing.T, object runtime.Object) {
	t.Helper()
	legacyscheme.Scheme.Default(object)
	internal, err := legacyscheme.Scheme.UnsafeConvertToVersion(object, core.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	switch object := internal.(type) {
	case *core.ConfigMap:
		object.Namespace = "default"
		for _, err := range validation.ValidateConfigMap(object) {
			u.faults = append(u.faults, err.Error())
		}
	case *core.Secret:
		object.Namespace = "default"
		for _, err := range validation.ValidateSecret(object) {
			u.faults = append(u.faults, err.Error())
		}
	case *core.PersistentVolumeClaim:
		object.Namespace = "default"
		for _, err := range validation.ValidatePersistentVolumeClaim(object,
			validation.ValidationOptionsForPersistentVolumeClaim(object, nil)) {
			u.faults = append(u.faults, err.Error())
		}
	default:
		u.faults = append(u.faults, fmt.Sprintf("%T is no manifest for a node", object))
	}
}
