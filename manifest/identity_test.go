package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	sigsyaml "sigs.k8s.io/yaml"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest/validation"
)

// identity is the part of a pod that must not change without a reason.
type identity struct{ uid, hash, template string }

// identityOf decodes a generic pod and gives it its identity without validating
// it, so that fields that are not supported yet are covered as well.
func identityOf(t *testing.T, value any) identity {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{}
	if err := json.Unmarshal(text, pod); err != nil {
		t.Fatal(err)
	}
	validation.SetDefaults(pod)
	NewLoader("node1", ModeStrict).identify(pod, SourceFile)
	return identity{string(pod.UID), pod.Annotations[podinfo.AnnotationHash], pod.Annotations[podinfo.AnnotationTemplate]}
}

// corpus returns the pods of testdata/pods as generic JSON, by name.
func corpus(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob("testdata/pods/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no pods: %v", err)
	}
	pods := map[string]map[string]any{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		raw, fault := decodeYAML(chunk{text: data})
		if fault != nil {
			t.Fatal(fault)
		}
		if faults := newLocation(raw.tree, 0).schemaChecker().Check(raw.value, reflect.TypeFor[v1.Pod]()); len(faults) > 0 {
			t.Fatalf("%s: %v", file, faults)
		}
		pods[strings.TrimSuffix(filepath.Base(file), ".yaml")] = raw.value.(map[string]any)
	}
	return pods
}

// TestIdentityGolden pins the identities: a change of one of them replaces
// running pods whose manifests the checkpoint does not know.
func TestIdentityGolden(t *testing.T) {
	pods := corpus(t)
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		id := identityOf(t, pods[name])
		fmt.Fprintf(&all, "%s: uid %s hash %s template %s digest %s\n", name, id.uid, id.hash, id.template,
			documentDigest(pods[name], nil))
	}
	checkGolden(t, "identities.txt", all.String())
}

// TestIdentityOfExplicitDefaults sets some of the defaults explicitly.
func TestIdentityOfExplicitDefaults(t *testing.T) {
	for name, written := range corpus(t) {
		text, err := json.Marshal(written)
		if err != nil {
			t.Fatal(err)
		}
		pod := &v1.Pod{}
		if err := json.Unmarshal(text, pod); err != nil {
			t.Fatal(err)
		}
		validation.SetDefaults(pod)
		defaulted, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		full, err := jsonValue(defaulted)
		if err != nil {
			t.Fatal(err)
		}
		want := identityOf(t, written)
		if got := identityOf(t, full); got != want {
			t.Errorf("%s: all defaults explicit: %v, want %v", name, got, want)
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			some := cloneJSON(full)
			dropSome(some, written, random)
			if got := identityOf(t, some); got != want {
				text, _ := sigsyaml.Marshal(some)
				t.Errorf("%s: some defaults explicit: %v, want %v\n%s", name, got, want, text)
				break
			}
		}
	}
}

// dropSome removes from full, at random, what is not in written.
func dropSome(full, written any, random *rand.Rand) {
	switch full := full.(type) {
	case map[string]any:
		written, _ := written.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(full)) {
			if inner, ok := written[name]; ok {
				dropSome(full[name], inner, random)
			} else if random.IntN(2) == 0 {
				delete(full, name)
			}
		}
	case []any:
		written, _ := written.([]any)
		for i := range min(len(full), len(written)) {
			dropSome(full[i], written[i], random)
		}
	}
}

// TestClearDefaultsIsComplete finds what SetDefaults sets in a pod that has every
// struct and no values.
func TestClearDefaultsIsComplete(t *testing.T) {
	hollow := &v1.Pod{}
	fill(reflect.ValueOf(hollow).Elem(), false, 0)
	before := jsonObject(hollow)
	validation.SetDefaults(hollow)
	after := jsonObject(hollow)

	full := fullPod()
	validation.SetDefaults(full)
	validation.ClearDefaults(&full.Spec)
	left := leaves(jsonObject(full), "", nil)

	defaults := 0
	for _, path := range leaves(after, "", nil) {
		if reflect.DeepEqual(leafOf(before, path), leafOf(after, path)) ||
			strings.HasPrefix(path, "spec.ephemeralContainers") {
			continue
		}
		defaults++
		if slices.Contains(left, path) {
			t.Errorf("%s is defaulted, but not removed from the identity", path)
		}
	}
	if defaults < 50 {
		t.Errorf("found only %d defaults", defaults)
	}
}

// TestIdentityCoversEverything searches the hashed form for each value of a pod
// in which all fields have values other than their defaults.
func TestIdentityCoversEverything(t *testing.T) {
	pod := fullPod()
	whole := jsonObject(pod.DeepCopy())
	validation.SetDefaults(pod)
	form := identityForm(pod)
	shape := withoutResources(form)
	for _, path := range leaves(whole, "", nil) {
		value := leafOf(whole, path)
		if got := leafOf(form, path); !reflect.DeepEqual(got, value) && !isNoIdentity(path) {
			t.Errorf("%s: %v, is %v in the hash", path, value, got)
		} else if got != nil && isNoIdentity(path) {
			t.Errorf("%s is in the hash", path)
		}
		if got := leafOf(shape, path); (got == nil) != (isNoIdentity(path) || isResizable(path)) {
			t.Errorf("%s: %v, is %v in the UID", path, value, got)
		}
	}
}

// isResizable reports whether a resize can change a field.
func isResizable(path string) bool {
	return regexp.MustCompile(
		`^spec\.((initC|c)ontainers\[0\]\.)?resources\.(limits|requests)\.(cpu|memory)$`).MatchString(path)
}

// isNoIdentity reports whether a field does not change the identity of a pod.
func isNoIdentity(path string) bool {
	switch path {
	case "metadata.creationTimestamp", "metadata.resourceVersion", "metadata.generation", "metadata.selfLink",
		"spec.nodeName", "kind", "apiVersion",
		// Overwritten by serviceAccountName, as at the API server.
		"spec.serviceAccount":
		return true
	}
	return strings.HasPrefix(path, "status.") || strings.HasPrefix(path, "metadata.managedFields")
}

// TestIdentityOfEdits lists what each edit changes.
func TestIdentityOfEdits(t *testing.T) {
	const pod = `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: web
    image: nginx:1.29
    resources: {requests: {cpu: 500m, memory: 64Mi}, limits: {memory: 128Mi}}
    env: [{name: A, value: a}, {name: B, value: b}]
  volumes: [{name: data}]
`
	none := identity{}
	keep, all := identity{"=", "=", "="}, identity{"≠", "≠", "≠"}
	tests := map[string]struct {
		old, new string
		want     identity
	}{
		"a comment":             {"kind: Pod", "kind: Pod # the web server", keep},
		"key order":             {"apiVersion: v1\nkind: Pod", "kind: Pod\napiVersion: v1", keep},
		"quotes":                {"name: web, labels", `"name": 'web', labels`, keep},
		"a default":             {"    image:", "    terminationMessagePath: /dev/termination-log\n    image:", keep},
		"the default namespace": {"name: web, labels", "name: web, namespace: default, labels", keep},
		"the default volume":    {"{name: data}", "{name: data, emptyDir: {}}", keep},
		"an equal request":      {"limits: {memory: 128Mi}", "limits: {memory: 128Mi}, claims: []", keep},
		"another unit":          {"cpu: 500m", `cpu: "0.5"`, keep},
		"another suffix":        {"memory: 128Mi", "memory: 131072Ki", keep},
		"a plain number":        {"memory: 128Mi", "memory: 134217728", keep},
		"empty values":          {"kind: Pod", "kind: Pod\nstatus: {}", keep},
		"empty lists": {"    image:", "    args: []\n    ports: null\n    securityContext: {}\n    image:",
			keep},
		"another status": {"kind: Pod", "kind: Pod\nstatus: {phase: Running}", keep},
		"server fields": {"name: web, labels",
			"name: web, resourceVersion: '7', creationTimestamp: 2026-01-01T00:00:00Z, labels", keep},
		"the node's name": {"spec:", "spec:\n  nodeName: node1", keep},
		"kubelet annotations": {"name: web, labels",
			"name: web, annotations: {kubernetes.io/config.hash: x, kubernetes.io/config.seen: 'y'}, labels", keep},
		"a resize":              {"cpu: 500m", "cpu: 700m", identity{"=", "≠", "="}},
		"a resize of the limit": {"limits: {memory: 128Mi}", "limits: {memory: 256Mi}", identity{"=", "≠", "="}},
		"a limit more":          {"limits: {memory: 128Mi}", "limits: {memory: 128Mi, cpu: 1}", identity{"=", "≠", "="}},
		"another QoS class": {"requests: {cpu: 500m, memory: 64Mi}, limits: {memory: 128Mi}",
			"limits: {cpu: 1, memory: 128Mi}", all},
		"best effort": {"    resources: {requests: {cpu: 500m, memory: 64Mi}, limits: {memory: 128Mi}}\n", "",
			all},
		"a resource of other kind": {"limits: {memory: 128Mi}", "limits: {memory: 128Mi, example.com/gpu: 1}", all},
		"another image":            {"nginx:1.29", "nginx:1.30", identity{"≠", "≠", "="}},
		"image and pull default":   {"nginx:1.29", "nginx:latest", identity{"≠", "≠", "="}},
		"another label":            {"app: web", "app: shop", identity{"≠", "≠", "="}},
		"an empty label":           {"app: web", "app: web, tier: ''", identity{"≠", "≠", "="}},
		"another namespace":        {"name: web, labels", "name: web, namespace: shop, labels", all},
		"another name":             {"name: web, labels", "name: shop, labels", all},
		"another env":              {"value: b", "value: c", all},
		"the order of a list": {"{name: A, value: a}, {name: B, value: b}", "{name: B, value: b}, {name: A, value: a}",
			all},
		"another volume":       {"{name: data}", "{name: data, downwardAPI: {}}", all},
		"a false":              {"spec:", "spec:\n  automountServiceAccountToken: false", all},
		"a zero":               {"spec:", "spec:\n  securityContext: {runAsUser: 0}", all},
		"grace at its default": {"spec:", "spec:\n  terminationGracePeriodSeconds: 30", keep},
		"no grace":             {"spec:", "spec:\n  terminationGracePeriodSeconds: 0", all},
	}
	load := func(text string) identity {
		raw, fault := decodeYAML(chunk{text: []byte(text)})
		if fault != nil {
			t.Fatalf("%v\n%s", fault, text)
		}
		return identityOf(t, raw.value)
	}
	before := load(pod)
	if before == none {
		t.Fatal("no identity")
	}
	sign := func(a, b string) string {
		if a == b {
			return "="
		}
		return "≠"
	}
	for name, test := range tests {
		edited := strings.Replace(pod, test.old, test.new, 1)
		if edited == pod {
			t.Errorf("%s: the edit changes nothing", name)
		}
		after := load(edited)
		got := identity{sign(before.uid, after.uid), sign(before.hash, after.hash), sign(before.template, after.template)}
		if got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

// fullPod has a value for every field of a pod, none of them its default, and
// one item in each list.
func fullPod() *v1.Pod {
	pod := &v1.Pod{}
	fill(reflect.ValueOf(pod).Elem(), true, 0)
	links := false
	pod.Spec.EnableServiceLinks = &links
	pod.Spec.Resources = &v1.ResourceRequirements{Limits: resources("8"), Requests: resources("7")}
	// On the host's network the container's port would be the default.
	pod.Spec.Containers[0].Ports[0].HostPort = 5
	pod.Spec.InitContainers[0].Ports[0].HostPort = 5
	pod.Spec.EphemeralContainers = nil // never in a manifest
	pod.ManagedFields = nil
	pod.DeletionTimestamp = nil
	return pod
}

func resources(quantity string) v1.ResourceList {
	list := v1.ResourceList{}
	for _, name := range []v1.ResourceName{"cpu", "memory", "hugepages-2Mi", "example.com/x"} {
		list[name] = resource.MustParse(quantity)
	}
	return list
}

// fill sets every pointer and list below a value; with values, it sets the scalars
// as well.
func fill(value reflect.Value, values bool, depth int) {
	switch instance := value.Addr().Interface().(type) {
	case *v1.ResourceRequirements:
		if values {
			*instance = v1.ResourceRequirements{Limits: resources("5"), Requests: resources("4"),
				Claims: []v1.ResourceClaim{{Name: "value", Request: "value"}}}
		}
		return
	case *resource.Quantity:
		*instance = resource.MustParse("4")
		return
	case *v1.ResourceList:
		*instance = resources("4")
		return
	case *intstr.IntOrString:
		*instance = intstr.FromInt32(4)
		return
	case *metav1.FieldsV1:
		instance.SetRawString(`{"f:x":{"f:y":1}}`)
		return
	case *metav1.Time:
		*instance = metav1.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		return
	}
	switch kind := value.Kind(); kind {
	case reflect.Pointer:
		if inner := value.Type().Elem().Kind(); values || inner == reflect.Struct {
			value.Set(reflect.New(value.Type().Elem()))
			fill(value.Elem(), values, depth)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if field := value.Field(i); field.CanSet() && depth < 20 {
				fill(field, values, depth+1)
			}
		}
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(value.Index(0), values, depth)
	default:
		if values {
			fillPlain(value)
		}
	}
}

func fillPlain(value reflect.Value) {
	switch value.Kind() {
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		item := reflect.New(value.Type().Elem()).Elem()
		fill(item, true, 0)
		value.SetMapIndex(reflect.ValueOf("key").Convert(value.Type().Key()), item)
	case reflect.String:
		value.SetString("value")
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(4)
	}
}
